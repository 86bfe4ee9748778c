#!/usr/bin/env bash
# The regression of a workload, from a fresh clone to a verdict: packages (12), checks (00), cluster (01), data and model (30), code
# snapshot (31), the same JobSpec submitted twice (43), both jobs verified (54). The verdict table goes to stdout.
#
# usage: ./scripts/regress.sh WORKLOAD [--cluster NAME|FILE] [--dry-run]
#
# WORKLOAD is a JobSpec in templates/ (ppo). Exit code 0 only if every check holds. A cluster that this started is stopped at the
# end, whatever the end is; KEEP=1 keeps it. CLUSTER names the cluster as --cluster does.
#
# examples:
#   ./scripts/regress.sh ppo
#   CLUSTER=dev KEEP=1 ./scripts/regress.sh ppo
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
began=$EPOCHREALTIME
export MVP_CLUSTER=${CLUSTER:-${MVP_CLUSTER:-local}}
parse_options 'WORKLOAD' "$@"
spec=$PROJECT/templates/${ARGS[0]}.json
[[ -f $spec ]] || die 2 "no JobSpec for '${ARGS[0]}': $spec does not exist" "./scripts/${0##*/} ppo"

step() { # <script> <argument>...
  say "── ${1%.sh} ${*:2}"
  run "$SCRIPTS/$1" "${@:2}" || { code=$? && say "regression stopped by ${1%.sh} (exit code $code)" && exit "$code"; }
}

# shellcheck disable=SC2329 # called by the trap
stop_cluster() { # at exit: what was started here is stopped, and the exit code stays what it was
  local code=$?
  trap '' INT TERM
  "$SCRIPTS/02_down.sh" || code=$((code ? code : 1))
  exit "$code"
}

step 12_install_py_deps.sh
load_cluster
step 00_prereq_check.sh >&2
if [[ -z $DRY_RUN && ${KEEP:-} != 1 && $("$SCRIPTS/01_up.sh" --check || true) == down ]]; then trap stop_cluster EXIT; fi
step 01_up.sh >&2
step 30_prepare_data_and_model.sh >&2
step 31_snapshot_verl_code.sh >&2

ids=() worst=0
for round in first second; do
  code=0
  id=$(step 43_submit_jobspec.sh "$spec" --wait) || code=$?
  [[ -n $DRY_RUN ]] && id="<$round id>"
  [[ -n $id ]] || exit "$code"
  ids+=("$id")
  worst=$((worst ? worst : code))
  ((code == 0)) || break
done
code=0
(step 54_verify.sh "${ids[@]}") || code=$?
worst=$((worst ? worst : code))
[[ -z $DRY_RUN ]] || exit 0

say "regression of '${ARGS[0]}' on cluster '$CLUSTER_NAME': $( ((worst)) && echo "not passed (exit code $worst)" || echo passed)" \
  "after $(seconds_since "$began") s"
for id in "${ids[@]}"; do say "  look at $SHARED_ROOT/jobs/$id/ (result.json, metrics.jsonl, logs/driver.log, debug/)"; done
exit "$worst"
