#!/usr/bin/env bash
# Stop jobs so that no step is lost: each finishes its step, saves a whole checkpoint and ends. Prints the id and state of each job.
#
# usage: ./scripts/52_stop.sh ID... [--now | --save-only] [--cluster NAME|FILE] [--dry-run]
#
#   --now         do not wait for a checkpoint: SIGTERM at once, SIGKILL after stop_wait_s
#   --save-only   write a checkpoint at the end of the step; the job continues. Prints id, step and path
#
# The trainer has stop_wait_s seconds of the JobSpec or of the cluster file (default 60, fixed when the job is submitted); then it gets
# SIGTERM, and SIGKILL 5 s later; one that was halted (SIGSTOP) goes on for that. A trainer that cannot be asked to save (another
# version of verl, another program) gets SIGTERM at once and SIGKILL after stop_wait_s; if that would lose steps, nothing is stopped
# without --now. The job becomes STOPPED, a debug bundle is taken, and processes of the job that are left on any host are ended. Other
# jobs are not touched. A job that waits for resources is stopped too; a job that has ended stays as it is. A job whose folder was moved
# away is stopped by Ray, without a checkpoint. For a job with "retry", no further attempt follows, whichever attempt ID names.
# Ctrl-C ends the waiting, not the stop. When Ray does not answer because its head is gone, the job runners are reached on their own
# hosts.
#
# exit codes: 0 all jobs have ended (--save-only: are saved), 1 a process cannot be ended, 2 unknown ID, 3 Ray does not answer and no
# runner was found, 4 a job still runs
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
  say 'Ray does not answer: stopping the job runners on their own hosts'
  on_each stop_here "${HOSTS[@]}"
  code=0
  run helper_on "$HEAD" stop "${OPTS[@]}" "${ARGS[@]}" || code=$?
fi
((code == 0)) || exit "$code"
! given --save-only || exit 0
on_each end_leftovers "${HOSTS[@]}"
