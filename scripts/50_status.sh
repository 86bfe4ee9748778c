#!/usr/bin/env bash
# Show the cluster and its jobs on one screen: hosts (role, state, CPU, GPU), versions; the newest jobs and every unfinished one, with
# state, driver host, step, elapsed time, reward or loss, what a running job uses of GPUs (or CPU cores) and memory, and the last error.
#
# usage: ./scripts/50_status.sh [--json] [--watch] [--limit N] [--follow ID] [--cluster NAME|FILE] [--dry-run]
#
# Jobs are read from their folders, also when the cluster is down. A job whose processes are gone gets its final state here.
#
#   --json        print one JSON object (with --watch: one per line); also where the time of each job and its chain went (wall_time)
#   --watch       repeat every 2 seconds, until Ctrl-C
#   --limit N     show at most N of the newest jobs (default 20)
#   --follow ID   follow one job to its end and exit with its outcome; Ctrl-C leaves the job running
#
# The attempts of a job with "retry" are one line; --follow follows all of them.
#
# exit codes: 0 success (also when the cluster is down); with --follow: 0 the job succeeded, 1 it failed, 2 unknown ID, 3 blocked,
# 5 something outside of the job ended it
#
# examples:
#   ./scripts/50_status.sh --watch
#   ./scripts/50_status.sh --json --limit 1 --cluster dev
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--json --watch --limit= --follow=' "$@"
load_cluster
run helper_on "$HEAD" status "${OPTS[@]}"
