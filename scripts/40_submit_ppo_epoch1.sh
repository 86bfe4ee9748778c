#!/usr/bin/env bash
# Submit one epoch of PPO with a critic (templates/ppo.json). Prints only the job id.
#
# usage: ./scripts/40_submit_ppo_epoch1.sh [--set KEY=VALUE]... [--wait | --no-wait] [--timeout SECONDS] [--cluster NAME|FILE]
#        [--dry-run]
#
# The same as ./scripts/43_submit_jobspec.sh templates/ppo.json: see its --help for the options.
#
# examples:
#   ./scripts/40_submit_ppo_epoch1.sh --wait
#   ./scripts/40_submit_ppo_epoch1.sh --set trainer.total_training_steps=20 --set actor_rollout_ref.actor.optim.lr=2e-6
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--set= --wait --no-wait --timeout= --pending-timeout=' "$@"
load_cluster --unlocated
submit_spec "$PROJECT/templates/ppo.json" "${OPTS[@]}"
