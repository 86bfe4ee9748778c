#!/usr/bin/env bash
# Two versions of verl's code at work at the same time: a snapshot of verl, a second one with a changed file (verl/protocol.py), and
# the same JobSpec submitted once with each. Both jobs run beside each other; the driver and a Ray process on every worker tell which
# file they import meanwhile. The verdict table goes to stdout.
#
# usage: ./scripts/regress_versions.sh [--cluster NAME|FILE] [--dry-run]
#
# Exit code 0 only if every check holds. A cluster that this started is stopped at the end, whatever the end is; KEEP=1 keeps it.
# CLUSTER names the cluster as --cluster does. The changed source stays in user/code/verl_changed on the shared root.
#
# examples:
#   ./scripts/regress_versions.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/regression.sh
source "$SCRIPTS/lib/regression.sh"
began=$EPOCHREALTIME
parse_options '' "$@"

change_code() { # <snapshot>: prints a folder with the same code and a changed file, on the head
  local changed=$SHARED_ROOT/user/code/verl_changed
  # shellcheck disable=SC2016 # expanded on the head
  run host_exec "$HEAD" -- bash -euc 'mkdir -p "$2" && rm -rf "$2/verl" && cp -r "$1/verl" "$2" && chmod -R u+w "$2" &&
    printf "\nMVP_CHANGE = \"changed for regress-versions\"\n" >>"$2/verl/protocol.py"' - "$1" "$changed"
  printf '%s\n' "$changed"
}

start_regression
unchanged=$(step 31_snapshot_verl_code.sh)
one=$(step 43_submit_jobspec.sh "$PROJECT/templates/versions.json")
step 31_snapshot_verl_code.sh --source "$(change_code "$unchanged")" >&2
# The same JobSpec: code_path names "current", which is another snapshot now.
other=$(step 43_submit_jobspec.sh "$PROJECT/templates/versions.json")
step 31_snapshot_verl_code.sh >&2 # current is as before
worst=0
for id in "$one" "$other"; do
  step 50_status.sh --follow "${id:-ID}" || worst=$?
done
code=0
run helper_on "$HEAD" verify-versions "${one:-ID}" "${other:-ID}" || code=$?
worst=$((worst ? worst : code))
say "regression of two versions on cluster '$CLUSTER_NAME': $( ((worst)) && echo "not passed (exit code $worst)" || echo passed)" \
  "after $(seconds_since "$began") s"
exit "$worst"
