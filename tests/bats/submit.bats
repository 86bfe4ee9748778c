#!/usr/bin/env bats
# Submission on one real cluster: what users do wrong, and what happens around a job.

load helpers

setup_file() {
  make_job_cluster submit 2 40
  printf 'entry: {command: [python3, -c, "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"]}\n' >"$WORKLOADS/tell.yaml"
  printf 'entry: {command: [sleep, "10"]}\n' >"$WORKLOADS/sleep.yaml"
  printf 'entry: {command: [sleep, "300"]}\n' >"$WORKLOADS/hog.yaml"
  printf 'entry: {command: [python3, -c, "raise SystemExit(7)"]}\n' >"$WORKLOADS/fail.yaml"
  printf 'entry: {command: [touch, trained]}\nimports: [json]\n' >"$WORKLOADS/stray.yaml"
  01_up.sh && 30_prepare_data_and_model.sh && 31_snapshot_verl_code.sh
}

teardown_file() {
  end_cluster
}

wait_for_state() { # <id> <state>
  local _
  for _ in {1..150}; do
    [[ -e $JOBS/$1/result.json && $(state_of "$1") == "$2" ]] && return 0
    sleep 0.2
  done
  fail "$1 is not $2 but $(state_of "$1")"
}

# bats test_tags=nightly
@test "a real PPO job with critic trains on the workers and every check of it passes" {
  ppo=$(spec '{"workload": "ppo", "submission_id": "small-ppo", "code_path": "common/code/verl/current",
    "model": "common/models/default", "dataset": "datasets/gsm8k",
    "trainer_overrides": {"trainer.total_training_steps": 3, "trainer.save_freq": 2}}')
  run --separate-stderr 43_submit_jobspec.sh "$ppo" --wait
  assert_status 0
  assert_output small-ppo
  run --separate-stderr 54_verify.sh small-ppo
  assert_status 0
  assert_output '*checkpoints/: steps 2-3 (save_freq 2, last step 3)*metrics.jsonl: steps 1-3, as expected*1 job: * 0 Fail*'
  assert_output '*✓ Pass     sealed *after the job'"'"'s end*✓ Pass     as planned *✓ Pass     one account *✓ Pass     times in order *✓ Pass     log *'
  grep -q '^MVP_PRECHECK_MARKER=verl-' "$JOBS/small-ppo/logs/driver.log" || fail 'the driver log lacks the marker'
  cmp "$ppo" "$JOBS/small-ppo/config/job_spec.json"
}

@test "values arrive in the trainer byte for byte" {
  run --separate-stderr 43_submit_jobspec.sh "$(spec '{"workload": "tell", "submission_id": "tell",
    "trainer_overrides": ["+a=it'\''s \"$(id)\"\n`id` ü漢 \\"], "env_vars": {"NASTY": "it'\''s \"$(id)\"\n`id` ü漢 \\ *"}}')" --set "+b=it's \"\$(id)\" ü" --wait
  assert_status 0
  grep -qF 'it'\''s \"$(id)\" ü' "$JOBS/tell/config/job_spec.json" || fail 'the job does not record its override'
  python - "$JOBS/tell/logs/driver.log" <<'PY'
import json, sys
argv, env = json.load(open(sys.argv[1]))
assert argv == ["+a=it's \"$(id)\"\n`id` ü漢 \\", "+b=it's \"$(id)\" ü"], argv
assert env["NASTY"] == "it's \"$(id)\"\n`id` ü漢 \\ *", env["NASTY"]
assert "" not in env["PYTHONPATH"].split(":"), env["PYTHONPATH"]
assert env["PYTHONSAFEPATH"] == "1"
PY
  run --separate-stderr 54_verify.sh tell
  assert_output '*✓ Pass     as planned *'
}

@test "what a JobSpec puts on the PYTHONPATH is run by the trainer, not by the job runner and Ray's own actor" {
  mkdir "$FOLDER/custom"
  printf 'import os, sys\nprint(sys.orig_argv, os.environ.get("LD_LIBRARY_PATH"), file=open("%s", "a"))\n' "$FOLDER/customized" >"$FOLDER/custom/sitecustomize.py"
  run --separate-stderr 43_submit_jobspec.sh --wait "$(spec '{"workload": "tell", "submission_id": "customized",
    "env_vars": {"PYTHONPATH": "'"$FOLDER"'/custom", "LD_LIBRARY_PATH": "/own"}}')"
  assert_status 0
  [[ $(grep -c . "$FOLDER/customized") == 1 && $(<"$FOLDER/customized") == *"'-c'"*/own ]] || fail "ran: $(<"$FOLDER/customized")"
  for name in LD_PRELOAD PYTHONHOME PATH RAY_AUTH_MODE; do
    run --separate-stderr 43_submit_jobspec.sh "$(spec '{"workload": "tell", "env_vars": {"'$name'": "x"}}')"
    assert_status 2
    assert_stderr_has "env_vars.$name is set by the toolkit"
  done
}

