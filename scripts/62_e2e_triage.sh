#!/usr/bin/env bash
# Judge logs for the code under test: Pass, Fail, Blocked, Noise (only residual text) or Unknown, with boundary, evidence and advice.
#
# usage: ./scripts/62_e2e_triage.sh LOG... [--json]
#
# A LOG is a log of verl, NeMo-RL, vLLM, Ray, Slurm, uv or pytest, whole or an excerpt, or a metrics file (.json, .jsonl), which is judged
# as a learning signal. Blocked: something else stopped the run; nothing speaks against the code under test. A log is a Pass only
# if it reports that the run reached its end and nothing in it contradicts that. 55_explain.sh gives the same answer.
#
#   --json   print one JSON object per log: verdict, boundary, phase (start, build, train, done), rule, line, evidence, confidence (high,
#            medium, low), advice, follow_up, limitation
#
# exit codes: 0 all Pass or Noise, 1 one is Fail, 2 a file is unreadable, empty or not text (the others are judged), 3 one is Blocked or Unknown
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
