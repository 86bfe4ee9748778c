#!/usr/bin/env bash
# Start Ray's head node (no CPU, no GPU: control plane and dashboard only), or leave it alone where it runs.
#
# usage: ./scripts/20_start_head.sh [--here HOST] [--cluster NAME|FILE] [--dry-run]
#
# On stdout: "started", "repaired" or "already running". 01_up.sh does this and the workers at once.
#
#   --here HOST   this machine is the head HOST: no ssh to it, and nothing is asked of the other hosts
#
# examples:
#   ./scripts/20_start_head.sh && ./scripts/21_start_workers.sh
#   ./scripts/20_start_head.sh --here head --cluster prod
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--here=' "$@"
load_cluster_here

[[ ${NEEDED[0]} == "$HEAD" ]] || bad_usage "--here ${NEEDED[0]}: the head of cluster '$CLUSTER_NAME' is $HEAD"
bring_hosts_up
start_node "$HEAD"
