#!/usr/bin/env bash
# How long 50_status.sh takes beside Ray's own commands, and with 10,000 finished jobs beside 10; on the running local cluster.
#
# usage: [ROUNDS=7] ./benchmarks/bench_status.sh [--cluster NAME|FILE]
source "$(dirname "${BASH_SOURCE[0]}")/lib/measure.sh"
start_benchmark "$@"

rays_commands() {
  ray status --address "$GCS"
  ray job list --address "$DASHBOARD"
  ray list nodes --address "$DASHBOARD"
}

few=$(synthetic_root 10)
many=$(synthetic_root 10000)
for ((round = 0; round < ROUNDS; round++)); do
  measure '50_status.sh' "$PROJECT/scripts/50_status.sh"
  measure 'ray status + ray job list + ray list nodes' rays_commands
  measure '50_status.sh, 10 finished jobs' "$PROJECT/scripts/50_status.sh" --cluster "$few"
  measure '50_status.sh, 10,000 finished jobs' "$PROJECT/scripts/50_status.sh" --cluster "$many"
done
compare '50_status.sh' 'ray status + ray job list + ray list nodes' 0.15
compare '50_status.sh, 10,000 finished jobs' '50_status.sh, 10 finished jobs' 1.5
