#!/usr/bin/env bash
# Run the lab's tests, and end by telling how many of them were skipped, and why.
#
# usage: ./tests/lab/run.sh [FILE.bats ...]
set -euo pipefail
LAB=$(cd "$(dirname "$0")" && pwd)
report=$(mktemp -d)
trap 'rm -rf "$report"' EXIT
code=0
"$LAB/../run_bats.sh" --report-formatter tap --output "$report" "${@:-$LAB}" || code=$?
reasons=$(sed -n 's/^ok .* # skip //p' "$report/report.tap" | sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/\1: \2/' | paste -sd ';')
printf 'lab: %s tests, %s skipped%s\n' "$(grep -cE '^(not )?ok ' "$report/report.tap")" \
  "$(grep -c ' # skip ' "$report/report.tap" || true)" "${reasons:+ ($reasons)}"
exit "$code"
