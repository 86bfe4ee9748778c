#!/usr/bin/env bash
# The cluster and its jobs on one screen: hosts (role, alive, CPU, GPU), versions; the newest jobs and all that have not ended, with
# state, driver host, step, elapsed time, reward or loss, and the last error.
#
# usage: ./scripts/50_status.sh [--json] [--watch] [--limit N] [--follow ID] [--cluster NAME|FILE] [--dry-run]
#
# Jobs come from their folders: they show when the cluster is down as well. A job whose processes are gone gets its last word here.
#
#   --json        one JSON object on stdout (with --watch: one a line)
#   --watch       again every 2 seconds, until Ctrl-C
#   --limit N     so many of the newest jobs (default 20)
#   --follow ID   follow one job to its end and exit with its outcome; Ctrl-C leaves the job running
#
# exit codes: 0 good (also when the cluster is down); with --follow: 0 the job succeeded, 1 it failed, 2 unknown ID, 3 blocked
#
# examples:
#   ./scripts/50_status.sh --watch
#   ./scripts/50_status.sh --json --limit 1 --cluster dev
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--json --watch --limit= --follow=' "$@"
load_cluster
run helper_on "$HEAD" status "${OPTS[@]}"
