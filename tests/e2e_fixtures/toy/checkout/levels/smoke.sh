#!/usr/bin/env bash
set -euo pipefail
PROJECT_ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." &>/dev/null && pwd)
cd "$PROJECT_ROOT"
# shellcheck disable=SC2068 # as unquoted as scripts of real trainers
python3 toytrain/train.py --config configs/smoke.yaml $@
