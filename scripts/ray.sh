#!/usr/bin/env bash
# Run any command of Ray on the head of the cluster, with the cluster's address and token set.
#
# usage: ./scripts/ray.sh [--cluster NAME|FILE] [--dry-run] COMMAND...
#
# COMMAND is a command as in Ray's documentation, without "ray" but with all of its options; options of this script come before it. The
# exit code is that of Ray. Ray's own commands take 0.7 s and more: 50_status.sh, 51_logs.sh and 52_stop.sh are quicker, and use the job
# folders. "start" and "stop" are refused: use 01_up.sh and 02_down.sh, which touch no other cluster.
#
# exit codes: those of Ray's command; 2 bad input, 3 blocked
#
# examples:
#   ./scripts/ray.sh status
#   ./scripts/ray.sh job list
#   ./scripts/ray.sh list nodes
#   ./scripts/ray.sh --cluster dev job logs ppo-20260131-101500-1a2b
#   ./scripts/ray.sh -- --version
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# Ray's options look like ours: only those before its command are ours.
own=()
while [[ ${1:-} == -* && $1 != -- ]]; do
  own+=("$1")
  [[ $1 != --cluster ]] || { own+=("${2:-}") && shift; }
  shift
done
[[ ${1:-} != -- ]] || shift
parse_options 'COMMAND...' "${own[@]}" -- "$@"
load_cluster
run helper_on "$HEAD" ray -- "${ARGS[@]}"
