#!/usr/bin/env bash
# List the checkpoints of a job, or of its whole chain of attempts: step, size, age, who resumed from it, whole or why not. Remove old ones.
#
# usage: ./scripts/57_checkpoints.sh ID [--keep N [--yes]] [--json] [--cluster NAME|FILE] [--dry-run]
#        ./scripts/57_checkpoints.sh --export ID[:STEP] DIR [--merge-lora]
#        ./scripts/57_checkpoints.sh --all [--json]
#
# ID is any attempt of a chain. A checkpoint is named ID:STEP. The cluster need not be up.
#
#   --all      the totals of all jobs that have checkpoints, the largest first; does not say whether these are whole
#   --keep N   remove all but the newest N whole checkpoints of the job or chain, N being at least 1: never one that a running job resumes
#              from, and nothing that a running job may still be writing. Lists them and asks first; prints the names of those removed.
#              The job folder and its seal record the removal, and 54_verify.sh reports it; with --dry-run only lists them
#   --yes      do not ask
#   --export   make Hugging Face weights (bfloat16) of the newest whole checkpoint, or of STEP, in the folder DIR, with verl's own model
#              merger from the job's code snapshot: on the first worker's host, on its CPU. They are loaded and generate one line as proof;
#              mvp_export.json says where they came from. DIR is on the hosts, relative to the shared root, and must be empty or not exist.
#              Prints its path. Shown for FSDP checkpoints of SFT, PPO and GRPO; those of Megatron are untried
#   --merge-lora  with --export: merge the LoRA adapter into the weights; without it the adapter is in lora_adapter/, beside the base model
#   --json     print one JSON object
#
# exit codes: 0 success (also when nothing was to be removed), 1 the answer was no, a job's seal is not its own, or the merger failed,
# 2 unknown ID, STEP or N, a checkpoint that is not whole or has no LoRA to merge, or a DIR that is not empty, 3 a folder cannot be written, or a host lacks packages
#
# examples:
#   ./scripts/57_checkpoints.sh ppo-20260131-101500-1a2b
#   ./scripts/57_checkpoints.sh --all
#   ./scripts/57_checkpoints.sh ppo-20260131-101500-1a2b --keep 2
#   ./scripts/57_checkpoints.sh --export ppo-20260131-101500-1a2b:20 common/models/mine
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--all --json --keep= --yes --export --merge-lora [ID] [DIR]' "$@"
load_cluster

if given --export; then
  lora=()
  ! given --merge-lora || lora=(--merge-lora)
  ((${#OPTS[@]} == 1 + ${#lora[@]})) || bad_usage '--export goes with no other option than --merge-lora'
  ((${#ARGS[@]} == 2)) || bad_usage 'an argument is missing: --export ID[:STEP] DIR'
  run helper_on "${WORKERS[0]}" export-checkpoint "${lora[@]}" "${ARGS[@]}"
  exit
fi
! given --merge-lora || bad_usage '--merge-lora goes with --export'
((${#ARGS[@]} < 2)) || bad_usage "unexpected argument '${ARGS[1]}'"
if ! given --keep; then
  ! given --yes || bad_usage '--yes answers the question of --keep'
  run helper_on "$HEAD" checkpoints "${OPTS[@]}" "${ARGS[@]}"
  exit
fi
! given --json || bad_usage '--json and --keep exclude each other'
! given --all || bad_usage '--keep and --all exclude each other'
((${#ARGS[@]} == 1)) || bad_usage 'an argument is missing: ID'
keep=$(value_of --keep)
surplus=$(helper_on "$HEAD" checkpoints --keep "$keep" "${ARGS[0]}") || exit
[[ -n $surplus && -z $DRY_RUN ]] || { printf '%s' "${surplus:+$surplus$'\n'}" && exit; }
mapfile -t names <<<"$surplus"
confirm "Remove the listed checkpoints (${#names[@]})?"
helper_on "$HEAD" remove-checkpoints --keep "$keep" "${ARGS[0]}" "${names[@]}"
