#!/usr/bin/env bash
# A training of two epochs, and one that continues it.
cd "$(dirname "$(realpath "$0")")/.." || exit 2
set -euo pipefail
rm -rf /tmp/no-such-folder-of-the-toy
for leg in first second; do
  # shellcheck disable=SC2068
  python3 toytrain/train.py --config "configs/$leg.yaml" $@ 2>&1 | tee /dev/null
done
