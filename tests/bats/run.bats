#!/usr/bin/env bats
# The runner of all tests: what fails is a failure, with its name at the end, and Ctrl-C ends everything.

load helpers

setup() {
  cd "$BATS_TEST_TMPDIR" || return
  mkdir unit
  printf 'def test_good():\n    pass\n' >unit/test_a.py
  printf '@test "good" {\n  true\n}\n@test "elsewhere" {\n  skip "no such thing here"\n}\n' >good.bats
}

run_tests() { # outside of bats, as far as bats can tell
  run --separate-stderr env -i PATH="$PATH" HOME="$HOME" TEST_JOBS="${TEST_JOBS:-2}" TEST_TAGS="${TEST_TAGS:-}" TEST_LIMIT_S="${TEST_LIMIT_S:-}" \
    TEST_FILE_LIMIT_S="${TEST_FILE_LIMIT_S:-}" "$PROJECT/tests/run.sh" "$@"
}

@test "all passed: exit code 0, and the reasons of what was skipped" {
  run_tests good.bats unit
  assert_status 0
  assert_output '*passed good.bats (* s)*'
  assert_output '*2 files in * s. Failed: none. Skipped: 1: no such thing here.'
}

@test "skipped unit tests are counted, too" {
  printf 'import pytest\n@pytest.mark.parametrize("n", [1, 2])\ndef test_n(n):\n    pytest.skip("not: here")\n' >unit/test_s.py
  run_tests good.bats unit
  assert_status 0
  assert_output '*Skipped: 1: no such thing here;2: not: here.'
}

@test "one file alone is shown as it runs, also where there is no terminal" {
  run_tests good.bats
  assert_status 0
  assert_output '*ok 1 good*'
}

