#!/usr/bin/env bash
# Why a job failed: the first root cause in time, with the file and line, whose it is, and what to do next.
#
# usage: ./scripts/55_explain.sh ID|LOG [--json] [--cluster NAME|FILE] [--dry-run]
#
# For an ID everything in its folder is read: result, precheck, the driver's log (with what Ray's workers printed), debug bundles. A LOG
# is any text file, of verl, NeMo-RL, vLLM, Ray, Slurm, uv or pytest. What no signature in templates/failure_signatures.yaml knows is
# called unknown, with the last distinct error. The cluster need not be up.
#
#   --json   the answer as one JSON object
#
# exit codes: 0 explained (also when it is unknown, or there is nothing to explain), 2 unknown ID, or a LOG that is no readable text
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
