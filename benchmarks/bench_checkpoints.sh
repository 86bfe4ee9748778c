#!/usr/bin/env bash
# How long 57_checkpoints.sh takes to list the checkpoints of 1,000 jobs, two each; needs no running cluster.
#
# usage: [ROUNDS=7] [JOBS=1000] ./benchmarks/bench_checkpoints.sh
#
# Prints the median of wall and of CPU time, which counts on a busy machine. The limit is 1 s.
source "$(dirname "${BASH_SOURCE[0]}")/lib/measure.sh"
parse_options '' "$@"
find_python
BENCH_TMP=$(mktemp -d)
trap 'rm -rf "$BENCH_TMP"' EXIT

say "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $ROUNDS rounds"
"$PYTHON" "$PROJECT/benchmarks/lib/checkpoints.py" "$BENCH_TMP" "${JOBS:-1000}" "$ROUNDS" || exit
