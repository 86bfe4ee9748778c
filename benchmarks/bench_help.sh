#!/usr/bin/env bash
# How long each script's --help takes beside `ray --version`; the slowest counts.
#
# usage: [ROUNDS=7] ./benchmarks/bench_help.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/measure.sh"
BENCH_TMP=$(mktemp -d)
trap 'rm -rf "$BENCH_TMP"' EXIT

for ((round = 0; round < ROUNDS; round++)); do
  measure 'ray --version' "$PROJECT/.venv/bin/ray" --version
  for script in "$SCRIPTS"/[0-9]*.sh; do measure "${script##*/} --help" "$script" --help; done
done
slowest=ray
for label in "${!TIMES[@]}"; do
  [[ $label == ray* ]] || [[ $slowest != ray && $(median "$label") -le $(median "$slowest") ]] || slowest=$label
done
compare "$slowest" 'ray --version' 0.1
