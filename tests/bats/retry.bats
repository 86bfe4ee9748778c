#!/usr/bin/env bats
# Another attempt follows when something outside of a job ended it, and only then: who decides, who starts it, and what ends a chain.

load helpers

ANY='{"on": ["host", "ray", "cluster", "preempted"]}'

setup_file() {
  make_job_cluster retry 86 860
  toy() { printf 'entry: {command: [python3, %s, %s]}\n' "$BATS_TEST_DIRNAME/toy_trainer.py" "$2" >"$WORKLOADS/$1.yaml"; }
  toy short '"4", "0.1"'
  toy long '"2000", "0.3"'
  printf 'entry: {command: [python3, -c, "raise KeyError(42)"]}\n' >"$WORKLOADS/wrong.yaml"
  01_up.sh
}

teardown_file() {
  end_cluster
}

submit() { # <id> <workload> <retry as JSON> [<43's option>...]
  43_submit_jobspec.sh "$(spec "{\"workload\": \"$2\", \"submission_id\": \"$1\", \"retry\": $3}")" "${@:4}"
}

of_result() { # <id> <field>
  python -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$JOBS/$1/result.json" "$2"
}

trains() { # <id>
  [[ $(of_result "$1" steps_done) -ge 2 ]]
}

kill_node() { # <host>: its whole Ray node, with what it started
  mapfile -t pids < <(instances retry | sed -n "s/ retry\.$1\..*//p")
  kill -9 "${pids[@]}" 2>/dev/null || true
}

chain() { # <id>: its record
  cat "$JOBS/.chains/$1.json" "$JOBS/.chains/ended/$1.json" 2>/dev/null
}

chain_says() { # <id> <text>
  chain "$1" | grep -qF "$2"
}

explained() { # <id> <verdict, boundary and rule>: what 55 says
  run --separate-stderr 55_explain.sh "$1" --json
  [[ $(python -c 'import json, sys; d = json.load(sys.stdin); print(d["verdict"], d["boundary"], d["rule"])' <<<"$output") == "$2" ]] ||
    fail "not $2"
}

@test "a whole node is killed: the chain waits for it, 01_up brings it back, and the next attempt trains" {
  submit lost long "$ANY" >/dev/null
  wait_for 60 'the training' trains lost
  51_logs.sh lost -f >"$FOLDER/followed" 2>"$FOLDER/said" &
  follower=$!
  kill_node "$(of_result lost driver_host)"
  wait_for 60 'the end of the first attempt' chain_says lost '"state": "FAILED"'
  01_up.sh
  wait_for 90 'the second attempt' trains lost.2
  run --separate-stderr 50_status.sh
  assert_output '*lost.2*RUNNING*attempts: 1 FAILED (*), 2 RUNNING*'
  [[ $(grep -c '^lost' <<<"$output") == 1 ]] || fail 'a chain is one line'
  grep -q '"previous": "lost"' "$JOBS/lost.2/config/provenance.json" || fail "$(<"$JOBS/lost.2/config/provenance.json")"
  run --separate-stderr 52_stop.sh lost # the chain, by its first id
  assert_output 'lost.2 STOPPED'
  assert_stderr_has 'lost: no further attempt follows'
  chain_says lost 'stopped on request (52)' || fail "$(chain lost)"
  code=0
  wait "$follower" || code=$?
  ((code == 1)) || fail "the follower ended with $code: $(<"$FOLDER/said")"
  grep -q 'lost.2: attempt 2 of lost' "$FOLDER/said" || fail "$(<"$FOLDER/said")"
}

@test "54 proves where a later attempt comes from" {
  # shellcheck disable=SC2016 # by the trainer's shell: only the first attempt ends itself
  printf 'entry: {command: [bash, -c, "case $PWD in *.2) exec python3 \x27%s\x27 4 0.1;; esac; python3 \x27%s\x27 2 0.1; kill -9 $$"]}\n' \
    "$BATS_TEST_DIRNAME/toy_trainer.py" "$BATS_TEST_DIRNAME/toy_trainer.py" >"$WORKLOADS/once.yaml"
  run --separate-stderr submit once once "$ANY" --wait --timeout 300
  assert_status 0
  assert_stderr_has 'once: no further attempt after 2 attempts: succeeded'
  explained once 'Blocked host trainer-killed'
  compgen -G "$JOBS/once/debug/*-failed/nodes.json" || fail 'no bundle at the end'
  run --separate-stderr 54_verify.sh once.2
  [[ $output == *Pass*'attempt of a chain'*"attempt 2 of 'once', after 'once' (host: the trainer was killed by SIGKILL)"* ]] ||
    fail 'the lineage is not proven'
  sed -i 's/"previous": "once"/"previous": "other"/; s/"number": 2/"number": 3/' "$JOBS/once.2/config/provenance.json"
  run --separate-stderr 54_verify.sh once.2
  assert_status 1
}

@test "the user's own error is never tried again; the exit code says so" {
  run --separate-stderr submit wrong wrong "$ANY" --wait --timeout 300
  assert_status 1
  assert_stderr_has 'wrong: no further attempt after 1 attempt: not a cause for another attempt'
  [[ ! -d $JOBS/wrong.2 ]] || fail 'it was'
}

