#!/usr/bin/env bats
# On one real cluster: secrets that nothing shows, many submissions at once, two versions of the code side by side, and a Ray that
# forgets ended jobs.

load helpers

VALUE='s3cr3t-canary/42+x'

setup_file() {
  make_job_cluster secrets 31 30
  export SECRETS=$FOLDER/private/user/secrets
  printf 'entry: {command: [python3, %s]}\n' "$BATS_TEST_DIRNAME/leaky.py" >"$WORKLOADS/leaky.yaml"
  printf 'entry: {command: [sh, -c, "echo I am $0", "{job_folder}"]}\n' >"$WORKLOADS/echo.yaml"
  01_up.sh
}

teardown_file() {
  end_cluster
}

facts() { # <id> <field>...: from result.json
  python -c 'import json, sys; result = json.load(open(sys.argv[1])); print(*(result[name] for name in sys.argv[2:]))' "$JOBS/$1/result.json" "${@:2}"
}

wait_for_file() { # <path>
  local _
  for _ in {1..600}; do
    [[ ! -e $1 ]] || return 0
    sleep 0.2
  done
  fail "$1 does not appear"
}

answers() { # everything that Ray tells about jobs, tasks, actors and workers
  local path token
  token=$(<"$FOLDER/state/ray_token")
  for path in /api/jobs/ /api/jobs/"$1" /api/jobs/"$1"/logs /api/v0/{tasks,actors,workers,runtime_envs}'?detail=1&limit=10000'; do
    ask_ray http://127.0.31.10:8330 "$path" "Authorization: Bearer $token"
  done
}

assert_shown_nowhere() { # <id>: in no file of the shared root and of Ray, in no command line, in no answer
  local found
  answers "$1" >"$FOLDER/answers"
  found=$(grep -rlF "$VALUE" "$FOLDER" --exclude-dir=.jobs) && fail "the value stands in: $found"
  # Not in this very grep's own command line either: the value comes from a file.
  printf '%s' "$VALUE" >"$BATS_TEST_TMPDIR/pattern"
  found=$(grep -lF -f "$BATS_TEST_TMPDIR/pattern" /proc/[0-9]*/cmdline 2>/dev/null) && fail "the value stands in: $found"
  [[ $output$stderr != *"$VALUE"* ]] || fail 'the value stands in a message'
}

@test "a secret reaches the trainer and its Ray workers, and shows nowhere while the job runs and after" {
  CANARY=$VALUE run --separate-stderr 43_submit_jobspec.sh "$(spec '{"workload": "leaky", "submission_id": "leaky", "secrets": ["CANARY"]}')"
  assert_status 0
  wait_for_file "$JOBS/leaky/seen"
  [[ $(stat -c %a "$SECRETS/.jobs/leaky") == 600 ]] || fail 'the values are not the owner'\''s alone'
  assert_shown_nowhere leaky
  touch "$JOBS/leaky/go"
  run --separate-stderr 50_status.sh --follow leaky
  assert_status 0
  grep -q 'driver prints \*\*\*' "$JOBS/leaky/logs/driver.log" || fail "$(<"$JOBS/leaky/logs/driver.log")"
  [[ $(grep -c 'worker prints \*\*\* on' "$JOBS/leaky/logs/driver.log") == 2 ]] || fail "$(<"$JOBS/leaky/logs/driver.log")"
  # os.write, the buffer, the first stdout, a child and its stderr, on both workers; Ray shows what is said twice only once.
  [[ $(find "$FOLDER/state" -path "*/logs/worker-*" -exec cat {} + | grep -c 'worker says \*\*\*') == 10 ]] || fail 'not what the workers wrote'
  [[ $(wc -l <"$JOBS/leaky/seen") == 3 ]] || fail "not in the driver and both workers: $(<"$JOBS/leaky/seen")"
  [[ $(sort -u -k2 "$JOBS/leaky/seen" | awk '{print $2}' | sort -u) == "$(printf '%s' "$VALUE" | sha256sum | cut -d' ' -f1)" ]] || fail 'another value'
  [[ ! -e $SECRETS/.jobs/leaky ]] || fail 'the values were left'
  assert_shown_nowhere leaky
}

