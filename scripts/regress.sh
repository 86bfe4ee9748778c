#!/usr/bin/env bash
# Run the regression of a workload, from a fresh clone to a verdict: packages (12), checks (00), cluster (01), data and model (30), code
# snapshot (31), JobSpecs from templates/ submitted (43), all jobs verified (54 --learning --gates). Prints the table of verdicts; on CPUs a job that
# learned nothing fails. Ends with one page about all jobs (56).
#
# usage: ./scripts/regress.sh WORKLOAD [--json] [--cluster NAME|FILE] [--dry-run]
#
# WORKLOAD is a JobSpec in templates/: "ppo" is submitted twice, any other once. "all" runs ppo twice, grpo and sft on one cluster, and
# ends with a table of the Definition of Done. Exit code 0 only if every check passes. A cluster that this script started is always
# stopped at the end; KEEP=1 keeps it. CLUSTER names the cluster as --cluster does.
#
#   --json   print the verdicts as one JSON object
#
# examples:
#   ./scripts/regress.sh ppo
#   CLUSTER=dev KEEP=1 ./scripts/regress.sh all --json
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/regression.sh
source "$SCRIPTS/lib/regression.sh"
began=$EPOCHREALTIME
parse_options '--json WORKLOAD' "$@"
verdict=(--learning --gates "${OPTS[@]}") report=(--gates)
case ${ARGS[0]} in
  all) specs=(ppo ppo grpo sft) verdict+=(--definition-of-done) report+=(--definition-of-done) ;;
  ppo) specs=(ppo ppo) ;;
  *) specs=("${ARGS[0]}") ;;
esac
for spec in "${specs[@]}"; do
  [[ -f $PROJECT/templates/$spec.json ]] || die 2 "no JobSpec for '$spec': templates/$spec.json does not exist" "./scripts/${0##*/} all"
done

start_regression
step 30_prepare_data_and_model.sh >&2
step 31_snapshot_verl_code.sh >&2

ids=() worst=0 failed_spec=''
for spec in "${specs[@]}"; do
  [[ $spec != "$failed_spec" ]] || continue # a second run would fail in the same way
  code=0
  id=$(step 43_submit_jobspec.sh "$PROJECT/templates/$spec.json" --wait) || code=$?
  [[ -z $DRY_RUN ]] || id="<id of $spec>"
  [[ -n $id ]] || exit "$code"
  ids+=("$id")
  ((code == 0)) || failed_spec=$spec
  worst=$((worst ? worst : code))
done
code=0
(step 54_verify.sh "${verdict[@]}" "${ids[@]}") || code=$?
worst=$((worst ? worst : code))
shown=("${ids[@]}") # a page of two jobs compares them, which needs metrics of both
[[ -z $failed_spec || ${#ids[@]} != 2 ]] || shown=("${ids[-1]}")
page=$(step 56_report.sh "${report[@]}" "${shown[@]}") || worst=$((worst ? worst : $?))
[[ -z $DRY_RUN ]] || exit 0

say "regression of '${ARGS[0]}' on cluster '$CLUSTER_NAME': $( ((worst)) && echo "not passed (exit code $worst)" || echo passed)" \
  "after $(seconds_since "$began") s"
for id in "${ids[@]}"; do say "  see $SHARED_ROOT/jobs/$id/ (result.json, metrics.jsonl, logs/driver.log, debug/)"; done
[[ -z $page ]] || say "  all on one page: $page"
exit "$worst"