@test "an id is used once: the second submission is refused and nothing changes" {
  wait_until_sealed
  before=$(find "$JOBS/tell" -type f -exec sha256sum {} + | sort)
  run --separate-stderr 43_submit_jobspec.sh "$(spec '{"workload": "tell", "submission_id": "tell"}')"
  assert_status 2
  assert_stderr_has "submission_id 'tell' is already used: $JOBS/tell"
  # The recorded command can be run again by hand: Ray refuses the id too.
  run bash "$JOBS/tell/config/submit_cmd.txt"
  [[ $status != 0 && $output == *'already exists'* ]] || fail 'Ray took the id again'
  [[ $(find "$JOBS/tell" -type f -exec sha256sum {} + | sort) == "$before" ]] || fail 'the job folder changed'
}

@test "a failed job fails the one who waits for it" {
  file=$(spec '{"workload": "fail", "submission_id": "fail"}')
  run --separate-stderr 43_submit_jobspec.sh "$file" --wait
  assert_status 1
  cmp "$file" "$JOBS/fail/config/job_spec.json"
  assert_output fail
  assert_stderr_has 'FAILED'
  [[ $(state_of fail) == FAILED ]]
  run --separate-stderr 54_verify.sh fail
  assert_status 1
}

@test "a module from outside code_path blocks the job before it trains" {
  run --separate-stderr 43_submit_jobspec.sh --wait "$(spec '{"workload": "stray", "submission_id": "stray",
    "code_path": "common/code/verl/current"}')"
  assert_status 3
  [[ $(state_of stray) == BLOCKED && ! -e $JOBS/stray/trained ]] || fail "$(<"$JOBS/stray/result.json")"
  grep -q 'json comes from .*, not from code_path' "$JOBS/stray/result.json" || fail 'no reason'
  grep -q 'Ray worker on 127.0.2.12: json comes from' "$JOBS/stray/precheck.json" || fail 'not seen in a Ray worker'
}

@test "Ctrl-C while following leaves the job alone; a timeout too" {
  run --separate-stderr timeout --foreground -s INT 4 43_submit_jobspec.sh --wait "$(spec '{"workload": "sleep", "submission_id": "sleep1"}')"
  [[ $status == 130 || $status == 124 ]] || fail 'no Ctrl-C'
  run --separate-stderr 43_submit_jobspec.sh --wait --timeout 2 "$(spec '{"workload": "sleep", "submission_id": "sleep2"}')"
  assert_status 4
  assert_output sleep2
  run --separate-stderr 50_status.sh --json
  python -c 'import json, sys; jobs = {job["id"]: job for job in json.load(sys.stdin)["jobs"]}
assert jobs["sleep2"]["state"] in ("SUBMITTED", "RUNNING"), jobs["sleep2"]
assert jobs["fail"]["state"] == "FAILED", jobs["fail"]' <<<"$output"
  wait_for_state sleep1 SUCCEEDED
  wait_for_state sleep2 SUCCEEDED
}

@test "Ctrl-C at any moment of a submission leaves the truth, and the next submission works" {
  for delay in 0.1 0.4 0.8 1.2; do
    id=interrupted-$delay
    timeout --foreground -s INT "$delay" 43_submit_jobspec.sh "$(spec '{"workload": "tell", "submission_id": "'"$id"'"}')" &>"$FOLDER/$id.err" || true
    ! grep -q Traceback "$FOLDER/$id.err" || fail "$(<"$FOLDER/$id.err")"
    [[ -d $JOBS/$id ]] || continue
    [[ -f $JOBS/$id/result.json ]] || fail "$id: a folder without a result"
    [[ $(state_of "$id") == NOT_SUBMITTED ]] || wait_for_state "$id" SUCCEEDED
  done
  [[ ! $(find "$JOBS" -maxdepth 1 -name '.claim-*') ]] || fail 'a half-made job folder was left'
  43_submit_jobspec.sh --wait "$(spec '{"workload": "tell"}')"
}

@test "a job that waits for resources is not waited for in silence" {
  all='"resources": {"entrypoint_resources": {"worker_node": 100}}'
  for id in hog-1 hog-2; do 43_submit_jobspec.sh "$(spec '{"workload": "hog", "submission_id": "'$id'", '"$all"'}')"; done
  run --separate-stderr 43_submit_jobspec.sh --wait --pending-timeout 7 "$(spec '{"workload": "tell", "submission_id": "queued", '"$all"'}')"
  assert_status 4
  assert_stderr_has 'worker_node'
  52_stop.sh hog-1 hog-2
  wait_for_state queued SUCCEEDED
}

