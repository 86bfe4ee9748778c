#!/usr/bin/env bats
# Script 12 in a project of its own, with an interpreter and a pip that only pretend.

load helpers

setup() {
  cd "$BATS_TEST_TMPDIR" || return
  cp -r "$PROJECT/scripts" "$PROJECT"/requirements*.lock "$PROJECT/pyproject.toml" "$PROJECT/templates" .
  export MVP_CLUSTER=local
  mkdir -p .venv/bin bin
  cat >.venv/bin/python <<'SH'
#!/bin/bash
# PIP_FAILS: a pattern; a pip command line that matches it fails.
case "$1 $2" in
  -V*) echo Python 3.11.7 ;;
  '-m pip')
    echo "$*" >>pip.calls
    [[ -z $PIP_FAILS || $* != $PIP_FAILS ]] || { echo 'ERROR: no such wheel' && exit 1; }
    ;;
  '-m compileall') echo "${@: -1}" >compiled ;;
  -c*) [[ $2 != *importlib* ]] ;;
esac
SH
  chmod +x .venv/bin/python
  export PIP_FAILS=''
}

install() {
  run --separate-stderr ./scripts/12_install_py_deps.sh "$@"
}

@test "the pinned packages are installed once; then: skip: exists" {
  install --dev
  assert_status 0
  grep -q -- '-r .*/requirements.lock' pip.calls && grep -q -- '-r .*/requirements-dev.lock' pip.calls || fail "pip: $(<pip.calls)"
  [[ $(<compiled) == "$PWD/.venv/lib" ]] || fail 'what was installed was not compiled'
  : >pip.calls
  install --dev
  assert_stderr_has 'skip: exists'
  install
  assert_stderr_has 'skip: exists'
  [[ ! -s pip.calls ]] || fail "pip was called: $(<pip.calls)"
  echo 'extra==1' >>requirements.lock
  install
  grep -q -- '-r .*/requirements.lock' pip.calls || fail 'a changed lock was not installed'
}

@test "for hosts with a Python of their own only the helper's packages are installed, and nothing of Ray or torch" {
  local cluster
  printf '{"name": "x", "host_driver": "ssh"}' >mine.json
  for cluster in dev dev-cpu prod slurm ./mine.json; do
    rm -f pip.calls .venv/.mvp-installed-*
    install --cluster "$cluster"
    assert_status 0
    [[ $(<pip.calls) == "-m pip install --disable-pip-version-check --no-compile --no-deps --require-hashes -r $PWD/requirements-helper.lock" ]] ||
      fail "pip: $(<pip.calls)"
    install --cluster "$cluster"
    assert_stderr_has "skip: exists: $PWD/.venv has the helper's packages"
  done
  install
  grep -q -- '-r .*/requirements.lock' pip.calls || fail 'a local cluster needs everything'
  rm pip.calls
  install --cluster dev
  assert_stderr_has 'skip: exists'
  [[ ! -e pip.calls ]] || fail 'everything includes the helper'
}

@test "--all installs everything for Slurm nodes that see this folder" {
  install --cluster slurm --all
  grep -q -- '-r .*/requirements.lock' pip.calls || fail "pip: $(<pip.calls)"
}

@test "a cluster that does not exist is bad input before anything is made" {
  install --cluster nowhere
  assert_status 2
  assert_stderr_has "no cluster file for 'nowhere'"
  [[ ! -e pip.calls ]] || fail "pip: $(<pip.calls)"
}

@test "a failed install is blocked, shows pip's last words, and is taken up again" {
  PIP_FAILS='*requirements.lock' install
  assert_status 3
  assert_stderr_has 'ERROR: no such wheel'
  assert_stderr_has 'pip could not install requirements.lock'
  [[ -z $(ls .venv/.mvp-installed-* 2>/dev/null) ]] || fail 'it left a stamp'
  install
  assert_status 0
  [[ $stderr != *skip* ]] || fail 'skipped'
}

@test "without a GPU torch is the CPU build, from MVP_TORCH_INDEX where the configured places lack it" {
  [[ ! -e /dev/nvidia0 ]] || skip 'this machine has a GPU'
  install
  grep -q -- '-r .*/requirements-cpu.lock$' pip.calls || fail "pip: $(<pip.calls)"
  [[ $(<pip.calls) != *index-url* && $(<pip.calls) != *cuda* ]] || fail 'the other index was asked although nothing was missing'
  rm .venv/.mvp-installed-* pip.calls
  PIP_FAILS='*no-deps --require-hashes -r *cpu.lock' MVP_TORCH_INDEX=https://mirror.example/cpu install
  grep -q -- '--index-url https://mirror.example/cpu --require-hashes -r .*/requirements-cpu.lock$' pip.calls || fail "pip: $(<pip.calls)"
}

@test "with a GPU torch is the plain build" {
  printf '#!/bin/sh\necho GPU 0\n' >bin/nvidia-smi && chmod +x bin/nvidia-smi
  PATH=$PWD/bin:$PATH install
  grep -q -- '-r .*/requirements-cuda.lock$' pip.calls && ! grep -q cpu.lock pip.calls || fail "pip: $(<pip.calls)"
}

@test "pip accepts no file without one of the lock's hashes, whatever is installed" {
  install --dev
  [[ $(wc -l <pip.calls) == 3 && $(grep -c -- '--no-deps --require-hashes -r ' pip.calls) == 3 ]] || fail "pip: $(<pip.calls)"
}

@test "a Python that is too old or too new is refused before anything is made" {
  rm -r .venv
  printf '#!/bin/sh\n[ "$1" != -V ] || echo Python 3.9.18\nexit 1\n' >bin/python3.9 && chmod +x bin/python3.9
  MVP_PYTHON=$PWD/bin/python3.9 install
  assert_status 3
  assert_stderr_has "no Python from 3.10 to 3.12 ($PWD/bin/python3.9 is Python 3.9.18)"
  [[ ! -e .venv ]] || fail 'it made .venv'
}
