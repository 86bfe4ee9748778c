#!/usr/bin/env bash
# The regression of a workload, from a fresh clone to a verdict: packages (12), checks (00), cluster (01), data and model (30), code
# snapshot (31), JobSpecs from templates/ submitted (43), all jobs verified (54). The verdict table goes to stdout.
#
# usage: ./scripts/regress.sh WORKLOAD [--json] [--cluster NAME|FILE] [--dry-run]
#
# WORKLOAD is a JobSpec in templates/: "ppo" is submitted twice, any other once. "all" is ppo twice, grpo and sft on one cluster, and
# ends in a table of the plan's Definition of Done. Exit code 0 only if every check holds. A cluster that this started is stopped at
# the end, whatever the end is; KEEP=1 keeps it. CLUSTER names the cluster as --cluster does.
#
#   --json   the verdicts as one JSON object
#
# examples:
#   ./scripts/regress.sh ppo
#   CLUSTER=dev KEEP=1 ./scripts/regress.sh all --json
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
began=$EPOCHREALTIME
export MVP_CLUSTER=${CLUSTER:-${MVP_CLUSTER:-local}}
parse_options '--json WORKLOAD' "$@"
verdict=("${OPTS[@]}")
case ${ARGS[0]} in
  all) specs=(ppo ppo grpo sft) verdict+=(--definition-of-done) ;;
  ppo) specs=(ppo ppo) ;;
  *) specs=("${ARGS[0]}") ;;
esac
for spec in "${specs[@]}"; do
  [[ -f $PROJECT/templates/$spec.json ]] || die 2 "no JobSpec for '$spec': templates/$spec.json does not exist" "./scripts/${0##*/} all"
done

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

ids=() worst=0 failed=''
for spec in "${specs[@]}"; do
  [[ $spec != "$failed" ]] || continue # a second run could only tell the same
  code=0
  id=$(step 43_submit_jobspec.sh "$PROJECT/templates/$spec.json" --wait) || code=$?
  [[ -z $DRY_RUN ]] || id="<id of $spec>"
  [[ -n $id ]] || exit "$code"
  ids+=("$id")
  ((code == 0)) || failed=$spec
  worst=$((worst ? worst : code))
done
code=0
(step 54_verify.sh "${verdict[@]}" "${ids[@]}") || code=$?
worst=$((worst ? worst : code))
[[ -z $DRY_RUN ]] || exit 0

say "regression of '${ARGS[0]}' on cluster '$CLUSTER_NAME': $( ((worst)) && echo "not passed (exit code $worst)" || echo passed)" \
  "after $(seconds_since "$began") s"
for id in "${ids[@]}"; do say "  look at $SHARED_ROOT/jobs/$id/ (result.json, metrics.jsonl, logs/driver.log, debug/)"; done
exit "$worst"
