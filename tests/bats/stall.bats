#!/usr/bin/env bats
# A job that makes no step explains itself: with nobody following, one bundle names the process that the others wait for.

load helpers

setup_file() {
  make_job_cluster stall 98 980
  01_up.sh && 30_prepare_data_and_model.sh && 31_snapshot_verl_code.sh
}

teardown_file() {
  [[ -z ${KEEP_RECORDS-} ]] || cp -r "$JOBS" "$KEEP_RECORDS"
  end_cluster
}

submit() { # <id> <more YAML> [<line of trainer_overrides>...]: an SFT that would train for a long time
  sed -e 's/total_epochs: 1$/total_epochs: 50/' -e '/total_training_steps/d' "$PROJECT/templates/sft.yaml" >"$FOLDER/specs/$1.yaml"
  (($# < 3)) || printf '  %s\n' "${@:3}" >>"$FOLDER/specs/$1.yaml"
  printf 'submission_id: %s\n%s\n' "$1" "$2" >>"$FOLDER/specs/$1.yaml"
  43_submit_jobspec.sh "$FOLDER/specs/$1.yaml"
}

of_result() { # <id> <Python expression over r>
  python -c 'import json, sys; r = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$JOBS/$1/result.json" "$2"
}

holds() { # <id> <Python expression over r>
  [[ $(of_result "$1" "bool($2)") == True ]]
}

adds_up() { # <id> <attempts>: its account of the wall time, with the stall of more than 25 s
  python - "$JOBS/$1/result.json" "$2" <<'PY'
import json, sys
account = json.load(open(sys.argv[1]))["wall_time"]
assert account["attempts"] == int(sys.argv[2]) and account["seconds"]["stalled"] > 25, account
assert abs(sum(account["percent"].values()) - 100) <= 1, account
assert abs(sum(account["seconds"].values()) - account["total_s"]) < 0.5, account
PY
}

rank_1() { # <id>: the pid of its trainer process with that rank
  local file
  for file in /proc/[0-9]*/environ; do
    if tr '\0' '\n' 2>/dev/null <"$file" | grep -c -x -e "MVP_JOB_FOLDER=$JOBS/$1" -e RANK=1 | grep -qx 2; then
      printf '%s' "${file//[!0-9]/}"
      return
    fi
  done
  fail "no process of $1 has RANK=1"
}

taker() { # a job that leaves two CPUs of one worker
  echo 'entry: {command: [sleep, "600"]}' >"$WORKLOADS/sleep.yaml"
  printf 'workload: sleep\nsubmission_id: %s\nresources: {entrypoint_num_cpus: 6}\n' "$1" >"$FOLDER/specs/$1.yaml"
  43_submit_jobspec.sh "$FOLDER/specs/$1.yaml"
}

placement_group_is_named() { # <id>
  wait_for 120 'a bundle' holds "$1" 'r["stalls"] and r["stalls"][0]["bundle"]'
  run --separate-stderr 55_explain.sh "$1"
  [[ $output == *Blocked*'placement group'*'is pending: it needs'*CPU* ]] || fail '55 does not name it'
}

@test "a stopped trainer process is named within twice the limit; after SIGCONT the run goes on and says so" {
  submit stuck 'stall: {after_s: 25}'
  wait_for 400 'three steps' holds stuck 'r["steps_done"] >= 3'
  pid=$(rank_1 stuck)
  kill -STOP "$pid"
  wait_for 50 'a bundle within twice the limit' holds stuck 'r["stalls"] and r["stalls"][0]["bundle"]'
  run --separate-stderr 55_explain.sh stuck
  # Whether the other rank waits for it already depends on where in a step it was stopped.
  [[ $output == *"rank 1 ("*"pid $pid, is stopped (SIGSTOP)"* ]] || fail '55 does not name it'
  run --separate-stderr 50_status.sh
  [[ $output == *'no step after step'* ]] || fail '50 does not say it'
  bundle=$JOBS/stuck/$(of_result stuck 'r["stalls"][0]["bundle"]')
  [[ $(find "$bundle" -path '*/hosts/*/py-spy/*.txt' | wc -l) -ge 3 ]] || fail "few stacks: $(find "$bundle")"
  [[ -s $bundle/actors.json && -s $bundle/placement_groups.json && -s $bundle/stall.json ]] || fail "$(ls "$bundle")"
  grep -q '^State:.*T' "/proc/$pid/status" || fail 'the bundle woke the process'
  kill -CONT "$pid"
  wait_for 60 'the next step' grep -q '^MVP_RESUMED: step .* the run goes on' "$JOBS/stuck/logs/driver.log"
  wait_for 10 'the end of the stall' holds stuck 'r["stalls"][0]["resumed_at"]'
  run --separate-stderr 50_status.sh
  [[ $output != *'no step after step'* ]] || fail '50 still says it'
  run --separate-stderr 55_explain.sh stuck
  [[ $output != *stopped* ]] || fail '55 still says it'
  [[ $(of_result stuck 'len(r["stalls"])') == 1 ]] || fail "more than one stall: $(<"$JOBS/stuck/result.json")"
}

@test "a limit below the usual step of the job that is resumed is refused" {
  52_stop.sh stuck
  for limit in 0.5 soon 1; do
    run --separate-stderr submit refused "$(printf 'resume_from: stuck\nstall: {after_s: %s}' "$limit")"
    # The least limit there is: a step of less cannot be undercut.
    if [[ $limit == 1 ]] && python -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["step_s"] >= 1)' "$JOBS/stuck/control/trainer.json"; then
      continue
    fi
    assert_status 2
    [[ $(wc -l <<<"$stderr") -le 2 && $stderr == *stall*after_s* ]] || fail "not one line about $limit"
  done
}

# bats test_tags=nightly
@test "every second of a chain with a stall and a resume is in one part" {
  adds_up stuck 1
  submit resumed 'resume_from: stuck' "trainer.total_training_steps: $(($(of_result stuck 'r["steps_done"]') + 3))"
  wait_for 400 'its end' holds resumed 'r["state"] == "SUCCEEDED"'
  adds_up resumed 2
  holds resumed "r['wall_time']['total_s'] > $(of_result stuck 'r["wall_time"]["total_s"]') + 1" || fail 'the first attempt is not in it'
}

# bats test_tags=nightly
@test "on_stall stop ends a job whose driver is stopped" {
  submit driver "$(printf 'stall: {after_s: 25, on_stall: stop}\nstop_wait_s: 5')"
  wait_for 400 'three steps' holds driver 'r["steps_done"] >= 3'
  pid=$(of_result driver 'r["trainer_pid"]')
  kill -STOP "$pid"
  wait_for 100 'its end' holds driver 'r["state"] == "STOPPED"'
  [[ $(of_result driver 'r["reason"]') == 'stopped because of a stall (stall.on_stall): '*"driver ("*"pid $pid, is stopped"* ]] ||
    fail "$(of_result driver 'r["reason"]')"
  run --separate-stderr 55_explain.sh driver
  [[ $output == *"pid $pid, is stopped"* ]] || fail '55 does not say it'
}

@test "a placement group for which another job leaves no room is named, with what it needs" {
  cat >"$FOLDER/pending.py" <<'PY'
import ray
from ray.util.placement_group import placement_group

ray.init()
ray.get(placement_group([{"CPU": 4}, {"CPU": 4}], strategy="STRICT_SPREAD").ready())
PY
  printf 'entry: {command: [python3, %s, "{metrics}"]}\n' "$FOLDER/pending.py" >"$WORKLOADS/pending.yaml"
  taker taker
  printf 'workload: pending\nsubmission_id: pending\nstall: {start_s: 30}\n' >"$FOLDER/specs/pending.yaml"
  43_submit_jobspec.sh "$FOLDER/specs/pending.yaml"
  placement_group_is_named pending
  52_stop.sh --now pending taker
}

# bats test_tags=nightly
@test "verl's placement group, too" {
  taker verls-taker
  submit verls 'stall: {start_s: 40}' 'trainer.n_gpus_per_node: 4' 'data.train_batch_size: 32'
  placement_group_is_named verls
  52_stop.sh --now verls verls-taker
}
