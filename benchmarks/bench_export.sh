#!/usr/bin/env bash
# How long 57_checkpoints.sh --export takes beside verl's model merger alone, in turns: an FSDP checkpoint of a random model of 0.5B parameters.
# The export also loads the result, generates a line, and computes the SHA-256 of each file. Needs no running cluster; 8 GB of memory and disk.
#
# usage: [ROUNDS=3] [HIDDEN=1536] [LAYERS=24] ./benchmarks/bench_export.sh
#
# Prints medians of wall and of CPU time, which counts on a busy machine. The limit is 1.1 times the merger.
ROUNDS=${ROUNDS:-3}
source "$(dirname "${BASH_SOURCE[0]}")/lib/measure.sh"
parse_options '' "$@"
find_python
BENCH_TMP=$(mktemp -d)
trap 'chmod -R u+w "$BENCH_TMP" && rm -rf "$BENCH_TMP"' EXIT # the snapshot of the code is read-only
say "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $ROUNDS rounds"
"$PYTHON" "$PROJECT/benchmarks/lib/export.py" "$BENCH_TMP" "$ROUNDS" "${HIDDEN:-1536}" "${LAYERS:-24}" || exit
