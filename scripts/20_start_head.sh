#!/usr/bin/env bash
# Start Ray's head node (no CPU, no GPU: control plane and dashboard only) unless it is running.
#
# usage: ./scripts/20_start_head.sh [--here HOST] [--cluster NAME|FILE] [--dry-run]
#
# Prints "started", "repaired" or "already running". 01_up.sh starts head and workers together.
#
#   --here HOST   this machine is the head HOST: use no ssh, and contact no other host
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
