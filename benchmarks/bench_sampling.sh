#!/usr/bin/env bash
# What watching a running job costs: CPU time of the job runner (which copies and masks the log), its sampler, the sampler's streams from
# other workers, and the masks of five Ray workers that have a secret, together, as a part of one core. The job logs as verl's PPO does on
# the CPU default: 4 kB of metrics from one worker every 0.8 s, and a line from each of four others every 5 s.
#
# usage: [SECONDS_MEASURED=120] [WARM_S=60] ./benchmarks/bench_sampling.sh      (on a running cluster: ./scripts/01_up.sh)
#
# The start of these processes is printed apart: it happens once for each job. The limit is 1 % of a core.
source "$(dirname "${BASH_SOURCE[0]}")/lib/measure.sh"
parse_options '' "$@"
export MVP_CLUSTER # --cluster is for the scripts that are started, too
load_cluster
BENCH_TMP=$(mktemp -d)
trap 'rm -rf "$BENCH_TMP"' EXIT
say "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
"$PYTHON" "$PROJECT/benchmarks/lib/sampling.py" "$BENCH_TMP" "${WARM_S:-60}" "${SECONDS_MEASURED:-120}" || exit
