#!/usr/bin/env bash
# Test whether training teaches the model anything: SFT on worked answers, stopped early; then GRPO from its weights with a user's reward
# function (templates/rewards/right_number.py: 1 for the right number, else 0). Prints a chart of the reward and a verdict.
#
# usage: ./scripts/learn.sh [--cluster NAME|FILE] [--dry-run]
#
# For the generated problems and the tiny model of the local cluster (templates/learn/*.yaml); takes about 5 minutes on two cores. Exit
# code 0 only if the reward rose: a Mann-Kendall test of the mean rewards per step gives p < 0.01, and the mean at the end is higher than
# at the start. It does not test whether the reward would rise further. A cluster that this script started is stopped; KEEP=1 keeps it.
#
# examples:
#   ./scripts/learn.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/regression.sh
source "$SCRIPTS/lib/regression.sh"
began=$EPOCHREALTIME
parse_options '' "$@"

copy_reward() { # the reward function to the place that the JobSpec names
  # shellcheck disable=SC2016 # expanded on the head
  run host_exec "$HEAD" -i -- bash -euc 'mkdir -p "$1" && cat >"$1/right_number.py"' - "$SHARED_ROOT/user/code/learn" \
    <"$PROJECT/templates/rewards/right_number.py"
}

link_model() { # <SFT job>: its last weights, at the place that the JobSpec names
  # shellcheck disable=SC2016 # expanded on the head
  run host_exec "$HEAD" -- bash -euc 'step=$(<"$1/latest_checkpointed_iteration.txt") && ln -sfn "$1/global_step_$step/huggingface" "$2"' \
    - "$SHARED_ROOT/jobs/$1/checkpoints" "$SHARED_ROOT/common/models/learn"
}

start_regression
step 30_prepare_data_and_model.sh >&2
step 31_snapshot_verl_code.sh >&2
copy_reward
sft=$(step 43_submit_jobspec.sh "$PROJECT/templates/learn/sft.yaml" --wait) || exit
link_model "${sft:-ID}"
grpo=$(step 43_submit_jobspec.sh "$PROJECT/templates/learn/grpo.yaml" --wait) || exit
code=0
run helper_on "$HEAD" trend "${grpo:-ID}" || code=$?
say "learned '${grpo:-ID}' from '${sft:-ID}' on cluster '$CLUSTER_NAME' after $(seconds_since "$began") s (exit code $code)"
exit "$code"
