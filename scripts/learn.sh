#!/usr/bin/env bash
# Does training teach the model anything? SFT on worked answers first, stopped early; then GRPO from its weights, with a reward function
# of the user's (templates/rewards/right_number.py: 1 for the right number, else 0). A chart of the reward and a verdict go to stdout.
#
# usage: ./scripts/learn.sh [--cluster NAME|FILE] [--dry-run]
#
# Made for the generated problems and the tiny model of the local cluster (templates/learn/*.yaml): about 5 minutes on two cores.
# Exit code 0 only if the reward rose: by a Mann-Kendall test of the steps' mean rewards with p < 0.01, and a higher mean at the end than
# at the start. Whether it would go on rising is not asked. A cluster that this started is stopped at the end; KEEP=1 keeps it.
#
# examples:
#   ./scripts/learn.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/regression.sh
source "$SCRIPTS/lib/regression.sh"
began=$EPOCHREALTIME
parse_options '' "$@"

give_reward() { # the reward function, where the JobSpec expects it
  # shellcheck disable=SC2016 # expanded on the head
  run host_exec "$HEAD" -i -- bash -euc 'mkdir -p "$1" && cat >"$1/right_number.py"' - "$SHARED_ROOT/user/code/learn" \
    <"$PROJECT/templates/rewards/right_number.py"
}

give_model() { # <SFT job>: its last weights, where the JobSpec expects them
  # shellcheck disable=SC2016 # expanded on the head
  run host_exec "$HEAD" -- bash -euc 'step=$(<"$1/latest_checkpointed_iteration.txt") && ln -sfn "$1/global_step_$step/huggingface" "$2"' \
    - "$SHARED_ROOT/jobs/$1/checkpoints" "$SHARED_ROOT/common/models/learn"
}

start_regression
step 30_prepare_data_and_model.sh >&2
step 31_snapshot_verl_code.sh >&2
give_reward
sft=$(step 43_submit_jobspec.sh "$PROJECT/templates/learn/sft.yaml" --wait) || exit
give_model "${sft:-ID}"
grpo=$(step 43_submit_jobspec.sh "$PROJECT/templates/learn/grpo.yaml" --wait) || exit
code=0
run helper_on "$HEAD" trend "${grpo:-ID}" || code=$?
say "learned '${grpo:-ID}' from '${sft:-ID}' on cluster '$CLUSTER_NAME' after $(seconds_since "$began") s (exit code $code)"
exit "$code"