@test "a secret from the user's own file shows nowhere after a crash in a Ray worker either" {
  mkdir -p "$SECRETS"
  (umask 077 && printf '%s\n' "$VALUE" >"$SECRETS/CANARY")
  for how in task actor; do
    run --separate-stderr 43_submit_jobspec.sh --wait "$(spec '{"workload": "leaky", "submission_id": "crash-'$how'", "secrets": ["CANARY"],
      "env_vars": {"CRASH": "'$how'"}}')"
    assert_status 1
    assert_stderr_has 'RuntimeError: refused: ***'
    rm "$SECRETS/CANARY"
    (eval "$(PYTHONPATH=$PROJECT/lib python -m mvp_helpers cluster "$MVP_CLUSTER")" && PYTHONPATH=$PROJECT/lib python -m mvp_helpers debug-bundle "crash-$how")
    assert_shown_nowhere "crash-$how"
    (umask 077 && printf '%s\n' "$VALUE" >"$SECRETS/CANARY")
  done
  rm "$SECRETS/CANARY"
}

@test "a secret that Ray itself keeps, as a name or in nested variables, shows in no bundle of any job, also after its end" {
  local name='n4med-canary/42+x' id
  CANARY=$name 43_submit_jobspec.sh --wait "$(spec '{"workload": "leaky", "submission_id": "named", "secrets": ["CANARY"], "env_vars": {"NAMES": "1"}}')"
  43_submit_jobspec.sh --wait "$(spec '{"workload": "echo", "submission_id": "plain"}')"
  [[ $(answers named) == *"$name"* ]] || fail 'Ray itself does not know it'
  for id in named plain; do
    run --separate-stderr 53_debug_bundle.sh "$id"
    assert_status 0
    rm -rf "$FOLDER/unpacked" && mkdir "$FOLDER/unpacked"
    python -c 'import sys; from backports.zstd import tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "${output##*$'\n'}" "$FOLDER/unpacked"
    [[ -e $FOLDER/unpacked/$id/result.json ]] || fail "an empty archive: ${output##*$'\n'}"
    ! grep -rlF "$name" "$FOLDER/unpacked" "$JOBS/$id" || fail "the value is in a file of $id"
  done
  grep -q 'Named' "$JOBS"/named/debug/*-on-demand/actors.json || fail 'not its own actor'
  ! grep -l 'Named' "$JOBS"/plain/debug/*/actors.json || fail 'the actor of another job'
}

@test "a missing or an open secret is a mistake that claims no folder" {
  run --separate-stderr 43_submit_jobspec.sh "$(spec '{"workload": "leaky", "submission_id": "none", "secrets": ["CANARY"]}')"
  assert_status 2
  assert_stderr_has "secret CANARY is neither in the environment nor in $SECRETS/CANARY"
  printf '%s' "$VALUE" >"$SECRETS/CANARY" && chmod 644 "$SECRETS/CANARY"
  run --separate-stderr 43_submit_jobspec.sh "$(spec '{"workload": "leaky", "submission_id": "none", "secrets": ["CANARY"]}')"
  assert_status 2
  assert_stderr_has 'is open to others (mode 0644)'
  rm "$SECRETS/CANARY"
  [[ ! -e $JOBS/none ]] || fail 'a folder was claimed'
}

@test "of 20 submissions with one id exactly one wins" {
  same=$(spec '{"workload": "echo", "submission_id": "same"}')
  for at in {1..20}; do
    43_submit_jobspec.sh "$same" >"$FOLDER/same.$at.out" 2>"$FOLDER/same.$at.err" &
    pids[at]=$!
  done
  codes=()
  for at in {1..20}; do code=0 && wait "${pids[at]}" || code=$? && codes+=("$code"); done
  [[ $(printf '%s\n' "${codes[@]}" | sort | uniq -c | xargs) == '1 0 19 2' ]] || fail "exit codes: ${codes[*]}" "$(cat "$FOLDER"/same.*.err)"
  [[ $(cat "$FOLDER"/same.*.out) == same ]] || fail "$(cat "$FOLDER"/same.*.out)"
  [[ $(grep -l "submission_id 'same' is already used" "$FOLDER"/same.*.err | wc -l) == 19 ]] || fail "$(cat "$FOLDER"/same.*.err)"
  50_status.sh --follow same
  [[ $(grep -c 'I am' "$JOBS/same/logs/driver.log") == 1 ]] || fail 'it ran more than once'
}

