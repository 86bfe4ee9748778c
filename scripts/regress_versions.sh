#!/usr/bin/env bash
# Run two versions of verl's code at the same time: a snapshot of verl, and one with a changed file (verl/protocol.py). The same JobSpec is
# submitted with each; while both jobs run, the driver and a Ray process on every worker report the file they imported. Prints the table
# of verdicts.
#
# usage: ./scripts/regress_versions.sh [--cluster NAME|FILE] [--dry-run]
#
# Exit code 0 only if every check passes. A cluster that this script started is always stopped at the end; KEEP=1 keeps it. CLUSTER names
# the cluster as --cluster does. The changed source stays in user/code/verl_changed on the shared root.
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
unchanged_job=$(step 43_submit_jobspec.sh "$PROJECT/templates/versions.json")
step 31_snapshot_verl_code.sh --source "$(change_code "$unchanged")" >&2
# The same JobSpec: its code_path is "current", which is another snapshot now.
changed_job=$(step 43_submit_jobspec.sh "$PROJECT/templates/versions.json")
step 31_snapshot_verl_code.sh >&2 # current is the unchanged snapshot again
worst=0
for id in "$unchanged_job" "$changed_job"; do
  step 50_status.sh --follow "${id:-ID}" || worst=$?
done
code=0
run helper_on "$HEAD" verify-versions "${unchanged_job:-ID}" "${changed_job:-ID}" || code=$?
worst=$((worst ? worst : code))
say "regression of two versions on cluster '$CLUSTER_NAME': $( ((worst)) && echo "not passed (exit code $worst)" || echo passed)" \
  "after $(seconds_since "$began") s"
exit "$worst"
