#!/usr/bin/env bats
# The bash library without Ray: help, options, messages, hosts.

load helpers

setup() {
  cd "$BATS_TEST_TMPDIR" || return
}

script() { # <body>: write scripts/mine.sh, which uses the real library
  mkdir -p scripts
  ln -sfn "$PROJECT/scripts/lib" scripts/lib
  printf '#!/usr/bin/env bash\n# Print something.\n#\n# usage: mine.sh\n%s\n%s\n' "source '$PROJECT/scripts/lib/common.sh'" "$1" >scripts/mine.sh
  chmod +x scripts/mine.sh
}

bare_project() { # a checkout without .venv, and a python3 without any package
  cp -r "$PROJECT/scripts" "$PROJECT/lib" "$PROJECT/templates" .
  mkdir bin
  printf '#!/bin/sh\nexec %q -S "$@"\n' "$PROJECT/.venv/bin/python" >bin/python3
  chmod +x bin/python3
}

@test "every script prints its header comment as help, without starting Python" {
  local file
  for file in "$PROJECT"/scripts/*.sh; do
    PYTHONHOME=/nonexistent run --separate-stderr "$file" --help
    assert_status 0
    [[ $output == *"usage: "*"${file##*/}"* && $output == *examples:* && -z $stderr ]] || fail "$file: help lacks usage or examples"
    [[ $output != *'#!'* && $output != *"parse_options"* ]] || fail "$file: help shows code"
  done
}

@test "an unknown option is bad input, with a hint at the help" {
  run --separate-stderr 01_up.sh --chekc
  assert_status 2
  assert_output ''
  [[ $stderr == $'bad input: unknown option \'--chekc\' (did you mean \'--check\'?)\n  try: ./scripts/01_up.sh --help' ]] || fail 'wrong message'
  run --separate-stderr 01_up.sh --xyzzy
  [[ $stderr == $'bad input: unknown option \'--xyzzy\'\n  try: ./scripts/01_up.sh --help' ]] || fail 'wrong message'
}

@test "an option without its value and an unexpected argument are bad input" {
  run --separate-stderr 01_up.sh --cluster
  assert_status 2
  assert_stderr_has '--cluster needs a value'
  run --separate-stderr 01_up.sh local
  assert_status 2
  assert_stderr_has "unexpected argument 'local'"
}

@test "an unknown cluster is bad input, with the nearest known name" {
  run --separate-stderr 01_up.sh --cluster=locl
  assert_status 2
  assert_stderr_has "did you mean 'local'?"
}

@test "a host driver without a file is bad input" {
  make_cluster_file slurmy 12 120
  sed -i 's/host_driver: local/host_driver: slurm/' "$MVP_CLUSTER"
  cp -r "$PROJECT/scripts" . && rm -f scripts/lib/hosts/slurm.sh
  ln -s "$PROJECT/lib" "$PROJECT/.venv" "$PROJECT/templates" .
  run --separate-stderr ./scripts/02_down.sh
  assert_status 2
  assert_stderr_has "unknown host driver 'slurm'"
  rm -r "$FOLDER"
}

@test "missing Python packages block a script, which names the script that installs them" {
  bare_project
  PATH=$PWD/bin:/usr/bin:/bin run --separate-stderr ./scripts/02_down.sh
  assert_status 3
  assert_stderr_has 'blocked: the Python packages of this project are not installed: '
  assert_stderr_has "has no module 'click'"$'\n''  try: ./scripts/12_install_py_deps.sh'
  [[ $(wc -l <<<"$stderr") == 2 ]] || fail 'not one message'
}

@test "the message names a Python that is too old" {
  bare_project
  printf '#!/bin/sh\nexit 1\n' >bin/python3
  PATH=$PWD/bin:/usr/bin:/bin run --separate-stderr ./scripts/02_down.sh
  assert_status 3
  assert_stderr_has "$PWD/bin/python3 is older than Python 3.10"
}

