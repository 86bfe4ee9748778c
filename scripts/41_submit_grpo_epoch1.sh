#!/usr/bin/env bash
# Submit one epoch of GRPO, PPO's entry point without a critic (templates/grpo.json). Prints only the job id.
#
# usage: ./scripts/41_submit_grpo_epoch1.sh [--set KEY=VALUE]... [--wait | --no-wait] [--timeout SECONDS] [--cluster NAME|FILE]
#        [--dry-run]
#
# The same as ./scripts/43_submit_jobspec.sh templates/grpo.json: see its --help for the options. For a KL loss to the reference
# policy, submit a copy with "actor_rollout_ref.actor.use_kl_loss": true in trainer_overrides.
#
# examples:
#   ./scripts/41_submit_grpo_epoch1.sh --wait
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--set= --wait --no-wait --timeout= --pending-timeout=' "$@"
load_cluster --unlocated
submit_spec "$PROJECT/templates/grpo.json" "${OPTS[@]}"
