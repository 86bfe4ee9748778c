#!/usr/bin/env bash
# Take a snapshot of verl's code into common/code/verl/<code_id>/ on the shared root; jobs choose one with "code_path".
#
# usage: [CODE_ID=name] ./scripts/31_snapshot_verl_code.sh [--source DIR | --list | --prune] [--cluster NAME|FILE] [--dry-run]
#
# With "code: {source: git}" in the cluster file, verl is first cloned from its repository at its revision (a tag, a branch or a commit)
# if its path is missing; HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY of this machine apply. A checkout that exists is used as it is.
#
# Without CODE_ID the name is made from version and content. A snapshot is read-only, contains mvp_marker.py and a manifest (the origin of
# the code, the hash of every file), and is never overwritten by other content. Unchanged content is not copied again.
# common/code/verl/current points to the latest requested snapshot. Prints the path of the snapshot.
#
#   --source DIR   a folder that contains verl/ (a git checkout or any directory); default: the cluster file's "code"
#   --list         list the snapshots: id, creation time, size, the jobs that used it (their number and the newest one), origin
#   --prune        remove, without a prompt, the snapshots that no job folder names (also of ended jobs), except the current one, and
#                  print their ids; with --dry-run only print them. No script removes a snapshot that a job used
#
# examples:
#   ./scripts/31_snapshot_verl_code.sh
#   CODE_ID=codeA ./scripts/31_snapshot_verl_code.sh --source ~/verl
#   ./scripts/31_snapshot_verl_code.sh --prune --dry-run
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--source= --list --prune' "$@"
load_cluster
options=("${OPTS[@]}" ${CODE_ID:+--code-id "$CODE_ID"})
if given --list || given --prune; then
  helper_on "$HEAD" snapshot "${options[@]}" ${DRY_RUN:+--dry-run}
elif [[ -n $DRY_RUN ]]; then
  plan_on "$HEAD" snapshot "${options[@]}"
else
  helper_online "$HEAD" snapshot "${options[@]}"
fi
