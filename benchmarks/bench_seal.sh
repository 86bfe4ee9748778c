#!/usr/bin/env bash
# How long sealing a job with 12 GB of checkpoints takes beside sha256sum of the same files, one after another. Needs no cluster, and
# the space below .mvp/.
#
# usage: [SIZE_GB=12] [ROUNDS=7] ./benchmarks/bench_seal.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/measure.sh"
parse_options '' "$@"
load_cluster
mkdir -p "$PROJECT/.mvp"
BENCH_TMP=$(mktemp -d "$PROJECT/.mvp/bench-seal.XXXXXX")
trap 'rm -rf "$BENCH_TMP"' EXIT
export PYTHONPATH=$PROJECT/lib

sums() { find "$job" -type f -exec sha256sum {} +; }

job=$("$PYTHON" "$PROJECT/benchmarks/lib/sealing.py" make "$BENCH_TMP/root" "${SIZE_GB:-12}")
say "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $ROUNDS rounds, $(du -sh "$job" | cut -f1)"
for ((round = 0; round < ROUNDS; round++)); do
  measure 'seal' "$PYTHON" "$PROJECT/benchmarks/lib/sealing.py" seal "$job"
  measure 'sha256sum' sums
done
compare 'seal' 'sha256sum' 1.0