@test "10 submissions at once with different ids are all accepted and none is mixed up" {
  for at in {1..10}; do
    43_submit_jobspec.sh "$(spec '{"workload": "echo", "submission_id": "own-'"$at"'"}')" >"$FOLDER/own.$at.out" 2>"$FOLDER/own.$at.err" &
    pids[at]=$!
  done
  for at in {1..10}; do
    wait "${pids[at]}" || fail "own-$at: $(<"$FOLDER/own.$at.err")"
    [[ $(<"$FOLDER/own.$at.out") == "own-$at" ]] || fail "own-$at was told: $(<"$FOLDER/own.$at.out")"
  done
  for at in {1..10}; do
    50_status.sh --follow "own-$at" 2>/dev/null || fail "own-$at: $(facts "own-$at" state reason)"
    [[ $(<"$JOBS/own-$at/logs/driver.log") == "I am $JOBS/own-$at" ]] || fail "own-$at: $(<"$JOBS/own-$at/logs/driver.log")"
    grep -q "submission_id.*own-$at\"" "$JOBS/own-$at/config/job_spec.json" || fail "own-$at has another JobSpec"
  done
}

# bats test_tags=nightly
@test "two versions of verl's code run at the same time, each job with its own" {
  run --separate-stderr regress_versions.sh --cluster "$MVP_CLUSTER"
  assert_status 0
  assert_output '*driver and Ray workers on 127.0.31.11, 127.0.31.12 imported*2 jobs: 10 Pass, 0 Fail, 0 Skipped*'
  run --separate-stderr 31_snapshot_verl_code.sh --list
  [[ $(grep -c ' 1: versions-' <<<"$output") == 2 ]] || fail 'not each used by one job'
  current=$(readlink "$FOLDER/private/common/code/verl/current")
  mkdir -p "$FOLDER/other/verl" && touch "$FOLDER/other/verl/__init__.py"
  CODE_ID=unused 31_snapshot_verl_code.sh --source "$FOLDER/other" && ln -sfn "$current" "$FOLDER/private/common/code/verl/current"
  run --separate-stderr 31_snapshot_verl_code.sh --prune --dry-run
  assert_output unused
  run --separate-stderr 31_snapshot_verl_code.sh --prune
  assert_output unused
  run --separate-stderr 31_snapshot_verl_code.sh --list
  [[ $output != *unused* && $(grep -c ' 1: versions-' <<<"$output") == 2 ]] || fail 'not exactly the unused one was removed'
}

@test "with retention on Ray forgets ended jobs, and 50 still shows them" {
  sed -i 's/^ray:/ray:\n  keep_job_records: false/' "$MVP_CLUSTER"
  50_status.sh >/dev/null # this many records, in portions
  run --separate-stderr 50_status.sh --json --limit 100
  python -c 'import json, sys; jobs = {job["id"]: job["state"] for job in json.load(sys.stdin)["jobs"]}
assert jobs["own-10"] == jobs["same"] == "SUCCEEDED" and jobs["crash-task"] == "FAILED", jobs' <<<"$output"
  answers own-10 >"$FOLDER/answers" 2>/dev/null || true
  [[ $(head -n 1 "$FOLDER/answers") == '[]' ]] || fail "Ray still lists: $(head -c 500 "$FOLDER/answers")"
  run --separate-stderr 43_submit_jobspec.sh "$(spec '{"workload": "echo", "submission_id": "own-10"}')"
  assert_status 2
}
