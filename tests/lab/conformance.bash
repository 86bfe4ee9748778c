# shellcheck shell=bash
# shellcheck disable=SC2154,SC1003 # bats sets output, stderr and lines
# What every host driver has to do, as tests. A .bats file loads this, brings its hosts up in setup_file, and calls
#
#   conforms <head> <host> [<exit code>...]      registers the tests; <host> is the one they run on (default: a sample of codes)
#
# It may set and define, before that call:
#   WITHIN                 an array, what to put before a command to run it where the hosts can be reached (default: nothing)
#   host_goes_down HOST    make the host unreachable; with host_comes_back HOST there is a test of that

verbs() { # <function> <argument>...: of the host driver
  "${WITHIN[@]}" "$PROJECT/tests/lab/verbs.sh" "$@"
}

conforms() { # <head> <host> [<exit code>...]
  CONFORM_HEAD=$1 CONFORM_HOST=$2 CONFORM_CODES=("${@:3}")
  ((${#CONFORM_CODES[@]})) || CONFORM_CODES=(0 1 2 3 4 64 126 127 128 129 130 137 141 143 254 255)
  bats_test_function --description 'conformance: hosts are listed, the head first' -- conform_list
  bats_test_function --description 'conformance: every argument arrives byte for byte' -- conform_argv
  bats_test_function --description 'conformance: 100 kB and any byte pass through stdin and stdout' -- conform_stdin
  bats_test_function --description 'conformance: without -i there is no stdin' -- conform_no_stdin
  bats_test_function --description 'conformance: stdout and stderr stay apart' -- conform_stderr
  bats_test_function --description 'conformance: every exit code comes back' -- conform_codes
  bats_test_function --description 'conformance: a command that does not exist is 127, one that cannot be run 126' -- conform_not_found
  bats_test_function --description 'conformance: a command sees its host, the cluster and the helper, and no other Ray' -- conform_environment
  bats_test_function --description 'conformance: hub, proxy and token of this machine reach the head, the token unseen' -- conform_network
  bats_test_function --description 'conformance: many commands at once do not mix' -- conform_at_once
  bats_test_function --description 'conformance: Ctrl-C ends the command on the host too' -- conform_interrupt INT 130
  bats_test_function --description 'conformance: TERM ends the command on the host too' -- conform_interrupt TERM 143
  bats_test_function --description 'conformance: a command may clean up after Ctrl-C, and is waited for' -- conform_clean_up
  ! declare -F host_goes_down >/dev/null ||
    bats_test_function --description 'conformance: a host that is down is named' -- conform_down
}

on() { # [-i] <argv>...: on the host
  local stdin=()
  [[ $1 != -i ]] || { stdin=(-i) && shift; }
  verbs host_exec "$CONFORM_HOST" "${stdin[@]}" -- "$@"
}

conform_list() {
  run --separate-stderr verbs hosts_list
  assert_status 0
  [[ ${lines[0]} == "$CONFORM_HEAD" && " ${lines[*]} " == *" $CONFORM_HOST "* ]] || fail "listed: ${lines[*]}"
}

conform_argv() {
  local code every=''
  for code in {1..255}; do printf -v every "%s\\x$(printf %x "$code")" "$every"; done
  local words=('' 'two words' "it's" '"double"' $'two\nlines' $'ends with a newline\n' '$HOME ${x} $(id) `id`' '* ? [a-z] ~' '\' '\\n' '-n' '--'
    '# ; & | < > ( ) { } ! ^ %' '{a,b}' $'\t' 'päßt' "$every" "$(head -c 15000 /dev/zero | tr '\0' "'")" '')
  # shellcheck disable=SC2016
  on /bin/sh -c 'for word; do printf "%s\0" "$word"; done' sh "${words[@]}" >"$BATS_TEST_TMPDIR/got"
  printf '%s\0' "${words[@]}" | cmp - "$BATS_TEST_TMPDIR/got"
}

conform_stdin() {
  head -c 100000 /dev/urandom >"$BATS_TEST_TMPDIR/sent"
  on -i cat <"$BATS_TEST_TMPDIR/sent" >"$BATS_TEST_TMPDIR/got"
  cmp "$BATS_TEST_TMPDIR/sent" "$BATS_TEST_TMPDIR/got"
}

conform_no_stdin() {
  run --separate-stderr on cat <<<'not for you'
  assert_status 0
  assert_output ''
}

conform_stderr() {
  run --separate-stderr on /bin/sh -c 'echo out; echo err >&2; echo out; exit 5'
  assert_status 5
  assert_output $'out\nout'
  [[ $stderr == err ]] || fail "stderr is not: err"
}

conform_codes() {
  run --separate-stderr verbs codes_of "$CONFORM_HOST" "${CONFORM_CODES[@]}"
  assert_status 0
  assert_output "$(printf '%s\n' "${CONFORM_CODES[@]}")"
}

conform_not_found() {
  run -127 --separate-stderr on no-such-command-anywhere
  assert_stderr_has no-such-command-anywhere
  run -126 --separate-stderr on /
}

conform_environment() {
  RAY_ADDRESS=http://192.0.2.1:1 RAY_NAMESPACE=other run --separate-stderr on env
  assert_status 0
  [[ $output == *"MVP_HOST=$CONFORM_HOST"* ]] || fail 'no MVP_HOST'
  [[ $output == *"MVP_HOST_IP=$(verbs host_ip "$CONFORM_HOST")"* ]] || fail 'no MVP_HOST_IP'
  [[ $output == *'MVP_CLUSTER_JSON={'*'"name":"'* ]] || fail 'no MVP_CLUSTER_JSON'
  [[ $'\n'$output != *$'\n'RAY_* ]] || fail 'a RAY_ variable is there'
  run --separate-stderr verbs helper_on "$CONFORM_HOST" cluster --help
  assert_status 0
}

conform_network() { # nothing listens on that proxy
  local file=${MVP_CLUSTER%.yaml}-hub.yaml
  sed '/^data:/d' "$MVP_CLUSTER" >"$file"
  echo 'data: {source: hub, hub: {model: org/unseen}}' >>"$file"
  MVP_DEBUG=1 HF_ENDPOINT=http://hub.invalid HTTP_PROXY=http://me:unseen-password@127.0.0.1:9 NO_PROXY='' HF_TOKEN=unseen-token \
    run --separate-stderr "${WITHIN[@]}" 30_prepare_data_and_model.sh --cluster "$file"
  rm "$file"
  assert_status 3
  assert_stderr_has 'from http://hub.invalid through the proxy http://127.0.0.1:9: '
  [[ $stderr != *unseen-token* && $stderr != *unseen-password* ]] || fail 'a secret is in the trace'
}

conform_at_once() {
  run --separate-stderr verbs at_once "$CONFORM_HOST" 8
  [[ $(sort -n <<<"$output") == "$(seq 0 7)" ]] || fail 'not what eight commands print'
}

left_of() { # <a word in a command line>: pids on the host
  # shellcheck disable=SC2016
  on /bin/sh -c 'for file in /proc/[0-9]*/cmdline; do
    [ "$(tr "\0" " " <"$file" 2>/dev/null)" != "sleep $1 " ] || echo "$file"; done' sh "$1"
}

interrupt() { # <signal> -- <argv>...: when ARGV has printed "begun" on the host; the rest of its stdout, and the exit code
  python - "$1" "${WITHIN[@]}" "$PROJECT/tests/lab/verbs.sh" host_exec "$CONFORM_HOST" "${@:2}" <<'PY'
import os, signal, subprocess, sys
number = getattr(signal, "SIG" + sys.argv[1])
process = subprocess.Popen(sys.argv[2:], start_new_session=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
line = process.stdout.readline()
assert line == "begun\n", f"the command said {line!r}"
for patience in (20, 40):  # srun forwards no signal before it has read that its task began, which may come after the task's output
    os.killpg(process.pid, number)  # a terminal's Ctrl-C reaches the whole foreground process group
    try:
        print(process.communicate(timeout=patience)[0], end="")
        raise SystemExit(process.returncode)
    except subprocess.TimeoutExpired:
        print(f"still there {patience} s after SIG{sys.argv[1]}", file=sys.stderr)
raise SystemExit("it was not interrupted")
PY
}

conform_interrupt() { # <signal> <exit code>
  local stay=4$RANDOM$RANDOM
  # shellcheck disable=SC2016
  run --separate-stderr interrupt "$1" -- /bin/bash -c 'echo begun; sleep "$1"; echo "not interrupted"' bash "$stay"
  assert_status "$2"
  run --separate-stderr left_of "$stay"
  assert_status 0
  assert_output ''
}

conform_clean_up() {
  run --separate-stderr interrupt INT -- \
    /bin/bash -c 'trap "sleep 0.5; echo cleaned; exit 7" INT; echo begun; while :; do sleep 0.1; done'
  assert_status 130
  assert_output cleaned
}

conform_down() {
  host_goes_down "$CONFORM_HOST"
  run --separate-stderr on true
  host_comes_back "$CONFORM_HOST"
  assert_status 3
  assert_stderr_has "$CONFORM_HOST"
  assert_stderr_has 'try: '
  run --separate-stderr on true
  assert_status 0
}
