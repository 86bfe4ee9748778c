#!/usr/bin/env bash
# Take a snapshot of verl's code into common/code/verl/<code_id>/ on the shared root; jobs choose one with "code_path".
#
# usage: [CODE_ID=name] ./scripts/31_snapshot_verl_code.sh [--source DIR | --list | --prune] [--cluster NAME|FILE] [--dry-run]
#
# Without CODE_ID the name is made from version and content. A snapshot is read-only, carries mvp_marker.py and a manifest (where the
# code came from, every file's hash), and is never overwritten by other content. Unchanged content is not copied again.
# common/code/verl/current points to the snapshot asked for last. Its path on stdout.
#
#   --source DIR   a folder that holds verl/ (a git checkout or any directory); default: the cluster file's "code"
#   --list         only list: id, when it was made, size, the jobs that used it (how many, the newest by name), origin
#   --prune        remove the snapshots that no job folder names, ended jobs' included, but not the current one; asks nothing,
#                  prints their ids (with --dry-run only that). One that a job uses is removed by no script
#
# examples:
#   ./scripts/31_snapshot_verl_code.sh
#   CODE_ID=codeA ./scripts/31_snapshot_verl_code.sh --source ~/verl
#   ./scripts/31_snapshot_verl_code.sh --prune --dry-run
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--source= --list --prune' "$@"
load_cluster
helper_on "$HEAD" snapshot "${OPTS[@]}" ${CODE_ID:+--code-id "$CODE_ID"} ${DRY_RUN:+--dry-run}
