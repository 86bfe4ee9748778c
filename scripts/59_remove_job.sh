#!/usr/bin/env bash
# Remove the folders of ended jobs, with their checkpoints, logs and evidence. Their ids are never used again.
#
# usage: ./scripts/59_remove_job.sh ID... [--yes] [--cluster NAME|FILE] [--dry-run]
#
# Refused while a job runs, while its chain goes on, and while a job that stays has resumed from it: name that one too, to remove both.
# Lists what goes and asks first; prints the ids of the removed jobs. Who removed a job, and when, stays on record: every script says so
# when it is asked for that id. Data, models, code snapshots and what 57_checkpoints.sh exported are not touched. The cluster need not be up.
#
#   --yes   do not ask
#
# exit codes: 0 success, 1 the answer was no, 2 unknown ID or a job that cannot be removed (nothing is removed then), 3 a job folder
# cannot be removed
#
# examples:
#   ./scripts/59_remove_job.sh ppo-20260131-101500-1a2b
#   ./scripts/59_remove_job.sh "$first" "$second" --yes
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--yes ID...' "$@"
load_cluster

ids=$(helper_on "$HEAD" remove-jobs --check "${ARGS[@]}") || exit
[[ -z $DRY_RUN ]] || { printf '%s\n' "$ids" && exit; }
mapfile -t ids <<<"$ids"
confirm "Remove the listed jobs (${#ids[@]}) for good?"
helper_on "$HEAD" remove-jobs "${ids[@]}"
