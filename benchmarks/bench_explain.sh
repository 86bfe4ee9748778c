#!/usr/bin/env bash
# Speed and memory of 55_explain.sh and 62_e2e_triage.sh on a large generated log: many steps, a traceback at the end; needs no Ray. Prints
# how many times the time of `rg -c` (else `grep -c`) with the same words they take, and MB/s of wall time and of CPU time of whole
# processes, also of `wc -l` on the same file, which only reads it.
#
# STEPS=real (the default) has a line of metrics every 1500 lines, as real runs have; of STEPS=dense a third of the lines are metrics.
#
# usage: [ROUNDS=3] [MEGABYTES=1000] [STEPS=real|dense] ./benchmarks/bench_explain.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"
parse_options '' "$@"
find_python
export ROUNDS=${ROUNDS:-3} MEGABYTES=${MEGABYTES:-1000} STEPS=${STEPS:-real}
say "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $ROUNDS rounds"
exec "$PYTHON" "$PROJECT/benchmarks/lib/explain.py"