@test "one that fails, one that dies, and a failing unit test are 1, and named with how many failed" {
  printf '@test "bad" {\n  false\n}\n@test "bad too" {\n  false\n}\n' >bad.bats
  printf 'syntax error (\n' >broken.bats
  printf 'def test_bad():\n    assert 1 == 2\n' >unit/test_b.py
  run_tests good.bats bad.bats broken.bats unit
  assert_status 1
  assert_output '*FAILED bad.bats (* s)*not ok 1 bad*=== bad.bats*not ok 1 bad*4 files in * s. Failed:*'
  [[ $output != *'ok 1 good'* ]] || fail 'what passed was printed'
  local what
  for what in 'bad.bats (2)' 'broken.bats (1)' 'unit (1)'; do assert_output "*Failed:* $what*"; done
  [[ ${output##*Failed:} != *good.bats* ]] || fail 'good.bats did not fail'
}

@test "what fails only beside others is run again alone, and named; four failed files are no accident" {
  printf '@test "first time" {\n  [[ -e %q ]] || { touch %q && false; }\n}\n' "$PWD/seen" "$PWD/seen" >unsteady.bats
  run_tests good.bats unsteady.bats
  assert_status 0
  assert_output '*FAILED unsteady.bats*passed unsteady.bats*2 files in * s. Failed: none. Skipped: 1: no such thing here. Passed only alone: unsteady.bats.'
  local name
  rm seen
  for name in a b c; do printf '@test "bad" {\n  false\n}\n' >"$name.bats"; done
  run_tests {a,b,c,unsteady}.bats
  assert_status 1
  assert_output '*4 files in * s. Failed:* unsteady.bats (1)*'
}

@test "a file with many long failures does not end the runner before its last line" {
  for ((at = 0; at < 25; at++)); do printf '@test "bad %s" {\n  printf "%%012000d" 0\n  false\n}\n' "$at"; done >many.bats
  run_tests good.bats many.bats
  assert_status 1
  assert_output '*2 files in * s. Failed: many.bats (25). Skipped: *'
}

@test "Ctrl-C ends what runs" {
  printf '@test "slow" {\n  echo "$$" >%q\n  sleep 300\n}\n' "$PWD/pid" >slow.bats
  run --separate-stderr env -i PATH="$PATH" HOME="$HOME" PROJECT="$PROJECT" python - <<'PY'
import os, signal, subprocess, time
process = subprocess.Popen([os.environ["PROJECT"] + "/tests/run.sh", "slow.bats", "good.bats"], start_new_session=True)
while not os.path.exists("pid") or not open("pid").read():
    assert process.poll() is None, "the runner ended before its test began"
    time.sleep(0.05)
os.killpg(process.pid, signal.SIGINT)
raise SystemExit(process.wait(30))
PY
  assert_status 130
  wait_until_gone "$(<pid)"
}

@test "a file that hangs is ended and has failed, and the others are run" {
  printf '@test "hangs" {\n  echo "$$" >%q\n  sleep 300\n}\n' "$PWD/pid" >hangs.bats
  TEST_FILE_LIMIT_S=4 run_tests hangs.bats good.bats
  assert_status 1
  assert_output '*2 files in * s. Failed: hangs.bats (*). Skipped: *'
  wait_until_gone "$(<pid)"
}

@test "one that is killed while the runner does something else has failed, and the runner ends" {
  mkdir bin
  printf '#!/usr/bin/env bash\n[[ $1 != -m ]] || { : >%q && sleep 2; }\nexec %q "$@"\n' "$PWD/showing" "$(command -v grep)" >bin/grep
  chmod +x bin/grep
  printf '@test "bad" {\n  false\n}\n' >bad.bats
  printf '@test "killed" {\n  until [[ -e %q ]]; do sleep 0.1; done\n  kill -KILL -- "-$(ps -o pgid= $$ | tr -d " ")"\n}\n' "$PWD/showing" >killed.bats
  PATH="$PWD/bin:$PATH" TEST_LIMIT_S=60 run_tests bad.bats killed.bats
  assert_status 1
  assert_output '*not ok killed.bats: exit code 137*2 files in * s. Failed:*killed.bats (1)*'
}

@test "when the time of all is over, what runs is ended, and what did not run has failed by name" {
  printf '@test "slow" {\n  echo "$$" >%q\n  sleep 300\n}\n' "$PWD/pid" >slow.bats
  cp good.bats later.bats
  TEST_JOBS=1 TEST_LIMIT_S=4 run_tests slow.bats good.bats later.bats
  assert_status 1
  assert_output '*FAILED slow.bats*later.bats: it had not begun when TEST_LIMIT_S was over*3 files in * s. Failed: *'
  wait_until_gone "$(<pid)"
}

@test "tests with a tag are left out when asked; a file of nothing else has passed" {
  printf '# bats test_tags=nightly\n@test "rare" {\n  false\n}\n' >rare.bats
  printf 'import pytest\n@pytest.mark.nightly\ndef test_rare():\n    assert False\n' >unit/test_r.py
  TEST_TAGS='!nightly' run_tests rare.bats good.bats unit
  assert_status 0
  assert_output '*3 files in * s. Failed: none.*'
  TEST_TAGS='' run_tests rare.bats good.bats unit
  assert_status 1
  assert_output '*Failed: *rare.bats (1)*'
  assert_output '*Failed: *unit (1)*'
}

@test "no two files, which may run at the same time, share addresses or ports" {
  # Agents of a cluster's three hosts listen on three ports in a row.
  run --separate-stderr awk '/^ *make_(job_)?cluster(_file)? [a-z]/ && !(FILENAME in seen) {
    seen[FILENAME] = 1
    if ($3 in octets) print FILENAME, octets[$3], "octet", $3
    for (file in offsets) if ($4 - offsets[file] < 3 && offsets[file] - $4 < 3) print FILENAME, file, "offsets", $4, offsets[file]
    octets[$3] = FILENAME
    offsets[FILENAME] = $4
  }
  END { if (length(offsets) < 8) print "only", length(offsets), "files" }' "$PROJECT"/tests/{bats,lab}/*.bats
  assert_status 0
  assert_output ''
}
