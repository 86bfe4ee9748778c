#!/usr/bin/env bash
# Remove the containers of version 1 (named mvp-ray-*) that do not belong to this project's compose file. Best effort.
#
# usage: ./scripts/03_cleanup_v1_legacy.sh [--cluster NAME|FILE] [--dry-run]
#
# Lists them first. Containers of this project carry the label com.docker.compose.project=mvp and are left alone.
#
# examples:
#   ./scripts/03_cleanup_v1_legacy.sh --dry-run     # only list
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '' "$@"

command -v docker >/dev/null || { say 'nothing to do: docker is not installed' && exit 0; }
found=$(docker ps -a --filter name='^/?mvp-ray-' --format '{{.ID}} {{or (.Label "com.docker.compose.project") "-"}} {{.Names}} ({{.Status}})' 2>/dev/null) ||
  { say 'nothing to do: the docker daemon does not answer' && exit 0; }

old=()
while IFS=' ' read -r id label rest; do
  [[ -n $id && $label != mvp ]] || continue
  say "old container: $rest"
  old+=("$id")
done <<<"$found"
((${#old[@]})) || { say 'nothing to do: no mvp-ray-* containers but those of this project' && exit 0; }
run docker rm -f "${old[@]}" >/dev/null || say 'some could not be removed; see above'
