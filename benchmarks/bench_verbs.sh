#!/usr/bin/env bash
# How much CPU each verb of the helper takes to start, beside an earlier version of this project.
#
# usage: [ROUNDS=7 | INSTRUCTIONS=1] ./benchmarks/bench_verbs.sh REV [VERB...]
#
# REV is a git revision that has the same verbs. INSTRUCTIONS=1 counts instructions with valgrind: slow, but the same under any load.
source "$(dirname "${BASH_SOURCE[0]}")/lib/measure.sh"
parse_options 'REV [VERB...]' "$@"
find_python
BENCH_TMP=$(mktemp -d)
trap 'rm -rf "$BENCH_TMP"' EXIT

git -C "$PROJECT" archive "${ARGS[0]}" lib templates scripts | tar -xC "$BENCH_TMP"
say "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $ROUNDS rounds"
"$PYTHON" "$PROJECT/benchmarks/lib/verbs.py" "$PROJECT/lib" "$BENCH_TMP/lib" "$ROUNDS" "${ARGS[@]:1}" || exit
