#!/usr/bin/env bash
# Check everything a cluster needs before anything is started: tools, Python and Ray versions, disk, memory, /dev/shm, GPUs, ports,
# verl's code, and that every host sees the same shared root (each writes a canary file there, the others read it).
#
# usage: ./scripts/00_prereq_check.sh [--json] [--cluster NAME|FILE] [--dry-run]
#
# A table of ✓ and ✗ on stdout, with what to do for each ✗. Exit code 0 when all is well, 3 when something is not.
#
#   --json   the same as JSON
#
# examples:
#   ./scripts/00_prereq_check.sh
#   ./scripts/00_prereq_check.sh --cluster dev --json
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--json' "$@"
load_cluster

token=$EPOCHSECONDS-$$
# A host that does not answer is missing from the facts, and so a ✗ in the table.
host_facts() { run helper_on "$1" host-facts "$1" --canary "$token" || true; }
host_canaries() { run helper_on "$1" host-facts "$1" --canary "$token" --read || true; }

bring_hosts_up
facts=$(on_each host_facts "${HOSTS[@]}")
seen=$(on_each host_canaries "${HOSTS[@]}")
[[ -z $DRY_RUN ]] || exit 0
host_exec "$HEAD" -- rm -rf "$SHARED_ROOT/.canary-$token" || true
"$PYTHON" -m mvp_helpers prereq "${OPTS[@]}" < <(printf '%s\n\n%s\n' "$facts" "$seen") || exit
