#!/usr/bin/env bash
# bats of this project, interruptible. usage: ./tests/run_bats.sh [<bats' options>] FILE|FOLDER...
set -euo pipefail
BIN=$(cd "$(dirname "$0")/../.venv/bin" && pwd)
# Started in the background, bash cannot be interrupted, and tests of Ctrl-C would wait for ever: SIGINT is put back.
exec "$BIN/python" -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])' \
  "$BIN/bats" --pretty --timing "$@"
