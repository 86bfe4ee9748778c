#!/usr/bin/env bash
# Create .venv and install the pinned Python packages that the chosen cluster needs on this machine. Prints "skip: exists" when nothing
# has changed.
#
# usage: ./scripts/12_install_py_deps.sh [--all] [--dev] [--cluster NAME|FILE] [--dry-run]
#
# It installs what the lock files name, and checks every file against their hashes (SECURITY.md).
#
# For a local cluster it installs everything: the helper's packages, Ray and the trainer (requirements.lock). For hosts that are reached
# by docker, ssh or Slurm it installs only the helper's packages (seconds, a few MB): Ray and the trainer are in the hosts' own Python,
# which 00_prereq_check.sh checks.
#
#   --all    everything, whatever the cluster; for Slurm nodes that see this folder and have no Ray of their own
#   --dev    everything, and what the tests need (requirements-dev.lock)
#
# Without an NVIDIA GPU on this machine it installs the CPU build of torch: from pip's configured index, or else from MVP_TORCH_INDEX
# (default https://download.pytorch.org/whl/cpu). MVP_PYTHON is the interpreter to create .venv with (default: the first of python3,
# python3.12, python3.11, python3.10 with a version from 3.10 to 3.12). pip's output is in .mvp/logs/pip.log.
#
# examples:
#   ./scripts/12_install_py_deps.sh
#   ./scripts/12_install_py_deps.sh --cluster prod
#   MVP_PYTHON=python3.12 MVP_TORCH_INDEX=https://mirror.example/whl/cpu ./scripts/12_install_py_deps.sh --dev
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/python_env.sh
source "$SCRIPTS/lib/python_env.sh"
parse_options '--all --dev' "$@"

began=$EPOCHREALTIME
locks=("$PROJECT/requirements.lock")
! given --dev || locks+=("$PROJECT/requirements-dev.lock")
installed_already "${locks[@]}" && say "skip: exists: $VENV has the packages of ${locks[*]##*/}" && exit 0

kind=$(host_kind)
if [[ $kind == @(docker|ssh|slurm) ]] && ! given --all && ! given --dev; then
  installed_already "$HELPER_LOCK" && say "skip: exists: $VENV has the helper's packages" && exit 0
  run make_venv
  run install_lock "$HELPER_LOCK"
  run note_installed "$HELPER_LOCK"
else
  run make_venv
  run install_torch
  for count in $(seq "${#locks[@]}"); do
    run install_lock "${locks[count - 1]}"
    run note_installed "${locks[@]:0:count}"
  done
fi
run compile_packages
[[ -n $DRY_RUN ]] || say "$VENV: ready after $(seconds_since "$began") s"
