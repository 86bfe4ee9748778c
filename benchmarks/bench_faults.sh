#!/usr/bin/env bash
# How soon each fault of tests/bats/faults.bats is noticed, and what 55_explain.sh then says; on the tests' own cluster (4 minutes).
#
# From the fault to the moment at which result.json (or 50_status.sh) tells of it, looked at five times a second.
#
# usage: ./benchmarks/bench_faults.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"
parse_options '' "$@"
say "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
"$PROJECT/.venv/bin/bats" --formatter tap "$PROJECT/tests/bats/faults.bats"
