#!/usr/bin/env bash
# Start the Ray nodes of all workers at once, or leave alone those that run; the head must be up.
#
# usage: ./scripts/21_start_workers.sh [--cluster NAME|FILE] [--dry-run]
#
# On stdout, a line for each worker: "started", "repaired" or "already running". A failure names the workers it concerns.
#
# examples:
#   ./scripts/20_start_head.sh && ./scripts/21_start_workers.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '' "$@"
load_cluster

bring_hosts_up
on_each start_worker "${WORKERS[@]}"
