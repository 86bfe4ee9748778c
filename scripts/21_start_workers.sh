#!/usr/bin/env bash
# Start the Ray nodes of all workers at once, or leave alone those that run; the head must be up.
#
# usage: ./scripts/21_start_workers.sh [--watchdog] [--here HOST] [--cluster NAME|FILE] [--dry-run]
#
# On stdout, a line for each worker: "started", "repaired" or "already running". A failure names the workers it concerns.
#
#   --watchdog    leave a process on each worker's host that starts its node again when it has died, because its link was cut or the
#                 head came back: after 2 s, then ever longer, up to a minute. Its log: <state_dir>/<host>/watchdog.log.
#                 02_down.sh ends it
#   --here HOST   this machine is the worker HOST: only it, without ssh. The head is where the shared root says that it was started
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
((${#workers[@]})) || bad_usage "--here $HEAD: it is no worker"
on_each start_worker "${workers[@]}"
