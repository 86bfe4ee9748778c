#!/usr/bin/env bats
# A job's life on one real cluster: its log followed, stopped in every way, and what is left when the cluster is gone. The order counts.

load helpers

setup_file() {
  make_job_cluster life 51 51
  # Each has a Ray worker of its own on some node, and a process without environment that has left its parents, group and session and
  # ignores SIGTERM. Its Ray worker leaves such a process, too.
  cat >"$FOLDER/trainer.py" <<'PY'
import os, ray, signal, subprocess, sys, time

ray.init(log_to_driver=False)

def stray():
    shell = 'trap "" TERM; env -i setsid sleep 600 &>/dev/null & echo $!'
    return subprocess.check_output(["bash", "-c", shell], text=True).strip()

@ray.remote(num_cpus=0)
class Trainer:
    def pids(self):
        return os.getpid(), stray()

trainer = Trainer.remote()
worker, of_worker = ray.get(trainer.pids.remote())
if sys.argv[1] == "save":
    def save(*_):
        print("saving", flush=True)
        time.sleep(4)
        open("saved", "w").close()
        os._exit(0)
    signal.signal(signal.SIGTERM, save)
elif sys.argv[1] == "ignore":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("of worker", of_worker, flush=True)
print("pids", os.getpid(), worker, stray(), flush=True)
time.sleep(600)
PY
  for how in save ignore die; do
    printf 'entry: {command: [python3, %s, %s]}\n' "$FOLDER/trainer.py" "$how" >"$WORKLOADS/$how.yaml"
  done
  printf 'entry: {command: [sleep, "600"]}\n' >"$WORKLOADS/sleep.yaml"
  cat >"$WORKLOADS/speak.yaml" <<'YAML'
entry: {command: [python3, -uc, "import sys, time; print('\\n'.join(map(str, range(20000)))); time.sleep(3); print('the end'); sys.exit(7)"]}
YAML
  01_up.sh && 30_prepare_data_and_model.sh && 31_snapshot_verl_code.sh
}

teardown_file() {
  end_cluster
}

submit() { # <workload> <id> [<more JSON>]
  printf '{"workload": "%s", "submission_id": "%s"%s}' "$1" "$2" "${3:-}" >"$FOLDER/specs/$2.json"
  43_submit_jobspec.sh "$FOLDER/specs/$2.json"
}

wait_for_log() { # <id> <text>
  local _
  for _ in {1..300}; do
    grep -qs "$2" "$JOBS/$1/logs/driver.log" && return 0
    sleep 0.2
  done
  fail "$1 never logged '$2' but: $(cat "$JOBS/$1/logs/driver.log" "$JOBS/$1/result.json" 2>&1)"
}

pids_of() { # <id>: of the trainer, its Ray worker, and the process that left
  sed -n 's/^pids //p' "$JOBS/$1/logs/driver.log"
}

marked() { # <id>: every process on this machine that Ray or the job started for it
  grep -lszxF "MVP_JOB_FOLDER=$JOBS/$1" /proc/[0-9]*/environ | tr -dc '0-9\n'
}

@test "a log is followed to the job's end: every line, the job's exit code" {
  id=$(submit speak spoken)
  run --separate-stderr 51_logs.sh "$id" -f
  assert_status 1
  [[ $output == "$(seq 0 19999)"$'\nthe end' ]] || fail "the log has $(wc -l <<<"$output") lines"
  assert_stderr_has 'the trainer ended with exit code 7'
  run --separate-stderr 51_logs.sh "$id"
  assert_status 0
  [[ $output == "$(<"$JOBS/$id/logs/driver.log")" ]]
}

