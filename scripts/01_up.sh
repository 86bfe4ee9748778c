#!/usr/bin/env bash
# Start the cluster: its hosts, Ray's head, the workers, and wait until every node is alive with the expected resources.
#
# usage: ./scripts/01_up.sh [--check] [--cluster NAME|FILE] [--dry-run]
#
# May be run again: it leaves running nodes alone and repairs dead ones. Prints the dashboard's address and "started", "repaired" or
# "already up". The nodes' logs are <state_dir>/<host>/ray_start.log. With Slurm it first requests an allocation, or adopts the one it
# runs in: see docs/slurm.md.
#
#   --check    change nothing: print "up", "partly up" or "down"; exit code 0 for "up", else 1
#
# examples:
#   ./scripts/01_up.sh
#   MVP_HEAD_PORT=6400 ./scripts/01_up.sh      # when another program holds the head's port
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
began=$EPOCHREALTIME
parse_options '--check' "$@"
load_cluster --unlocated

now() { # up, partly up or down; a host that cannot be reached is down
  helper_on "$HEAD" wait-nodes --now 2>/dev/null || echo down
}

if given --check; then
  locate_hosts
  state=$(now)
  printf '%s\n' "$state"
  [[ $state == up ]] || exit 1
  exit 0
fi

bring_hosts_up
# When the head is gone its workers are useless, and Ray starts no head while a worker on the same machine still names the old one.
[[ -n $DRY_RUN || $(now) != down ]] || on_each stop_node "${WORKERS[@]}"
# Workers start as soon as they can join, while the head's dashboard is still starting.
head_did=$(start_node "$HEAD" --early) || exit
workers_did=$(on_each start_node "${WORKERS[@]}") || {
  status=$?
  helper_on "$HEAD" wait-nodes --now >/dev/null || true # a head that died meanwhile is the reason: its last words
  exit "$status"
}
run helper_on "$HEAD" wait-nodes
[[ -z $DRY_RUN ]] || exit 0

case $head_did/$workers_did in
  started/*) did='started' ;;
  *repaired* | *started*) did='repaired' ;;
  *) did='already up' ;;
esac
say "cluster '$CLUSTER_NAME' ($((${#WORKERS[@]} + 1)) nodes): $did after $(seconds_since "$began") s"
printf '%s %s\n' "$DASHBOARD" "$did"
