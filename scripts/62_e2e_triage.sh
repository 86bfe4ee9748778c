#!/usr/bin/env bash
# What a log means for the code under test: Pass, Fail, Blocked, Noise (only residual text) or Unknown, with boundary, evidence and advice.
#
# usage: ./scripts/62_e2e_triage.sh LOG... [--json]
#
# A LOG is any log of verl, NeMo-RL, vLLM, Ray, Slurm, uv or pytest, from anywhere, whole or an excerpt; or a metrics file (.json, .jsonl),
# which is judged as a learning signal. Blocked means stopped by something else before the model or provider was built. A log is a Pass
# only if it says that it reached its end and nothing in it speaks against that; what cannot be told is Unknown.
#
#   --json   one JSON object a log: verdict, boundary, phase, rule, line, evidence, confidence, advice, follow_up
#
# exit codes: 0 all Pass or Noise, 1 one is Fail, 2 a file that cannot be read, is empty or no text (the others are judged), 3 one is Blocked or Unknown
#
# examples:
#   ./scripts/62_e2e_triage.sh verl_lora_ddp.log
#   ./scripts/62_e2e_triage.sh slurm-4711.out metrics.jsonl --json
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--json LOG...' "$@"
find_python
[[ -z $DRY_RUN ]] || { run "$PYTHON" -m mvp_helpers triage "${OPTS[@]}" "${ARGS[@]}" && exit; }
code=0
"$PYTHON" -m mvp_helpers triage "${OPTS[@]}" "${ARGS[@]}" || code=$?
exit "$code"