@test "the message of an unexpected failure has script, line and command" {
  script $'parse_options "" "$@"\nls /nonexistent/folder'
  run --separate-stderr scripts/mine.sh
  assert_status 2
  assert_stderr_has 'mine.sh:7: exit code 2 from: ls /nonexistent/folder'
}

@test "own options and arguments arrive as given" {
  script $'parse_options "--wait --timeout= SPEC [ID...]" "$@"\nprintf "<%s>" "${OPTS[@]}" / "${ARGS[@]}" "$MVP_CLUSTER"; given --wait'
  run --separate-stderr scripts/mine.sh a.json --timeout='1 s' --wait --cluster x -- --id
  assert_status 0
  assert_output '<--timeout=1 s><--wait></><a.json><--id><x>'
  run --separate-stderr scripts/mine.sh
  assert_status 2
  assert_stderr_has 'an argument is missing: --wait --timeout= SPEC'
}

@test "a dry run prints the commands and runs nothing" {
  make_cluster_file dry 12 120
  run --separate-stderr 01_up.sh --dry-run
  assert_status 0
  assert_output '*helper_on head start-node head*helper_on worker-1 start-node worker-1*wait-nodes*'
  [[ ! -e $FOLDER/state ]] || fail 'it made a state directory'
  rm -r "$FOLDER"
}

@test "host_exec passes every argument byte for byte and stdin only with -i, and returns the exit code" {
  make_cluster_file exec 12 120
  script 'parse_options "" "$@"; load_cluster
    weird=("" "a  b" '\''$(touch hacked) `id` "q"'\'' $'\''new\nline'\'' "ünï*")
    code="import os, sys; sys.stdout.buffer.write(b\"|\".join(map(os.fsencode, sys.argv[1:]))); print(sys.stdin.read(), end=\"\")"
    [[ $(host_exec worker-0 -- python3 -c "$code" "${weird[@]}" <<<"typed") == "$(IFS="|"; printf %s "${weird[*]}")" ]] || die 1 argv
    [[ $(host_exec worker-0 -i -- python3 -c "$code" <<<"typed") == typed ]] || die 1 stdin
    [[ $(RAY_ADDRESS=elsewhere host_exec worker-0 -- env) == *MVP_HOST_IP=127.0.12.11* ]] || die 1 environment
    [[ $(RAY_ADDRESS=elsewhere host_exec worker-0 -- env) != *RAY_ADDRESS* ]] || die 1 RAY_ADDRESS
    host_exec worker-1 -- sh -c "exit 7" || exit "$?"'
  run --separate-stderr scripts/mine.sh
  assert_status 7
  [[ ! -e hacked ]] || fail 'a shell saw the arguments'
  rm -r "$FOLDER"
}

@test "on_each names the hosts that failed, and passes TERM on to their commands" {
  make_cluster_file each 12 120
  script 'parse_options "" "$@"; load_cluster
    flaky() { host_exec "$1" -- sh -c "[ $1 = worker-0 ] || exit 3"; }
    slow() { host_exec "$1" -- sh -c "echo \$\$ >pid.$1; exec sleep 300"; }
    case $MODE in flaky) on_each flaky "${WORKERS[@]}" ;; slow) on_each slow "${WORKERS[@]}" ;; esac'
  MODE=flaky run --separate-stderr scripts/mine.sh
  assert_status 3
  assert_stderr_has 'flaky: worker-1'
  [[ $stderr != *'flaky: worker-0'* ]] || fail 'the message names a host that did not fail'
  MODE=slow scripts/mine.sh &
  until [[ -s pid.worker-0 && -s pid.worker-1 ]]; do sleep 0.05; done
  kill -TERM "$!"
  wait "$!" || status=$?
  assert_status 130
  wait_until_gone "$(<pid.worker-0)" "$(<pid.worker-1)"
  rm -r "$FOLDER"
}
