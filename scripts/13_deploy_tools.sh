#!/usr/bin/env bash
# Copy this project to hosts that do not see this disk: to ${SHARED_ROOT}/common/tools/mvp/<version>, or the cluster file's tools_dir.
# A version is named after its content, appears complete or not at all, and is never changed; several versions can exist.
#
# usage: ./scripts/13_deploy_tools.sh [--list] [--cluster NAME|FILE] [--dry-run]
#
# Prints "HOST: deployed" or "HOST: already there", then the folder. When the hosts share the folder, one of them is enough. The scripts
# that start hosts (00, 01, 20, 21) deploy by themselves.
#
#   --list   list the versions on the head, the one of this project marked with "*"; deploy nothing
#
# examples:
#   ./scripts/13_deploy_tools.sh --cluster prod
#   ./scripts/13_deploy_tools.sh --cluster prod --list
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--list' "$@"
load_cluster

if given --list; then
  # shellcheck disable=SC2016 # expanded on the head
  run host_exec "$HEAD" -- /bin/sh -c 'cd "${1%/*}" 2>/dev/null || exit 0
    for version in *; do [ "$version" = "${1##*/}" ] && echo "* $version" || echo "  $version"; done' mvp "$TOOLS_DIR"
  exit 0
fi
deploy_tools
printf '%s\n' "$TOOLS_DIR"
