#!/usr/bin/env bash
# What a job's precheck and trainer printed, on stdout; from the job folder, so also when Ray, the head or the whole cluster is gone.
#
# usage: ./scripts/51_logs.sh ID [-f] [--since WHEN] [--cluster NAME|FILE] [--dry-run]
#
#   -f             follow the log to the job's end and exit with its outcome; on a terminal with a progress line (phase, step, time
#                  left, reward or loss) and an alarm when no step came for long. Ctrl-C leaves the job running
#   --since WHEN   only what was logged since: a span (90s, 10m, 2h, 1d) or a moment in UTC (2026-01-31T23:59). The log itself has no
#                  times: the job runner notes, about once a second and by the clock of the driver's host, how long the log is. So
#                  up to a second more may be shown, never less
#
# exit codes: 0 good, 2 unknown ID or WHEN; with -f: 0 the job succeeded, 1 it failed or was stopped, 3 blocked (also when nobody can
# tell how it ended: Ray does not answer and the job runner gives no sign of life)
#
# examples:
#   ./scripts/51_logs.sh ppo-20260131-101500-1a2b -f
#   ./scripts/51_logs.sh ppo-20260131-101500-1a2b --since 10m | grep -i error
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '-f --since= ID' "$@"
load_cluster
run helper_on "$HEAD" logs "${OPTS[@]}" "${ARGS[@]}"
