#!/usr/bin/env bats
# What breaks on a real cluster while verl trains: after each fault the state is true, the evidence is there, 55 names the cause, and the
# next job works. The order counts: later faults hurt more. benchmarks/bench_faults.sh shows what is printed here: no test looks at it.
# SFT is what starts fastest; FAULTS_OF=ppo (or grpo) takes another workload.

# shellcheck disable=SC2030,SC2031 # every test has variables of its own

load helpers

TRAINER=${FAULTS_OF:-sft}

setup_file() {
  make_job_cluster faults 6 20
  [[ $TRAINER == sft ]] || sed -i 's/num_cpus: 8/num_cpus: 16/' "$MVP_CLUSTER" # for two RL jobs at once
  printf 'entry: {command: [python3, %s, "2", "0.1"]}\n' "$BATS_TEST_DIRNAME/toy_trainer.py" >"$WORKLOADS/short.yaml"
  printf 'entry: {command: [python3, %s, "2000", "0.3"]}\n' "$BATS_TEST_DIRNAME/toy_trainer.py" >"$WORKLOADS/long.yaml"
  mkdir "$FOLDER/private" # on a file system that one test can fill
  mount -t tmpfs -o size=400m tmpfs "$FOLDER/private" || true
  01_up.sh && 30_prepare_data_and_model.sh && 31_snapshot_verl_code.sh
}

teardown_file() {
  02_down.sh 2>/dev/null || true
  umount "$FOLDER/private" 2>/dev/null || true
  end_cluster
}

submit() { # <id> [<43's options>...]: a short job, or of WORKLOAD
  printf '{"workload": "%s", "submission_id": "%s"}' "${WORKLOAD:-short}" "$1" >"$FOLDER/specs/$1.json"
  43_submit_jobspec.sh "$FOLDER/specs/$1.json" "${@:2}"
}

result() { # <id> <field>
  python -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$JOBS/$1/result.json" "$2"
}

strike() { # <command>...: the fault
  STRUCK=$EPOCHREALTIME
  "$@" 2>/dev/null || true
}

noticed() { # <seconds> <what> <command>...: waits for it, and prints how long that was after the fault
  wait_for "$@"
  local ms=$(((${EPOCHREALTIME/[.,]/} - ${STRUCK/[.,]/}) / 1000))
  printf '# %s: %s after %d.%d s\n' "$BATS_TEST_DESCRIPTION" "$2" $((ms / 1000)) $((ms % 1000 / 100)) >&3
}

has_state() { # <id> <state>
  [[ $(result "$1" state) == "$2" ]]
}

settled_as() { # <id> <state>: as the status screen says, which asks Ray about jobs that have not ended
  50_status.sh --json >/dev/null
  has_state "$@"
}

trains() { # <id>
  [[ $(result "$1" steps_done) -ge 2 ]]
}

start_training() { # <id> [<save_freq>]: a job of verl that would train for many minutes
  {
    sed -E '/total_training_steps|total_epochs|save_freq/d' "$PROJECT/templates/$TRAINER.yaml"
    printf '  %s\n' 'trainer.total_epochs: 1000' 'trainer.total_training_steps: 3000' "trainer.save_freq: ${2:-3000}"
    printf 'submission_id: %s\n' "$1"
  } >"$FOLDER/specs/$1.yaml"
  43_submit_jobspec.sh "$FOLDER/specs/$1.yaml" >/dev/null
  wait_for 120 'the training' trains "$1"
}

training_process() { # <id>: pid of a Ray worker that trains
  local file
  for file in /proc/[0-9]*/environ; do
    tr '\0' '\n' 2>/dev/null <"$file" | grep -qx "MVP_JOB_FOLDER=$JOBS/$1" || continue
    ! tr '\0' ' ' <"${file%environ}cmdline" | grep -qE '^ray::.*(Train|WorkerDict)' || echo "${file//[!0-9]/}"
  done | head -n 1
}

next_job_works() {
  submit "next-$BATS_TEST_NUMBER" --wait --timeout 300
}

explained() { # <id> <verdict> <boundary> <rule>: what 55 says, each a pattern
  local answer
  answer=$(55_explain.sh "$1" --json | python -c 'import json, sys; d = json.load(sys.stdin); print(d["verdict"], d["boundary"], d["rule"])')
  printf '# %s: 55 says %s\n' "$BATS_TEST_DESCRIPTION" "$answer" >&3
  # shellcheck disable=SC2053 # patterns
  [[ $answer == $2' '$3' '$4 ]] || fail "55 says: $answer"
}

