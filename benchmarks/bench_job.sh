#!/usr/bin/env bash
# What the toolkit adds to a whole training: the default PPO by `43 --wait`, and a bare `ray job submit` of the same trainer command, in
# turns, on the running local cluster with data, model and code prepared. To the first step, and to the end.
#
# usage: [ROUNDS=5] ./benchmarks/bench_job.sh [--cluster NAME|FILE]
ROUNDS=${ROUNDS:-5}
source "$(dirname "${BASH_SOURCE[0]}")/lib/measure.sh"
start_benchmark "$@"
jobs=$SHARED_ROOT/jobs mark=bench-$$

timed() { # <label> <file of the metrics> <command>...
  local times
  times=$("$PYTHON" "$PROJECT/benchmarks/lib/first_step.py" "$2" "$BENCH_TMP/log" "${@:3}") || die 1 "$1 failed: $(tail -n 3 "$BENCH_TMP/log")"
  TIMES["$1, first step"]+=" ${times% *}"
  TIMES["$1, end"]+=" ${times#* }"
  say "$1: $times ms"
}

bare_command() { # <job folder> <folder for the bare run>: its runtime_env, then its trainer's argv, a line each; without the toolkit
  "$PYTHON" - "$@" <<'PY'
import json, sys, yaml
job, bare = sys.argv[1:]
plan = yaml.safe_load(open(f"{job}/config/resolved.yaml"))
ours = ("MVP_", "RAY_JOB_STOP", "VERL_USE_EXTERNAL_MODULES=mvp_verl.hook")
kept = {k: v.replace(job, bare) for k, v in plan["env_vars"].items() if not f"{k}={v}".startswith(ours)}
print(json.dumps({"env_vars": kept}))
print(*(word.replace(job, bare) for word in plan["argv"]), sep="\n")
PY
}

for ((round = 1; round <= ROUNDS; round++)); do
  id=$mark-$round
  sed "s/\"workload\"/\"submission_id\": \"$id\", \"workload\"/" "$PROJECT/templates/ppo.json" >"$BENCH_TMP/ppo.json"
  timed '43 --wait' "$jobs/$id/metrics.jsonl" "$SCRIPTS/43_submit_jobspec.sh" "$BENCH_TMP/ppo.json" --wait
  mkdir -p "$BENCH_TMP/$id"
  mapfile -t bare < <(bare_command "$jobs/$id" "$BENCH_TMP/$id")
  timed 'ray job submit' "$BENCH_TMP/$id/metrics.jsonl" ray job submit --address "$DASHBOARD" --entrypoint-resources '{"worker_node": 1}' \
    --entrypoint-num-cpus 1 --runtime-env-json "${bare[0]}" -- "${bare[@]:1}"
done
compare '43 --wait, first step' 'ray job submit, first step' 1.03
compare '43 --wait, end' 'ray job submit, end' 1.03
