#!/usr/bin/env bash
# What a submission costs beside the bare `ray job submit`: accepted (--no-wait) and followed to the end (--wait), on the running local
# cluster with a shared root of its own. The planned job passes every check of a PPO job (paths, model, data, overrides, batch sizes)
# and then runs `true`.
#
# usage: [ROUNDS=7] ./benchmarks/bench_submit.sh [--cluster NAME|FILE]
source "$(dirname "${BASH_SOURCE[0]}")/lib/measure.sh"
start_benchmark "$@"

MVP_CLUSTER=$(synthetic_root 10)
export MVP_CLUSTER MVP_WORKLOADS=$BENCH_TMP/workloads
mkdir "$MVP_WORKLOADS"
printf 'entry: {command: ["true"]}\n' >"$MVP_WORKLOADS/true.yaml"
sed -e 's/^entry:.*/entry: {command: ["true"]}/' -e 's/^imports:.*/imports: []/' "$PROJECT/templates/workloads/ppo.yaml" \
  >"$MVP_WORKLOADS/planned.yaml"
echo 'workload: "true"' >"$BENCH_TMP/true.yaml"
sed 's/"ppo"/"planned"/' "$PROJECT/templates/ppo.json" >"$BENCH_TMP/planned.json"
"$SCRIPTS/30_prepare_data_and_model.sh" &>/dev/null
"$SCRIPTS/31_snapshot_verl_code.sh" &>/dev/null
load_cluster

bare() { # [--no-wait]: what a person types without this toolkit
  ray job submit --address "$DASHBOARD" --entrypoint-resources '{"worker_node": 1}' --entrypoint-num-cpus 1 "$@" -- true
}

new_overrides() { # [<key>]: a set nobody asked for yet; with a key, one more value
  sed "s/\"trainer.save_freq\": 10/\"trainer.save_freq\": $((RANDOM + 11))${1:+, \"$1\": 0.$((RANDOM + 1))}/" \
    "$BENCH_TMP/planned.json" >"$BENCH_TMP/new.json"
  "$SCRIPTS/43_submit_jobspec.sh" "$BENCH_TMP/new.json" --dry-run
}

extra() { # <label>: what a set of overrides costs beside a known one
  local ms=$(($(median "$1") - $(median '43 --dry-run, known overrides')))
  printf '%-44s %6s ms (limit 300): %s\n' "of it, with ${1#*, }" "$ms" "$( ((ms <= 300)) && echo within || echo OVER)"
}

"$SCRIPTS/43_submit_jobspec.sh" "$BENCH_TMP/planned.json" &>/dev/null # its overrides are known from here on
for ((round = 0; round < ROUNDS; round++)); do
  measure '43 --no-wait' "$SCRIPTS/43_submit_jobspec.sh" "$BENCH_TMP/planned.json" --no-wait
  measure 'ray job submit --no-wait' bare --no-wait
  measure '43 --dry-run, new overrides' new_overrides
  # Other values of verl's config are interpolations of it.
  measure '43 --dry-run, new overrides, referred to' new_overrides actor_rollout_ref.rollout.temperature
  measure '43 --dry-run, known overrides' "$SCRIPTS/43_submit_jobspec.sh" "$BENCH_TMP/planned.json" --dry-run
  sleep 3 # the jobs just accepted have ended
  measure '43 --wait' "$SCRIPTS/43_submit_jobspec.sh" "$BENCH_TMP/true.yaml" --wait
  measure 'ray job submit' bare
done
compare '43 --no-wait' 'ray job submit --no-wait' 1.05
extra '43 --dry-run, new overrides'
extra '43 --dry-run, new overrides, referred to'
compare '43 --wait' 'ray job submit' 0.5