processes_of() { # <host>: pids of everything its Ray node started, jobs included
  instances faults | sed -n "s/ faults\.$1\..*//p"
}

host_of() { # <id>: the host its driver runs on
  result "$1" driver_host
}

submitted_or_not() { # <id>: one or the other, and to its end
  settled_as "$1" NOT_SUBMITTED || has_state "$1" SUCCEEDED
}

@test "a submitter killed at any stage leaves the truth, and a retry works" {
  for delay in 0.2 0.5 0.9 1.3; do
    setsid bash -c "$(declare -f submit); submit killed-$delay" &>/dev/null &
    sleep "$delay"
    kill -9 -- "-$!" 2>/dev/null || true
  done
  sleep 16 # a submitter that is gone has this long for its last request to reach Ray
  for delay in 0.2 0.5 0.9 1.3; do
    [[ ! -d $JOBS/killed-$delay ]] || wait_for 40 "the end of killed-$delay" submitted_or_not "killed-$delay"
  done
  next_job_works
}

# bats test_tags=nightly
@test "a trainer killed with SIGKILL: FAILED at once, with the signal" {
  start_training trainer-killed
  strike kill -9 "$(result trainer-killed trainer_pid)"
  noticed 30 FAILED has_state trainer-killed FAILED
  [[ $(result trainer-killed reason) == *SIGKILL* ]] || fail "$(result trainer-killed reason)"
  explained trainer-killed Blocked host trainer-killed
  compgen -G "$JOBS/trainer-killed/debug/*-failed/nodes.json" || fail 'no bundle at the end'
  next_job_works
}

# bats test_tags=nightly
@test "a training worker killed: FAILED, and the dead actor is the cause" {
  start_training worker-killed
  strike kill -9 "$(training_process worker-killed)"
  noticed 60 FAILED has_state worker-killed FAILED
  explained worker-killed Fail Ray worker-process-died
  next_job_works
}

# bats test_tags=nightly
@test "a job runner killed: the trainer goes with it, and the next look says FAILED" {
  start_training runner-killed
  trainer=$(result runner-killed trainer_pid)
  strike kill -9 "$(ps -o ppid= -p "$trainer" | tr -d ' ')"
  wait_until_gone "$trainer"
  noticed 60 FAILED settled_as runner-killed FAILED
  explained runner-killed Blocked host trainer-killed
  run --separate-stderr 54_verify.sh runner-killed
  assert_output '*– Skipped  sealed *its job runner was gone*'
  run --separate-stderr 54_verify.sh runner-killed --seal
  assert_output '*✓ Pass     sealed *as sealed on request*what changed before is unknown*'
  next_job_works
}

# bats test_tags=nightly
@test "a whole worker node killed while it trains: FAILED, the node is named, up repairs it" {
  start_training node-killed
  for host in worker-0 worker-1; do [[ $(host_of node-killed) == "$host" ]] || other=$host; done
  mapfile -t pids < <(processes_of "$other")
  strike kill -9 "${pids[@]}"
  noticed 60 FAILED settled_as node-killed FAILED
  explained node-killed Blocked cluster node-died
  01_up.sh
  next_job_works
}

fill_disk() { # up to 1 MB; the job may write meanwhile
  fallocate -l "$(($(df --output=avail -B1 "$FOLDER/private" | tail -n 1) - 1000000))" "$FOLDER/private/filler"
}

@test "a shared root that is full while a job trains: FAILED with the log's end once there is room, nothing half-written" {
  mountpoint -q "$FOLDER/private" || skip 'no right to mount a small file system'
  start_training full 10
  wait_for 5 'a full disk' fill_disk
  wait_until_gone "$(result full trainer_pid)" # at its first checkpoint
  has_state full RUNNING || fail "$(<"$JOBS/full/result.json")"
  strike rm "$FOLDER/private/filler"
  noticed 60 FAILED has_state full FAILED
  explained full Blocked disk '*'
  [[ ! $(find "$JOBS" -name '.result*') ]] || fail 'a temporary file was left'
  next_job_works
}

head_is_missed() {
  50_status.sh | grep 'not up'
}

