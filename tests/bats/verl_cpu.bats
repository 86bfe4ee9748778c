#!/usr/bin/env bats
# The CPU plugin in processes of its own, with the real verl: without the plugin training ends at once, and says why.

load helpers

setup() {
  cd "$BATS_TEST_TMPDIR" || return
  VERL=$(python -c 'import importlib.util as util; print((util.find_spec("verl") or util.find_spec("json")).submodule_search_locations[0])')
  [[ $VERL == */verl ]] || skip 'verl is not installed'
  unset "${!VERL_@}" PYTHONPATH
  export CUDA_VISIBLE_DEVICES='' PYTHONDONTWRITEBYTECODE=1 VERL_PLATFORM=cpu
}

run_python() { # <code>
  run --separate-stderr python -W ignore -c "$1"
}

doctor_verl() { # <package> <file> <old> <new>: ./verl, the installed one through links, with one file changed
  mkdir verl
  ln -s "$VERL"/* verl/ # __pycache__ too: bytecode is found by the time and size of its source
  rm "verl/$1"
  mkdir "verl/$1"
  ln -s "$VERL/$1"/* "verl/$1/"
  rm "verl/$1/$2"
  grep -qF -- "$3" "$VERL/$1/$2"
  sed "s/$3/$4/" "$VERL/$1/$2" >"verl/$1/$2"
}

@test "a plugin that is not on the path ends the import of verl" {
  VERL_USE_EXTERNAL_MODULES=verl_cpu run_python 'import verl; print("went on")'
  assert_status 1
  assert_output ''
  assert_stderr_has "No module named 'verl_cpu'"
}

@test "without VERL_USE_EXTERNAL_MODULES verl does not load the plugin, and ends at VERL_PLATFORM=cpu" {
  PYTHONPATH=$PROJECT/lib run_python '
import sys, verl
print("verl_cpu" in sys.modules)
from verl.plugin.platform import get_platform
get_platform()
print("went on")'
  assert_status 1
  assert_output False # GPU runs are such runs
  assert_stderr_has "Unknown platform 'cpu'"
}

@test "a verl that changed where the plugin patches it ends the import of that module" {
  doctor_verl utils distributed.py 'backend = backend or' 'backend = backend if backend else'
  PYTHONPATH=$PWD:$PROJECT/lib VERL_USE_EXTERNAL_MODULES=verl_cpu run_python 'import verl.utils.distributed; print("went on")'
  assert_status 1
  assert_output ''
  assert_stderr_has "PatchError: verl_cpu, patch 'gloo by default'"
}
