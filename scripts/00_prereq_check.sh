#!/usr/bin/env bash
# Check everything a cluster needs before anything is started: tools, Python and Ray versions, disk, memory, /dev/shm, ports, verl's
# code, and that every host sees the same shared root (each host writes a file there that the others read). On workers with GPUs also
# the driver, the GPUs that Ray and torch will see and any variable that hides some, NVLink and InfiniBand.
#
# usage: ./scripts/00_prereq_check.sh [--json] [--nccl [--timeout S]] [--cluster NAME|FILE] [--dry-run]
#
# Prints a table: Pass, Blocked with a hint, and Skipped for information.
#
#   --json        print the checks as JSON (docs/checks.md)
#   --nccl        also run an all-reduce between all workers (NCCL with one process per GPU; without GPUs gloo with one per worker),
#                 and print algorithm and bus bandwidth (algorithm × 2(n-1)/n). Needs no Ray, and up to 1 GB of each GPU
#   --timeout S   with --nccl: give up after S seconds (default 120)
#
# exit codes: 0 nothing is Blocked, 3 a check is Blocked
#
# examples:
#   ./scripts/00_prereq_check.sh
#   ./scripts/00_prereq_check.sh --cluster dev --nccl
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--json --nccl --timeout=' "$@"
load_cluster --unlocated

timeout=$(value_of --timeout)
token=$EPOCHSECONDS-$$
# A host that does not answer is missing from the facts, which the table shows as Blocked.
host_facts() { run helper_on "$1" host-facts "$1" --canary "$token" || true; }
host_canaries() { run helper_on "$1" host-facts "$1" --canary "$token" --read || true; }
all_reduce() { run helper_on "$1" all-reduce "$1" --port "$port" ${timeout:+--timeout "$timeout"} || true; }

bring_hosts_up
if given --nccl; then # first: a wrong --timeout ends the check before anything is measured
  code=0
  port=$(run helper_on "${WORKERS[0]}" all-reduce "${WORKERS[0]}" --free-port ${timeout:+--timeout "$timeout"}) || { code=$? port=0; }
  ((code != 2)) || exit "$code"
  [[ -z $DRY_RUN ]] || port=PORT
fi
facts=$(on_each host_facts "${HOSTS[@]}")
seen=$(on_each host_canaries "${HOSTS[@]}")
reduced=''
if given --nccl; then
  # All at once, however many: they wait for each other.
  reduced=$(AT_ONCE=${#WORKERS[@]} on_each all_reduce "${WORKERS[@]}")
fi
[[ -z $DRY_RUN ]] || exit 0
host_exec "$HEAD" -- rm -rf "$SHARED_ROOT/.canary-$token" || true
options=()
for option in --json --nccl; do ! given "$option" || options+=("$option"); done
"$PYTHON" -m mvp_helpers prereq "${options[@]}" < <(printf '%s\n\n%s\n\n%s\n' "$facts" "$seen" "$reduced") || exit