@test "every mistake in a JobSpec gets one message and exit code 2, and claims no folder" {
  before=$(ls -A "$JOBS")
  while IFS='|' read -r json message; do
    run --separate-stderr 43_submit_jobspec.sh "$(spec "$json")"
    assert_status 2
    assert_stderr_has "$message"
    [[ -z $output && $stderr != *Traceback* ]] || fail "more than a message for $json"
  done <<'CASES'
{"workload": "ppo",|line 1, column 20: not valid JSON
{"workload": "ppo", "modle": 1}|unknown field 'modle' (did you mean 'model'?)
{"workload": 7}|expected 'str', got 'int'
{"workload": "slep"}|unknown workload 'slep' (did you mean 'sleep'?)
{"workload": "tell", "submission_id": "a/../b"}|not usable as a folder and job name
{"workload": "ppo", "code_path": "common/code/verl/none"}|code_path does not exist
{"workload": "ppo", "code_path": "common/models"}|has no mvp_marker.py
{"workload": "ppo", "code_path": "common/code/verl/current", "model": "none", "dataset": "datasets/gsm8k"}|model does not exist
{"workload": "tell", "dataset": "/etc"}|outside the shared root
{"workload": "tell", "resources": {"entrypoint_num_cpus": 64}}|the driver requests 64 CPUs; the largest worker has 8
{"workload": "ppo", "code_path": "common/code/verl/current", "model": "common/models/default", "dataset": "datasets/gsm8k", "trainer_overrides": {"trainer.devicee": 1}}|did you mean 'trainer.device'?
{"workload": "ppo", "code_path": "common/code/verl/current", "model": "common/models/default", "dataset": "datasets/gsm8k", "trainer_overrides": {"trainer.nnodes": 4, "trainer.n_gpus_per_node": 8, "data.train_batch_size": 128, "actor_rollout_ref.actor.ppo_mini_batch_size": 128, "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 1, "critic.ppo_micro_batch_size_per_gpu": 1}}|needs 4 nodes with 8 processes each
CASES
  [[ $(ls -A "$JOBS") == "$before" ]] || fail 'a folder was claimed'
}

@test "truncated data and a truncated model are found before Ray sees the job" {
  mkdir -p "$FOLDER/private/broken"
  cp -rL "$FOLDER/private/datasets/gsm8k" "$FOLDER/private/common/models/default" "$FOLDER/private/broken"
  truncate -s -1 "$FOLDER/private/broken/gsm8k/train.parquet" "$FOLDER/private/broken/default/model.safetensors"
  for field in '"dataset": "broken/gsm8k", "model": "common/models/default"' '"dataset": "datasets/gsm8k", "model": "broken/default"'; do
    run --separate-stderr 43_submit_jobspec.sh "$(spec '{"workload": "ppo", "code_path": "common/code/verl/current", '"$field"'}')"
    assert_status 2
    assert_stderr_has 'broken/'
  done
}

@test "a dry run prints the whole plan and touches nothing" {
  wait_until_sealed
  before=$(find "$FOLDER/private" -printf '%p %T@\n' | sort)
  run --separate-stderr 43_submit_jobspec.sh --dry-run "$(spec '{"workload": "tell", "submission_id": "dry", "env_vars": {"A": "b"}}')"
  assert_status 0
  assert_output "*job_folder: $JOBS/dry*submit_cmd: *ray job submit*--submission-id dry*"
  [[ $(find "$FOLDER/private" -printf '%p %T@\n' | sort) == "$before" ]] || fail 'a dry run left something'
}

@test "a shared root that cannot be written blocks, exit code 3" {
  sed "s#^shared_root:.*#shared_root: $FOLDER/readonly#" "$MVP_CLUSTER" >"$FOLDER/readonly.yaml"
  touch "$FOLDER/readonly" # root ignores permissions, but nobody writes into a file as if it were a folder
  run --separate-stderr 43_submit_jobspec.sh --cluster "$FOLDER/readonly.yaml" "$(spec '{"workload": "tell"}')"
  assert_status 3
  assert_stderr_has 'cannot write the job folder'
  run --separate-stderr 00_prereq_check.sh --cluster "$FOLDER/readonly.yaml"
  assert_status 3
  assert_output '*✗ Blocked  head: shared root can be written*'
}

@test "without a cluster the spec's own mistakes come first, then that it is not up" {
  02_down.sh
  run --separate-stderr 43_submit_jobspec.sh "$(spec '{"workload": "tell", "submission_id": "a b"}')"
  assert_status 2
  run --separate-stderr 43_submit_jobspec.sh "$(spec '{"workload": "tell"}')"
  assert_status 3
  assert_stderr_has './scripts/01_up.sh'
  run --separate-stderr 54_verify.sh sleep1
  assert_status 0
  run --separate-stderr 50_status.sh
  assert_output '*sleep1 *SUCCEEDED*'
}
