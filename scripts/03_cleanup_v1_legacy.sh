#!/usr/bin/env bash
# Remove the containers of version 1: mvp-ray-head and mvp-ray-worker-<n>. Best effort.
#
# usage: ./scripts/03_cleanup_v1_legacy.sh [--cluster NAME|FILE] [--dry-run]
#
# Lists them first. Containers of this version (mvp11-ray-*) and all data stay.
#
# examples:
#   ./scripts/03_cleanup_v1_legacy.sh --dry-run     # only list
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '' "$@"

command -v docker >/dev/null || { say 'nothing to do: docker is not installed' && exit 0; }
containers=$(docker ps -a --filter name='^/?mvp-ray-(head|worker-[0-9]+)$' --format '{{.ID}} {{.Names}} ({{.Status}})' 2>/dev/null) ||
  { say 'nothing to do: the docker daemon does not answer' && exit 0; }
[[ -n $containers ]] || { say 'nothing to do: no containers of version 1' && exit 0; }

old=()
while read -r id rest; do
  say "old container: $rest"
  old+=("$id")
done <<<"$containers"
run docker rm -f "${old[@]}" >/dev/null || say 'some containers could not be removed; see the message of docker above'
