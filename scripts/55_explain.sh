#!/usr/bin/env bash
# Explain why a job failed: the first root cause in time, the code that raised it, who has to act, and what to do next.
#
# usage: ./scripts/55_explain.sh ID|LOG [--json] [--cluster NAME|FILE] [--dry-run]
#
# For an ID it reads the job's folder: result, precheck, the driver's log (with the output of Ray's workers), debug bundles. A LOG is any
# text file of verl, NeMo-RL, vLLM, Ray, Slurm, uv or pytest. It gives the same answer as 62_e2e_triage.sh: an error that no signature
# in templates/signatures/ matches is judged by its kind, by whose code raised it and by how far the run was, or is Unknown.
# The log of a job that succeeded is read too: an error that the job survived, or a line that contradicts the success (NaN, a missing
# step, a module from site-packages), makes the answer Fail, Blocked or Unknown. The cluster may be down.
#
#   --json   print one JSON object: verdict, rule, boundary, whose, file, line, evidence, where, phase (start, build, train, done), step,
#            confidence (high, medium, low), advice, next
#
# exit codes: 0 explained (also if the cause is unknown, or there is nothing to explain), 2 unknown ID, or a LOG that is not readable text
#
# examples:
#   ./scripts/55_explain.sh ppo-20260131-101500-1a2b
#   ./scripts/55_explain.sh slurm-4711.out --json
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--json ID|LOG' "$@"
target=${ARGS[0]}

if [[ -f $target || $target == */* ]]; then
  find_python
  run "$PYTHON" -m mvp_helpers explain --log "${OPTS[@]}" "$target" || exit
else
  load_cluster
  run helper_on "$HEAD" explain "${OPTS[@]}" "$target"
fi
