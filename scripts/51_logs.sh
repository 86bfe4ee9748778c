#!/usr/bin/env bash
# Print the output of a job's precheck and trainer. It is read from the job folder, also when Ray, the head or the whole cluster is gone.
#
# usage: ./scripts/51_logs.sh ID [-f] [--since WHEN] [--raw] [--cluster NAME|FILE] [--dry-run]
#
#   -f             follow the log to the job's end and exit with its outcome; a terminal also shows a progress line (phase, step, time
#                  left, reward or loss) and a warning when no step ends for a while. Ctrl-C leaves the job running
#   --since WHEN   print only lines since WHEN: a duration (90s, 10m, 2h, 1d) or a UTC time (2026-01-31T23:59). The log has no times;
#                  the job runner records its length about once a second, by the clock of the driver's host. So up to one second
#                  more may be shown, never less
#   --raw          print byte for byte. Without it, colours are left out and other control characters are escaped (\x1b), except tabs,
#                  line ends and the carriage returns of progress bars
#
# exit codes: 0 success, 2 unknown ID or WHEN; with -f: 0 the job succeeded, 1 it failed or was stopped, 3 blocked (also when the
# outcome is unknown: Ray does not answer, and the job runner gives no sign of life), 5 something outside of the job ended it
#
# examples:
#   ./scripts/51_logs.sh ppo-20260131-101500-1a2b -f
#   ./scripts/51_logs.sh ppo-20260131-101500-1a2b --since 10m | grep -i error
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '-f --since= --raw ID' "$@"
load_cluster
run helper_on "$HEAD" logs "${OPTS[@]}" "${ARGS[@]}"