a_full_root_blocks_up() { # where it can be mounted: one line, and no head that nobody finds
  mkdir "$FOLDER/no-room"
  mount -t tmpfs -o size=8k tmpfs "$FOLDER/no-room" || return 0
  cat /dev/zero >"$FOLDER/no-room/filled" 2>/dev/null || true
  sed "s#^shared_root:.*#shared_root: $FOLDER/no-room#" "$MVP_CLUSTER" >"$FOLDER/no-room.yaml"
  run --separate-stderr 01_up.sh --cluster "$FOLDER/no-room.yaml"
  umount "$FOLDER/no-room"
  assert_status 3
  assert_output ''
  assert_stderr_has "blocked: cannot write $FOLDER/no-room/ray/faults/head.json: No space left on device"
  [[ -z $(processes_of head) ]] || fail "left: $(processes_of head)"
}

@test "the head killed while a job trains and started again: jobs stay readable, the lost one has ended, the next works" {
  start_training head-killed
  WORKLOAD=long submit head-stopped >/dev/null
  wait_for 60 'its steps' trains head-stopped
  mapfile -t pids < <(processes_of head)
  strike kill -9 "${pids[@]}"
  noticed 30 'the cluster is not up' head_is_missed
  run --separate-stderr 50_status.sh
  assert_status 0
  assert_output '*next-1*'
  run --separate-stderr 54_verify.sh next-1
  assert_status 0
  run --separate-stderr 52_stop.sh head-stopped # without Ray, on its own host
  assert_status 0
  assert_output 'head-stopped STOPPED'
  assert_stderr_has 'no process of job '"'head-stopped'"' is left'
  ! has_state head-killed STOPPED || fail 'another job was stopped' # but verl ends by itself at its next call of Ray
  a_full_root_blocks_up
  01_up.sh # ends the workers of the lost head, and with them the job: by SIGTERM, unless it had already failed
  50_status.sh --json >/dev/null
  [[ $(result head-killed state) == @(STOPPED|FAILED) && $(result head-killed reason) ]] || fail "$(<"$JOBS/head-killed/result.json")"
  explained head-killed "@(Skipped|Blocked)" "*" "*"
  next_job_works
}

# bats test_tags=nightly
@test "the driver's node unreachable: noticed, FAILED, explained; up brings the node back" {
  start_training unreachable
  host=$(host_of unreachable)
  mapfile -t frozen < <(processes_of "$host")
  strike kill -STOP "${frozen[@]}" # as a cut link: nothing answers, nothing is closed
  noticed 120 FAILED settled_as unreachable FAILED
  kill -KILL "${frozen[@]}" 2>/dev/null || true
  explained unreachable Blocked cluster node-died
  01_up.sh
  next_job_works
}

# bats test_tags=nightly
@test "the folder of all jobs moved away while a job trains: each command says it in one line, and the job can be stopped" {
  start_training jobs-moved
  trainer=$(result jobs-moved trainer_pid)
  mv "$JOBS" "$JOBS.moved"
  run --separate-stderr 50_status.sh
  assert_status 0
  assert_output "*no jobs in $JOBS"
  for script in 51_logs.sh 53_debug_bundle.sh 54_verify.sh; do
    run --separate-stderr "$script" jobs-moved
    assert_status 2
    # PPO makes the folder anew, for what the model said.
    [[ $stderr == "bad input: job 'jobs-moved' "@(does not exist|has no result.json)": $JOBS/jobs-moved"* ]] || fail "$script"
  done
  run --separate-stderr 52_stop.sh jobs-moved
  assert_status 0
  assert_output 'jobs-moved STOPPED'
  assert_stderr_has "jobs-moved: its folder $JOBS/jobs-moved is gone"
  wait_until_gone "$trainer"
  rm -rf "$JOBS" # with the request for a seal
  mv "$JOBS.moved" "$JOBS"
  next_job_works
}

@test "the state directory lost: nothing is taken for a cluster that is down, and down ends all of it" {
  mv "$FOLDER/state" "$FOLDER/lost"
  run --separate-stderr 50_status.sh
  assert_status 0
  assert_output '*not up: Ray at http://127.0.6.10:8320 refuses the token of this cluster*'
  run --separate-stderr 01_up.sh
  assert_status 3
  assert_output ''
  assert_stderr_has "blocked: head: its Ray node runs, but $FOLDER/state/head/node.json was lost"
  assert_stderr_has 'try: ./scripts/02_down.sh'
  run --separate-stderr 02_down.sh
  assert_status 0
  [[ -z $(instances faults) ]] || fail "left: $(instances faults)"
}
