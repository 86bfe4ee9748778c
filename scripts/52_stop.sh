#!/usr/bin/env bash
# Stop jobs so that nothing is lost: each finishes its step, saves a whole checkpoint and ends; its id and state on stdout.
#
# usage: ./scripts/52_stop.sh ID... [--now | --save-only] [--cluster NAME|FILE] [--dry-run]
#
#   --now         do not wait for a checkpoint: SIGTERM at once, SIGKILL after stop_wait_s
#   --save-only   a checkpoint at the end of the step, and the job goes on; its id, step and path on stdout
#
# The trainer has stop_wait_s of the JobSpec or of the cluster file (default 60 s), fixed when the job is submitted; then SIGTERM, and
# SIGKILL 5 s later. A trainer that cannot be asked to save (another version of verl, another program) gets SIGTERM at once and
# SIGKILL after stop_wait_s; where that would lose steps nothing is stopped without --now. The job becomes STOPPED, a debug bundle of
# its end is taken, and on every host it is checked that no process of it is left (one that is left is ended). Other jobs are not
# touched. A job that waits for resources is stopped too; one that has ended is left as it is. Ctrl-C while waiting leaves the stop
# going on. Where Ray does not answer (its head is gone), the job runners are told on their own hosts, and the rest is the same.
#
# exit codes: 0 every one of them has ended (--save-only: is saved), 1 a process cannot be ended, 2 unknown ID, 3 Ray does not answer
# and no runner was found, 4 a job goes on
#
# examples:
#   ./scripts/52_stop.sh ppo-20260131-101500-1a2b
#   ./scripts/52_stop.sh "$first" "$second" --cluster dev
#   ./scripts/52_stop.sh --save-only ppo-20260131-101500-1a2b
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--now --save-only ID...' "$@"
load_cluster

end_leftovers() { # <host>
  run helper_on "$1" end-leftovers "$1" "${ARGS[@]}"
}

stop_here() { # <host>
  run helper_on "$1" stop-here "$1" "${OPTS[@]}" "${ARGS[@]}"
}

code=0
run helper_on "$HEAD" stop "${OPTS[@]}" "${ARGS[@]}" || code=$?
if ((code == 3)) && ! given --save-only; then
  say 'without Ray: the job runners are told on their own hosts'
  on_each stop_here "${HOSTS[@]}"
  code=0
  run helper_on "$HEAD" stop "${OPTS[@]}" "${ARGS[@]}" || code=$?
fi
((code == 0)) || exit "$code"
! given --save-only || exit 0
on_each end_leftovers "${HOSTS[@]}"
