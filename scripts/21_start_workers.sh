#!/usr/bin/env bash
# Start the Ray nodes of all workers that are not running, all at once. The head must be up.
#
# usage: ./scripts/21_start_workers.sh [--watchdog] [--here HOST] [--cluster NAME|FILE] [--dry-run]
#
# Prints a line for each worker: "started", "repaired" or "already running". A failure names the workers that failed.
#
#   --watchdog    leave a process on each worker's host that restarts a node that died because its link was cut or the head was
#                 restarted: after 2 s, then at growing intervals of up to a minute. Its log is <state_dir>/<host>/watchdog.log.
#                 02_down.sh ends it
#   --here HOST   this machine is the worker HOST: start only it, without ssh. The head's address comes from the shared root
#
# examples:
#   ./scripts/20_start_head.sh && ./scripts/21_start_workers.sh
#   ./scripts/21_start_workers.sh --here worker-0 --watchdog --cluster prod
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--watchdog --here=' "$@"
load_cluster_here
watchdog=() workers=()
! given --watchdog || watchdog=(--watchdog)

start_worker() { # <host>
  start_node "$1" "${watchdog[@]}"
}

bring_hosts_up
for host in "${NEEDED[@]}"; do [[ $host == "$HEAD" ]] || workers+=("$host"); done
((${#workers[@]})) || bad_usage "--here $HEAD: the host is the head, not a worker"
on_each start_worker "${workers[@]}"
