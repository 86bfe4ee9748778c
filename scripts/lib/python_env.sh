# shellcheck shell=bash
# The project's own Python environment: created, filled with pinned packages, and marked by a stamp when it is complete.
#
# A set of packages is one lock file or more: HELPER_LOCK has what the scripts need on this machine.

VENV=$PROJECT/.venv
PIP_LOG=$PROJECT/.mvp/logs/pip.log
# shellcheck disable=SC2034 # for script 12
HELPER_LOCK=$PROJECT/requirements-helper.lock
CUDA_LOCK=$PROJECT/requirements-cuda.lock
CPU_LOCK=$PROJECT/requirements-cpu.lock
TORCH_INDEX=${MVP_TORCH_INDEX:-https://download.pytorch.org/whl/cpu}

has_gpu() { [[ -e /dev/nvidia0 ]] || nvidia-smi -L >/dev/null 2>&1; }

host_kind() { # print the cluster file's host_driver; without the helper, whose packages are not installed yet
  local file=${MVP_CLUSTER:-local} line
  [[ $file == */* || $file == *.yaml || $file == *.yml || $file == *.json ]] || file=$PROJECT/templates/ray/$file.yaml
  [[ -r $file ]] || die 2 "no cluster file for '${MVP_CLUSTER:-local}': $file does not exist" "ls $PROJECT/templates/ray"
  while IFS= read -r line || [[ -n $line ]]; do
    if [[ $line =~ ^[^#]*host_driver[\'\"]?[[:space:]]*:[[:space:]]*[\'\"]?([a-z]+) ]]; then
      printf '%s' "${BASH_REMATCH[1]}"
      return
    fi
  done <"$file"
}

fingerprint() { # <lock file>...: of the packages and of the interpreter
  { cat "$@" "$CUDA_LOCK" "$CPU_LOCK" && "$VENV/bin/python" -VV; } | sha256sum
}

stamp() { # <lock file>...: print the path of the set's stamp
  printf '%s/.mvp-installed-%s' "$VENV" "$(basename "${!#}" .lock)"
}

installed_already() { # <lock file>...
  [[ -x $VENV/bin/python && -e $(stamp "$@") && $(<"$(stamp "$@")") == "$(fingerprint "$@")" ]]
}

note_installed() { # <lock file>...: called last, so that an interrupted or failed install leaves no stamp
  fingerprint "$@" >"$(stamp "$@")"
}

suits() { # <python>: succeed from 3.10 to 3.12, for which every package has wheels
  "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null
}

make_venv() {
  local python
  rm -f "$VENV"/.mvp-installed-* # incomplete from here on
  if "$VENV/bin/python" -V >/dev/null 2>&1; then
    suits "$VENV/bin/python" || die 3 "$VENV was made with $("$VENV/bin/python" -V); 3.10 to 3.12 is needed" "rm -r $VENV"
    return
  fi
  for python in "${MVP_PYTHON:-python3}" ${MVP_PYTHON:-python3.12 python3.11 python3.10}; do
    suits "$python" && break
  done
  suits "$python" || die 3 "no Python from 3.10 to 3.12 (${MVP_PYTHON:-python3} is $("${MVP_PYTHON:-python3}" -V 2>&1 || true))" \
    'MVP_PYTHON=/path/to/python3.12 ./scripts/12_install_py_deps.sh'
  say "creating $VENV with $("$python" -V)"
  "$python" -m venv --clear "$VENV" >&2 || die 3 "cannot create $VENV" 'the system package python3-venv may be missing'
}

pip() { # <argument>...: write its output to the log, and the current package to a terminal
  local code=0
  mkdir -p "${PIP_LOG%/*}"
  printf '\n=== %(%FT%T%z)T pip %s\n' -1 "$*" >>"$PIP_LOG"
  env -u PYTHONPATH "$VENV/bin/python" -m pip "$@" 2>&1 | while IFS= read -r line; do
    printf '%s\n' "$line" >>"$PIP_LOG"
    [[ ! -t 2 || $line != Collecting* ]] || printf '\r\033[K  %.100s' "$line" >&2
  done || code=$?
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
  return "$code"
}

pip_install() { # <argument>...: nothing but what they name
  pip install --disable-pip-version-check --no-compile --no-deps "$@" && return
  tail -n 15 "$PIP_LOG" >&2
  die 3 "pip could not install $(basename "${!#}"); the end of its output is above" 'check the network and pip config list, then run this again'
}

compile_packages() { # on every core, which pip does on one; a template among the files of a package fails, which does no harm
  "$VENV/bin/python" -m compileall -q -j 0 "$VENV/lib" >>"$PIP_LOG" 2>&1 || true
}

install_lock() { # <lock file>: each file with one of its hashes
  say "installing ${1##*/} (pip's output: $PIP_LOG)"
  pip_install --require-hashes -r "$1"
}

install_torch() { # without a GPU never the CUDA build (gigabytes)
  local version hashed=(--require-hashes -r "$CPU_LOCK")
  version=$(sed -n 's/^torch==\([^ ]*\).*/\1/p' "$CPU_LOCK")
  if has_gpu; then
    install_lock "$CUDA_LOCK"
  elif ! "$VENV/bin/python" -c "import importlib.metadata as m; assert m.version('torch') == '$version'" 2>/dev/null; then
    say "installing torch $version (pip's output: $PIP_LOG)"
    pip install --disable-pip-version-check --no-compile --no-deps "${hashed[@]}" || pip_install --index-url "$TORCH_INDEX" "${hashed[@]}"
  fi
}
