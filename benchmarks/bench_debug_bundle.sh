#!/usr/bin/env bash
# How long a debug bundle takes beside the four Ray commands it replaces, one after another; on the running local cluster.
#
# usage: [ROUNDS=7] ./benchmarks/bench_debug_bundle.sh [--cluster NAME|FILE]
source "$(dirname "${BASH_SOURCE[0]}")/lib/measure.sh"
start_benchmark "$@"

rays_commands() {
  ray status --address "$GCS"
  ray job list --address "$DASHBOARD"
  ray list nodes --address "$DASHBOARD"
  ray list actors --address "$DASHBOARD"
}

file=$(synthetic_root 1)
MVP_CLUSTER_JSON=$(<"$file")
export MVP_CLUSTER_JSON
for ((round = 0; round < ROUNDS; round++)); do
  measure 'debug-bundle' "$PYTHON" -m mvp_helpers debug-bundle job-0
  measure 'ray status + job list + list nodes + list actors' rays_commands
done
compare 'debug-bundle' 'ray status + job list + list nodes + list actors' 0.15
