#!/usr/bin/env bash
# Run the end-to-end procedure with the real verl on CPUs, from nothing to a verdict: levels 0 (smoke), 1 (save and resume) and 5
# (learning signal) of the description verl-cpu-smoke, with a checkout made from the installed verl.
#
# usage: ./scripts/e2e_smoke.sh [--level N[,N...]] [--runs-dir FOLDER] [--cluster NAME|FILE] [--dry-run]
#
# Data and model are those of the cluster file (see 30). The cluster may be down. Takes about four minutes on two idle cores.
#
# examples:
#   ./scripts/e2e_smoke.sh
#   ./scripts/e2e_smoke.sh --level 0
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--level= --runs-dir=' "$@"
load_cluster
bin=${PYTHON%/*}
if [[ $bin == *[[:space:]]* ]]; then # the trainer's own Ray does not quote its interpreter when it starts a worker
  link=$(mktemp -d)
  trap 'rm -rf "$link"' EXIT
  ln -s "${bin%/*}" "$link/venv"
  bin=$link/venv/bin
fi
# shellcheck disable=SC2031 # no subshell
export PATH=$bin:$PATH
checkout=$PROJECT/.mvp/e2e/checkouts/verl

make_checkout() { # a git checkout with the code of the installed verl
  local package
  package=$("$PYTHON" -c 'import importlib.util as u; print(*u.find_spec("verl").submodule_search_locations)')
  mkdir -p "$checkout"
  cp -r "$package" "$checkout/verl"
  echo __pycache__/ >"$checkout/.gitignore"
  git -C "$checkout" init -q
  git -C "$checkout" add -A
  git -C "$checkout" -c user.name=e2e -c user.email=e2e@localhost commit -q -m 'the installed verl'
}

run "$SCRIPTS/30_prepare_data_and_model.sh" >&2
[[ -d $checkout/.git ]] || run make_checkout
export VERL_REPO=$checkout MODEL_PATH=$SHARED_ROOT/common/models/default
export TRAIN_FILES=$SHARED_ROOT/datasets/gsm8k/train.parquet VAL_FILES=$SHARED_ROOT/datasets/gsm8k/test.parquet
given --level || OPTS+=('--level=0,1,5')
run "$SCRIPTS/60_e2e_verl.sh" --description verl-cpu-smoke "${OPTS[@]}"
