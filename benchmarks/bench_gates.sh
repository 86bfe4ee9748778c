#!/usr/bin/env bash
# How often each gate that the project ships fails for nothing: RUNS equal jobs of each workload, one after another on the running local
# cluster with data, model and code prepared; then each run is judged against baselines of the others (lib/false_alarms.py).
# Ten jobs of one workload take 10 to 20 minutes on two cores; at least four are needed for a rate, three for a baseline.
#
# usage: [RUNS=10] [RECORD=1] ./benchmarks/bench_gates.sh [WORKLOAD...] [--cluster NAME|FILE]
#
# WORKLOAD is ppo, grpo or sft; all of them without one. RECORD=1 also writes what the project ships: the baselines of these runs
# (56_report.sh --baseline) as templates/gates/baselines/cpu-<workload>.<processor>.json, and what gates read of the runs as
# tests/unit/gates/runs/ with the same name.
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"
parse_options '[WORKLOAD...]' "$@"
export MVP_CLUSTER # --cluster is for the scripts too
load_cluster
runs=${RUNS:-10}
((${#ARGS[@]})) || ARGS=(ppo grpo sft)
processor=$(sed -n '/^model name/{s/.*: //; s/([^)]*)//g; p; q}' /proc/cpuinfo | tr '[:upper:]' '[:lower:]' | tr -cs '[:alnum:]\n' -)
say "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $runs runs of each workload"
for workload in "${ARGS[@]}"; do
  ids=() name=cpu-$workload.${processor:-$(uname -m)} record=()
  for ((run = 1; run <= runs; run++)); do
    id=$("$SCRIPTS/43_submit_jobspec.sh" "$PROJECT/templates/$workload.json" --wait 2>/dev/null) ||
      die 1 "job $run of $workload failed" ./scripts/50_status.sh
    ids+=("$id")
    say "$workload $run of $runs: ${ids[-1]}"
  done
  if [[ ${RECORD:-} == 1 ]]; then
    made=$("$SCRIPTS/56_report.sh" --baseline "$name" "${ids[@]}")
    mkdir -p "$PROJECT/templates/gates/baselines"
    cp "$made" "$PROJECT/templates/gates/baselines/$name.json"
    record=(--write "$PROJECT/tests/unit/gates/runs/$name.json")
  fi
  PYTHONPATH=$PROJECT/lib "$PYTHON" "$PROJECT/benchmarks/lib/false_alarms.py" "${record[@]}" "$workload" "${ids[@]/#/$SHARED_ROOT/jobs/}"
done
