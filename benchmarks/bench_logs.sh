#!/usr/bin/env bash
# What following a log costs; no Ray needed, everything runs on this machine.
#   - the job runner's part of a trainer that prints 50 MB/s: its wall time with the runner beside writing to a file itself
#   - how long a line that a trainer has just printed takes to come out of `51_logs.sh -f`
#   - 100 MB written at once: how long after its last byte the follower has it
#
# usage: [ROUNDS=7] ./benchmarks/bench_logs.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"
parse_options '' "$@"
find_python
export ROUNDS=${ROUNDS:-7}
say "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $ROUNDS rounds"
exec "$PYTHON" "$PROJECT/benchmarks/lib/logs.py"
