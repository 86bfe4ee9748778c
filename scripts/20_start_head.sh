#!/usr/bin/env bash
# Start Ray's head node (no CPU, no GPU: control plane and dashboard only), or leave it alone where it runs.
#
# usage: ./scripts/20_start_head.sh [--cluster NAME|FILE] [--dry-run]
#
# On stdout: "started", "repaired" or "already running". 01_up.sh does this and the workers at once.
#
# examples:
#   ./scripts/20_start_head.sh && ./scripts/21_start_workers.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '' "$@"
load_cluster

bring_hosts_up
run helper_on "$HEAD" start-node "$HEAD"
