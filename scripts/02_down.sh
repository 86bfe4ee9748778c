#!/usr/bin/env bash
# Stop the cluster: the workers, then the head, then its hosts. Only what 01_up.sh started is ended, with every job on it;
# other Ray clusters on the same machines live on. Again is fine.
#
# usage: ./scripts/02_down.sh [--cluster NAME|FILE] [--dry-run]
#
# examples:
#   ./scripts/02_down.sh
#   ./scripts/02_down.sh --dry-run
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
began=$EPOCHREALTIME
parse_options '' "$@"
load_cluster

code=0
# A host that does not answer is told at the end: it must not keep what hosts_down gives back.
(on_each stop_node "${WORKERS[@]}") || code=$?
(stop_node "$HEAD") || code=$?
take_hosts_down
# With its step a Ray node has ended too, whatever its host answered.
[[ -n $HOST_STEPS ]] || ((code == 0)) || exit "$code"
say "cluster '$CLUSTER_NAME': down after $(seconds_since "$began") s"
