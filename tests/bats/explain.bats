#!/usr/bin/env bats
# Post-mortem: why a job or a log failed (55), and everything about a job in one archive (53), also when the cluster is gone.

load helpers

setup_file() {
  make_job_cluster explain 44 410
  printf '%s\n' 'entry: {command: [python3, -c, "import time; print(1, flush=True); time.sleep(600)"]}' >"$WORKLOADS/hang.yaml"
  cat >"$WORKLOADS/broken.yaml" <<'YAML'
entry: {command: [python3, -c, "import json, os; print('password: hunter2hunter2'); open('/no/such/folder/train.parquet')"]}
YAML
  MY_API_TOKEN=canary-4711-canary 01_up.sh # jobs inherit the environment of Ray's nodes
}

teardown_file() {
  end_cluster
}

submit() { # <workload> <id>: until it runs or has ended
  local _
  printf '{"workload": "%s", "submission_id": "%s"}' "$1" "$2" >"$BATS_TEST_TMPDIR/$2.json"
  43_submit_jobspec.sh "$BATS_TEST_TMPDIR/$2.json" >/dev/null || return
  for _ in {1..150}; do
    ! grep -qE '"state": "(RUNNING|FAILED)"' "$JOBS/$2/result.json" || [[ ! -s $JOBS/$2/logs/driver.log ]] || return 0
    sleep 0.2
  done
}

unpack() { # <archive>: its one folder
  mkdir -p "$BATS_TEST_TMPDIR/unpacked"
  python - "$1" "$BATS_TEST_TMPDIR/unpacked" <<'PY'
import sys
from backports.zstd import tarfile
with tarfile.open(sys.argv[1], "r:zst") as tar:
    tar.extractall(sys.argv[2], filter="data")
PY
  printf '%s\n' "$BATS_TEST_TMPDIR"/unpacked/*
}

@test "a log is explained without any cluster, in words and as JSON" {
  printf 'cp: x: No space left on device\n' >"$BATS_TEST_TMPDIR/some.log"
  MVP_CLUSTER=/none.yaml run --separate-stderr 55_explain.sh "$BATS_TEST_TMPDIR/some.log"
  assert_status 0
  assert_output 'Blocked: disk, the environment*some.log:1*advice*next*'
  cd "$BATS_TEST_TMPDIR"
  run --separate-stderr 55_explain.sh some.log --json
  python -c 'import json, sys; told = json.load(sys.stdin); assert (told["rule"], told["where"]) == ("disk-full", "some.log:1"), told' <<<"$output"
}

@test "what is no log and no job is refused with one message" {
  : >"$BATS_TEST_TMPDIR/empty"
  while IFS='|' read -r target message; do
    run --separate-stderr 55_explain.sh "$target"
    assert_status 2
    assert_stderr_has "$message"
    [[ -z $output && $(wc -l <<<"$stderr") -le 2 ]] || fail 'more than a message'
  done <<CASES
$BATS_TEST_TMPDIR/empty|is empty
$(command -v bash)|is not text
/no/such.log|No such file
nosuchjob|does not exist
CASES
}

@test "a failed job is explained from its folder" {
  submit broken broken
  run --separate-stderr 55_explain.sh broken
  assert_status 0
  assert_output 'Blocked: data, yours*/no/such/folder/train.parquet*logs/driver.log:*data-missing*'
}

@test "one archive holds what every host knows about a job that hangs, where it hangs, and no secret" {
  submit hang hang
  run --separate-stderr 53_debug_bundle.sh hang --py-spy
  assert_status 0
  assert_output "$JOBS/hang/debug/*-on-demand.tar.zst"
  [[ $(stat -c %s "$output") -lt 20000000 ]] || fail 'too large to attach'
  found=$(unpack "$output")
  for file in explanation.json result.json config/resolved.yaml logs/driver.log missing.txt; do
    [[ -s $found/$file ]] || fail "no $file: $(find "$found")"
  done
  driver=$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["driver_host"])' "$found/result.json")
  for host in head worker-0 worker-1; do
    [[ -s $(echo "$found"/debug/*/hosts/$host/host.json) ]] || fail "nothing of $host"
  done
  grep -q 'time.sleep\|<module>' "$found"/debug/*/hosts/"$driver"/py-spy/*.txt || fail "no stack: $(find "$found" -path '*py-spy*')"
  grep -q 'MVP_JOB_FOLDER=' "$found"/debug/*/hosts/"$driver"/environment.txt || fail 'not the environment of the job'
  grep -qxF 'MY_API_TOKEN=***' "$found"/debug/*/hosts/"$driver"/environment.txt || fail 'the secret variable is not named'
  [[ -s $(echo "$found"/debug/*/hosts/"$driver"/ray-logs/job-driver-hang.log) ]] || fail 'no Ray log of the job'
  ! grep -rq 'canary-4711' "$found" "$JOBS/hang/debug" || fail 'a secret'
}

@test "a trainer that is killed from outside is said to be" {
  kill -KILL "$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["trainer_pid"])' "$JOBS/hang/result.json")"
  for _ in {1..100}; do ! grep -q '"RUNNING"' "$JOBS/hang/result.json" || sleep 0.2; done
  run --separate-stderr 55_explain.sh hang --json
  python -c 'import json, sys; told = json.load(sys.stdin); assert told["rule"] == "trainer-killed", told' <<<"$output"
}

@test "without the cluster the archive is made all the same, and says what is missing" {
  02_down.sh
  run --separate-stderr 53_debug_bundle.sh broken
  assert_status 0
  assert_stderr_has 'Ray did not answer; the bundle contains only the errors'
  found=$(unpack "$output")
  grep -q 'Ray: nodes: ' "$found/missing.txt" && grep -q 'worker-1: no Ray node was started here' "$found/missing.txt" || fail "$(<"$found/missing.txt")"
  ! grep -rq hunter2 "$found" || fail 'a secret in the log'
  run --separate-stderr 55_explain.sh broken
  assert_output '*data-missing*'
  run --separate-stderr 54_verify.sh broken
  assert_output '*✓ Pass     sealed *of them added later by commands*'
  run --separate-stderr 53_debug_bundle.sh nosuchjob
  assert_status 2
  [[ -z $output ]] || fail 'an archive of nothing'
}