@test "only what was logged since" {
  run --separate-stderr 51_logs.sh spoken --since 1d
  assert_output $'0\n*the end'
  moment=$(python -c 'import sys, datetime as d
times = [line.split() for line in open(sys.argv[1])]
last = next(int(ms) for ms, size in reversed(times) if int(size) < int(times[-1][1]))
print(d.datetime.fromtimestamp(last / 1000, d.timezone.utc).isoformat())' "$JOBS/spoken/logs/driver.times")
  run --separate-stderr 51_logs.sh spoken --since "$moment"
  assert_output 'the end'
  run --separate-stderr 51_logs.sh spoken --since 0s
  [[ $output == '' || $output == 'the end' ]] || fail 'all of it'
  run --separate-stderr 51_logs.sh spoken --since yesterday
  assert_status 2
  assert_stderr_has "'yesterday' is not a duration (10m) or a UTC time"
}

@test "an unknown id is bad input for every script of a job's life" {
  for script in 51_logs.sh 52_stop.sh; do
    run --separate-stderr "$script" spoke
    assert_status 2
    assert_stderr_has "job 'spoke' does not exist"
  done
}

@test "a stop gives the trainer time to save; nothing of that job is left, and another job goes on" {
  submit sleep bystander && submit save saver '' && wait_for_log saver pids
  read -r -a pids < <(pids_of saver)
  kill -0 "${pids[@]}"
  run --separate-stderr 52_stop.sh saver
  assert_status 0
  assert_output 'saver STOPPED'
  [[ -e $JOBS/saver/saved && $(state_of saver) == STOPPED ]] || fail 'no time to save'
  [[ $(grep -cx saving "$JOBS/saver/logs/driver.log") == 1 ]] || fail 'not told exactly once'
  ls -d "$JOBS"/saver/debug/*-stopped
  wait_until_gone "${pids[@]}"
  [[ -z $(marked saver) ]] || fail "left: $(marked saver)"
  assert_stderr_has "ended a process that job 'saver' had left: pid ${pids[2]}"
  orphan=$(sed -n 's/^of worker //p' "$JOBS/saver/logs/driver.log") # of a plain Ray worker, which imports nothing of verl
  assert_stderr_has "ended a process that job 'saver' had left: pid $orphan"
  wait_until_gone "$orphan"
  # Ray may have put the Ray worker on any of the nodes.
  [[ $(grep -cE "(head|worker-[01]): no (other )?process of job 'saver' is left" <<<"$stderr") == 3 ]] || fail 'not on every host'
  [[ -n $(marked bystander) && $(state_of bystander) == RUNNING ]] || fail 'the other job was touched'
  [[ $(ask_ray_status saver) == STOPPED ]] || fail "Ray says $(ask_ray_status saver)"
}

ask_ray_status() { # <id>
  ask_ray http://127.0.51.10:8351 "/api/jobs/$1" "Authorization: Bearer $(<"$FOLDER/state/ray_token")" |
    python -c 'import json, sys; print(json.load(sys.stdin)["status"])'
}

@test "a trainer that ignores SIGTERM is killed when its time is over, one that does not goes at once; both in one command" {
  submit ignore ignorer ', "stop_wait_s": 5' && submit die dier
  wait_for_log ignorer pids
  wait_for_log dier pids
  read -r -d '' -a pids < <(pids_of ignorer && pids_of dier) || true
  run --separate-stderr 52_stop.sh ignorer dier
  assert_status 0
  assert_output $'ignorer STOPPED\ndier STOPPED'
  assert_stderr_has 'ignorer: asked to stop; its trainer has 5 s'
  assert_stderr_has 'dier: asked to stop; its trainer has 60 s'
  python -c 'import json, sys; assert json.load(open(sys.argv[1]))["exit_code"] == 137' "$JOBS/ignorer/result.json"
  wait_until_gone "${pids[@]}"
  [[ -z $(marked ignorer)$(marked dier) ]] || fail "left: $(marked ignorer) $(marked dier)"
}

@test "a job that waits for resources becomes STOPPED and never trains" {
  all=', "resources": {"entrypoint_resources": {"worker_node": 100}}'
  submit sleep hog-1 "$all" && submit sleep hog-2 "$all"
  submit save waiting "$all"
  run --separate-stderr 52_stop.sh waiting
  assert_status 0
  assert_output 'waiting STOPPED'
  [[ $(<"$JOBS/waiting/result.json") == *'stopped on request, before it started'* ]]
  run --separate-stderr 52_stop.sh hog-1 hog-2
  assert_status 0
  for _ in {1..100}; do [[ $(ask_ray_status waiting) == @(PENDING|RUNNING) ]] || break && sleep 0.2; done
  [[ $(ask_ray_status waiting) == STOPPED && ! -s $JOBS/waiting/logs/driver.log && $(state_of waiting) == STOPPED ]] ||
    fail "it ran: $(ask_ray_status waiting), $(<"$JOBS/waiting/result.json")"
}

@test "a job that has ended is left as it is" {
  wait_until_sealed
  before=$(find "$JOBS/saver" -type f -exec sha256sum {} + | sort)
  run --separate-stderr 52_stop.sh saver spoken
  assert_status 0
  assert_output $'saver STOPPED\nspoken FAILED'
  assert_stderr_has 'saver: has already ended, STOPPED'
  [[ $(find "$JOBS/saver" -type f -exec sha256sum {} + | sort) == "$before" ]] || fail 'the job folder changed'
}

@test "Ctrl-C while waiting leaves the stop going on" {
  submit save interrupted && wait_for_log interrupted pids
  run --separate-stderr timeout --foreground -s INT 2.5 52_stop.sh interrupted
  [[ $status == 130 || $status == 124 ]] || fail 'no Ctrl-C'
  for _ in {1..100}; do [[ $(state_of interrupted) == STOPPED ]] && break || sleep 0.2; done
  [[ $(state_of interrupted) == STOPPED && -e $JOBS/interrupted/saved ]] || fail "$(<"$JOBS/interrupted/result.json")"
}

sft() { # <id> <last step> [<more JSON> [<more overrides>]]: a real SFT job, saving every second step
  printf '{"workload": "sft", "submission_id": "%s", "code_path": "common/code/verl/current", "model": "common/models/default",
    "dataset": "datasets/gsm8k_sft", "trainer_overrides": {"trainer.total_training_steps": %s, "trainer.save_freq": 2%s}%s}' \
    "$1" "$2" "${4:-}" "${3:-}" >"$FOLDER/specs/$1.json"
  43_submit_jobspec.sh "$FOLDER/specs/$1.json" --wait
}

@test "a job goes on from the last whole checkpoint of another, in a folder of its own" {
  sft before 3
  wait_until_sealed
  find "$JOBS/before" -type f -exec sha256sum {} + | sort >"$FOLDER/before.sums"
  run --separate-stderr sft mismatched 5 ', "resume_from": "before"' ', "trainer.nnodes": 1'
  assert_status 2
  assert_stderr_has "step 3 of job 'before' was written by 2 trainer processes; this job would have 1"
  run --separate-stderr sft finished 3 ', "resume_from": "before"'
  assert_status 2
  assert_stderr_has 'leaves nothing to train: this job ends at step 3'
  [[ ! -e $JOBS/mismatched && ! -e $JOBS/finished && $(find "$JOBS/before" -type f -exec sha256sum {} + | sort) == "$(<"$FOLDER/before.sums")" ]]
  # As a trainer leaves it that is killed while it saves.
  truncate -s -7 "$JOBS/before/checkpoints/global_step_3/optim_world_size_2_rank_1.pt"
  run --separate-stderr sft after 4 ', "resume_from": "before"'
  assert_status 0
  assert_stderr_has 'before: skipped: global_step_3 is not whole: optim_world_size_2_rank_1.pt is cut short or damaged'
  assert_stderr_has 'after resumes from step 2 of before'
  run --separate-stderr 54_verify.sh before
  assert_status 1
  assert_output '*✗ Fail     sealed *changed since it was sealed: checkpoints/global_step_3/optim_world_size_2_rank_1.pt*'
  assert_output '*✗ Fail     checkpoints *checkpoints/global_step_3 is not whole: optim_world_size_2_rank_1.pt is cut short or damaged*'
  run --separate-stderr 54_verify.sh after
  assert_status 0
  assert_output '*resumed step 2 of before*steps 4 (save_freq 2, last step 4)*steps 3-4, as expected*'
}

@test "checkpoints are listed and exported, old ones removed on request, and 54 reports that" {
  run --separate-stderr 57_checkpoints.sh before
  assert_status 0
  assert_output 'CHECKPOINT *before:2 * after * yes*before:3 * - * optim_world_size_2_rank_1.pt is cut short or damaged*'
  run --separate-stderr 57_checkpoints.sh --export before:3 common/models/exported
  assert_status 2
  assert_stderr_has 'before:3 is not whole: optim_world_size_2_rank_1.pt is cut short'
  [[ ! -e $FOLDER/private/common/models/exported ]] || fail 'half of an export'
  run --separate-stderr 57_checkpoints.sh --export before common/models/exported
  assert_status 0
  assert_output "$FOLDER/private/common/models/exported"
  python - "$output" "$(readlink -f "$FOLDER/private/common/code/verl/current")" <<'PY'
import hashlib, json, pathlib, sys
made, code = map(pathlib.Path, sys.argv[1:])
origin = json.loads((made / "mvp_export.json").read_text())
assert (origin["submission_id"], origin["step"], origin["code_id"]) == ("before", 2, code.name), origin
proof = origin["proof"]
assert proof["merger"].startswith(f"{code}/") and proof["generated"] and proof["dtype"] == "bfloat16", proof
weights = (made / "model.safetensors").read_bytes()
assert origin["files"]["model.safetensors"] == hashlib.sha256(weights).hexdigest(), origin["files"]
PY
  run --separate-stderr 57_checkpoints.sh --export before common/models/exported
  assert_status 2
  assert_stderr_has 'common/models/exported is not empty'
  run --separate-stderr 57_checkpoints.sh before --keep 1 </dev/null
  assert_status 2
  assert_stderr_has 'stdin is not a terminal, so nobody can answer: Remove the listed checkpoints (1)?'
  run --separate-stderr 57_checkpoints.sh before --keep 1 --yes
  assert_status 0
  assert_output before:3
  run --separate-stderr 54_verify.sh before
  assert_status 0
  assert_output '*removed on request since, the last at*2*: checkpoints/global_step_3*steps 2 (save_freq 2, last step 3); step 3 was removed on request at 2*'
}

@test "a job that another one resumed from is removed only together with it, and its id says so for good" {
  run --separate-stderr 59_remove_job.sh before --yes
  assert_status 2
  assert_stderr_has "nothing was removed: 'after' resumed from step 2 of 'before'"
  run --separate-stderr 59_remove_job.sh before after --yes
  assert_status 0
  assert_output $'before\nafter'
  [[ ! -e $JOBS/before && ! -e $JOBS/after ]] || fail 'a folder is left'
  for script in 54_verify.sh 55_explain.sh 57_checkpoints.sh; do
    run --separate-stderr "$script" before
    assert_status 2
    assert_stderr_has "job 'before' was removed on request at 2"
  done
  run --separate-stderr sft before 3
  assert_status 2
  assert_stderr_has "submission_id 'before' is already used: job 'before' was removed on request at 2"
  run --separate-stderr 50_status.sh --json
  assert_status 0
  [[ $output != *'"before"'* ]] || fail 'it is on the list'
}

@test "a log is followed when the whole cluster goes away, and read when it is gone" {
  submit sleep orphan && submit speak other && submit die strays && wait_for_log strays pids
  51_logs.sh orphan -f >"$FOLDER/orphan.out" 2>"$FOLDER/orphan.err" 3>&- &
  follower=$!
  read -r -d '' -a strays < <(pids_of strays && sed -n 's/^of worker //p' "$JOBS/strays/logs/driver.log") || true
  02_down.sh
  wait_until_gone "${strays[@]}"
  code=0
  wait "$follower" || code=$?
  # 3: it lost the job, too; 1: Ray still reported that the tear-down had ended the job.
  [[ $code == 5 || $code == 3 || ($code == 1 && $(<"$FOLDER/orphan.err") == *'exit code -15'*) ]] ||
    fail "exit code $code: $(<"$FOLDER/orphan.err")"
  run --separate-stderr 51_logs.sh spoken
  assert_status 0
  assert_output $'0\n*the end'
  run --separate-stderr 51_logs.sh spoken -f
  assert_status 1
  run --separate-stderr 52_stop.sh spoken
  assert_status 0
}