@test "an outer scheduler can do the same: exit code 5 says that something outside of the job ended it" {
  printf 'entry: {command: [bash, -c, "kill -9 $$"]}\n' >"$WORKLOADS/shot.yaml"
  run --separate-stderr 43_submit_jobspec.sh "$(spec '{"workload": "shot"}')" --wait --timeout 300
  assert_status 5
}

@test "two attempts without a step end the chain, with the reason" {
  run --separate-stderr submit idle shot "$ANY" --wait --timeout 300
  assert_status 5
  assert_stderr_has 'idle: no further attempt after 2 attempts: 2 attempts without a new step (retry.no_progress_max 2)'
}

@test "a watcher that was killed is brought back by 01_up, and picks up what waits" {
  watcher=$(cut -d' ' -f1 "$FOLDER/state/head/chain-watcher.pid")
  kill -9 "$watcher"
  wait_until_gone "$watcher"
  submit later once "$ANY" >/dev/null
  wait_for 60 'the end of the first attempt' grep -q '"state": "FAILED"' "$JOBS/later/result.json"
  sleep 3
  [[ ! -d $JOBS/later.2 ]] || fail 'nobody should have started it'
  01_up.sh
  wait_for 60 'the chain' chain_says later '"note": "succeeded"'
}

# bats test_tags=nightly
@test "the head is killed and started again: the job that it took along has another attempt" {
  submit head long "$ANY" >/dev/null
  wait_for 60 'the training' trains head
  kill_node head
  01_up.sh
  wait_for 120 'the second attempt' trains head.2
  run --separate-stderr 52_stop.sh head.2
  assert_output 'head.2 STOPPED'
}

@test "retry refuses what it cannot do" {
  for wrong in '{"on": ["hosts"]}' '{"on": []}' '{"on": ["host"], "max": 0}' '{}'; do
    run --separate-stderr submit refused short "$wrong"
    assert_status 2
    assert_stderr_has retry
  done
  [[ ! -d $JOBS/refused ]] || fail 'something was claimed'
}

after_strike() { # <what>: prints the seconds since STRUCK
  printf '# %s after %d s\n' "$1" $((SECONDS - STRUCK)) >&3
}

has_step() { # <id>
  [[ -s $JOBS/$1/metrics.jsonl ]]
}

# bats test_tags=nightly
@test "verl trains on in a new folder after a whole worker node was killed, and the chain has every step once" {
  30_prepare_data_and_model.sh && 31_snapshot_verl_code.sh
  sed -e 's/save_freq: 10/save_freq: 5/' -e 's/total_epochs: 1$/total_epochs: 50/' -e 's/total_training_steps: 20/total_training_steps: 80/' \
    "$PROJECT/templates/sft.yaml" >"$FOLDER/specs/verl.yaml"
  printf 'submission_id: verl\nretry: %s\n' "$ANY" >>"$FOLDER/specs/verl.yaml"
  43_submit_jobspec.sh "$FOLDER/specs/verl.yaml"
  wait_for 60 'its driver' grep -q '"driver_host": "worker' "$JOBS/verl/result.json"
  other=$([[ $(of_result verl driver_host) == worker-0 ]] && echo worker-1 || echo worker-0)
  wait_for 300 'step 7' grep -q '"step": *7,' "$JOBS/verl/metrics.jsonl"
  kill_node "$other" # its driver lives, and fails by what it lost there
  STRUCK=$SECONDS
  wait_for 120 'the end of the first attempt' chain_says verl '"state": "FAILED"'
  after_strike 'the first attempt has ended'
  explained verl 'Blocked cluster node-died'
  01_up.sh
  after_strike 'the node is back'
  wait_for 120 'the second attempt' test -d "$JOBS/verl.2" || fail "$(chain verl)"
  after_strike 'the second attempt is submitted'
  wait_for 180 'a step of the second attempt' has_step verl.2
  after_strike 'its first step is trained'
  wait_for 300 'the end of the chain' chain_says verl '"note": "succeeded"'
  run --separate-stderr 54_verify.sh verl.2
  assert_status 0
  [[ $output == *"attempt 2 of 'verl', after 'verl' ("*'steps 1 to 80 are in the metrics of the chain'* ]] || fail 'the lineage'
}

# bats test_tags=nightly
@test "every second of that chain is in one part" {
  python - "$JOBS/verl.2/result.json" <<'PY'
import json, sys
account = json.load(open(sys.argv[1]))["wall_time"]
assert (account["attempts"], account["last_step"]) == (2, 80), account
assert abs(sum(account["percent"].values()) - 100) <= 1, account
assert abs(sum(account["seconds"].values()) - account["total_s"]) < 0.5, account
for part in ("queue", "precheck", "training", "saving"):
    assert account["seconds"][part] > 0, (part, account)
PY
}

@test "02_down ends the watcher and the chains" {
  submit down long "$ANY" >/dev/null
  wait_for 60 'the training' trains down
  02_down.sh
  chain_says down 'the cluster was stopped (02_down)' || fail "$(chain down)"
  [[ ! -d $JOBS/down.2 ]] || fail 'another attempt was started'
  ! pgrep -f 'mvp_helpers watch-chains' >/dev/null || [[ ! -e $FOLDER/state/head/chain-watcher.pid ]] || fail 'the watcher is left'
}
