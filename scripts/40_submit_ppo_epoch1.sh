#!/usr/bin/env bash
# Submit one epoch of PPO with a critic (templates/ppo.json). Prints only the job id.
#
# usage: ./scripts/40_submit_ppo_epoch1.sh [--wait | --no-wait] [--timeout SECONDS] [--cluster NAME|FILE] [--dry-run]
#
# The same as ./scripts/43_submit_jobspec.sh templates/ppo.json: see its --help for the options.
#
# examples:
#   ./scripts/40_submit_ppo_epoch1.sh --wait
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--wait --no-wait --timeout= --pending-timeout=' "$@"
load_cluster
submit_spec "$PROJECT/templates/ppo.json" "${OPTS[@]}"
