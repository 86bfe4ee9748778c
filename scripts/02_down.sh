#!/usr/bin/env bash
# Stop the cluster: the workers, then the head, then its hosts. Ends only what 01_up.sh started, with every job on it; other Ray
# clusters on the same machines keep running. May be run again.
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

code=0 chains=0
# First, or a job that ends with its workers is started again. Its waiting attempts end, too.
(helper_if_up "$HEAD" end-chains) || chains=$?
# A host that does not answer is reported at the end, because hosts_down must still release the others.
(on_each stop_node "${WORKERS[@]}") || code=$?
(stop_node "$HEAD") || code=$?
take_hosts_down
[[ -n $DOWN_ENDS_RAY ]] || ((code == 0)) || exit "$code"
say "cluster '$CLUSTER_NAME': down after $(seconds_since "$began") s"
((chains == 0)) || die "$chains" 'waiting attempts of retried jobs may go on with the next 01_up.sh' './scripts/50_status.sh lists them then'
