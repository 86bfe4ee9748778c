#!/usr/bin/env bats
# Three nodes of a real Slurm, and this machine as their login node: the same scripts and JobSpecs as everywhere. The order counts.

load lab
load conformance
load slurm_hosts

setup_file() {
  lab_needs namespaces slurm
  make_slurm_lab slurmt 10.78.2
  export STATE=$PROJECT/.mvp/slurmt
}

teardown_file() {
  end_slurm_lab
}

teardown() { # what a failed test leaves in the background would keep bats waiting
  local pid
  for pid in $(jobs -p); do
    pkill -KILL -P "$pid" || true
    kill -KILL "$pid" 2>/dev/null || true
  done
}

variant() { # <sed program>: MVP_CLUSTER of this test, changed
  sed "$1" "$TEST_CLUSTER" >"$LAB_DIR/variant.yaml"
  export MVP_CLUSTER=$LAB_DIR/variant.yaml
}

allocations() { in_lab squeue -h -t all -n mvp-slurmt -o '%i %T'; }
steps() { in_lab squeue -h -s -o '%j %N' | sed -n 's/^mvp-slurmt //p' | sort; }

@test "--dry-run shows Slurm's words with the site's options, and asks for nothing" {
  # shellcheck disable=SC2016
  variant 's|^slurm:.*|slurm: {sbatch: ["--time=1:00:00"], srun: ["--container-image=${IMAGE}", "--container-mounts=/data:/private"]}|'
  IMAGE=verl.sqsh run --separate-stderr in_lab 01_up.sh --dry-run
  assert_status 0
  assert_output 'would run: sbatch *--nodes=3 *--time=1:00:00 *would run: srun *--container-image=verl.sqsh --container-mounts=/data:/private*start-node head*start-node worker-1*'
  [[ -z $(allocations) && ! -e $STATE ]] || fail 'there is something'
}

@test "an allocation that Slurm can never give is refused in Slurm's words" {
  variant 's|--cpus-per-task=2|--constraint=no-such-feature|'
  run --separate-stderr in_lab 01_up.sh
  assert_status 3
  assert_stderr_has 'Slurm refuses the allocation: Batch job submission failed: Invalid feature specification'
}

@test "an allocation that stays pending is told with the reason, given up in time and cancelled" {
  variant 's|pending_timeout_s: 60|pending_timeout_s: 1|'
  in_lab scontrol update nodename=n3 state=drain reason=maintenance
  run --separate-stderr in_lab 01_up.sh
  in_lab scontrol update nodename=n3 state=resume
  assert_status 4
  [[ $stderr == *'waiting: allocation '*' is PENDING '*'UnavailableNodes:n3'* ]] || fail 'no reason'
  assert_stderr_has 'no allocation after 1 s (slurm.pending_timeout_s): PENDING '
  [[ $(allocations) == *' CANCELLED' && ! -e $STATE/allocation ]] || fail "left: $(allocations)"
}

@test "Ctrl-C while the allocation is pending cancels it" {
  in_lab scontrol update nodename=n3 state=drain reason=maintenance
  run --separate-stderr python - "$NETLAB" lab 01_up.sh <<'PY'
import os, signal, subprocess, sys
process = subprocess.Popen(sys.argv[1:], start_new_session=True, stderr=subprocess.PIPE, text=True)
while "is PENDING" not in process.stderr.readline():
    pass
os.killpg(process.pid, signal.SIGINT)
print(process.communicate(timeout=30)[1])
raise SystemExit(process.returncode)
PY
  in_lab scontrol update nodename=n3 state=resume
  assert_status 130
  [[ $(allocations) != *PENDING* && $(allocations) != *RUNNING* && ! -e $STATE/allocation ]] || fail "left: $(allocations)"
}

@test "the end-to-end procedure runs as a batch job: where its log is, its verdict" {
  local fixtures=$LAB_DIR/e2e
  mkdir "$fixtures" && make_e2e_fixtures "$fixtures"
  # shellcheck source=/dev/null
  source "$fixtures/environment"
  run --separate-stderr in_lab 60_e2e_verl.sh --description "$fixtures/verl-no-gpu.yaml" --level 0 --runs-dir "$fixtures/runs" --via sbatch
  assert_status 0
  assert_output 'Result: Pass - Level 0*'
  assert_stderr_has "its log is $fixtures/runs/slurm-"
  FAKE_FAULT=provider run --separate-stderr in_lab 60_e2e_verl.sh --resume "$fixtures"/runs/verl-no-gpu-* --via slurm
  assert_status 0
}

nemo_rl() { # [option]...: the procedure through ray.sub
  local fixtures=$LAB_DIR/e2e-ray-sub
  [[ -d $fixtures ]] || { mkdir "$fixtures" && make_e2e_fixtures "$fixtures"; }
  # shellcheck source=/dev/null
  source "$fixtures/environment"
  run --separate-stderr in_lab 61_e2e_nemo_rl.sh --description "$fixtures/nemo-rl-no-gpu.yaml" --level 0 --runs-dir "$fixtures/runs" --via ray.sub \
    --image nemo-rl:lab --launcher-option --account=lab --launcher-option --partition=main "$@"
}

@test "NeMo-RL's procedure runs through ray.sub: its variables, the driver's log, the exit code, and no job on a failure before it" {
  local runs=$LAB_DIR/e2e-ray-sub/runs
  nemo_rl --plan
  assert_status 0
  assert_output "env -C $NEMO_RL_REPO CONTAINER=nemo-rl:lab *MOUNTS=*COMMAND=*sbatch --wait*--account=lab --partition=main ray.sub"
  [[ ! -e $runs ]] || fail 'a plan wrote something'
  FAKE_FAULT=nan nemo_rl
  assert_status 1
  assert_output 'Result: Fail - level-0-smoke: *'
  assert_stderr_has 'ray-driver.log'
  [[ -s $(echo "$runs"/e2e-*/*-logs/ray-driver.log) ]] || fail "$(find "$runs" -name '*.log')"
  grep -q 'container nemo-rl:lab, mounts .*, account lab, GPUs 8' "$runs"/slurm-e2e-*.out || fail "$(cat "$runs"/slurm-*)"
  [[ -z $(git -C "$NEMO_RL_REPO" status --porcelain) ]] || fail 'it wrote into the checkout'
  FAKE_FAULT=no-head nemo_rl
  assert_status 3
  assert_stderr_has 'ray.sub ended before it ran the procedure'
}

# bats test_tags=nightly
@test "NeMo-RL's procedure through ray.sub: a pass and a missing data set" {
  nemo_rl
  assert_status 0
  assert_output 'Result: Pass - Level 0*- Local Bridge import in NeMo-RL: Pass*'
  FAKE_FAULT=data nemo_rl
  assert_status 3
  assert_output 'Result: Blocked - level-0-smoke: *'
}

@test "up gets one allocation, and each Ray node lives in a step of its own on a node of its own" {
  other=$(in_lab sbatch --parsable --output=/dev/null --wrap 'exec sleep infinity')
  echo "$other" >"$LAB_DIR/other"
  run --separate-stderr in_lab 01_up.sh
  assert_status 0
  assert_output 'http://10.78.2.2:8265 started'
  [[ $(allocations | grep -c RUNNING) == 1 ]] || fail "allocations: $(allocations)"
  [[ $(steps) == $'n1\nn2\nn3' ]] || fail "steps: $(steps)"
  [[ $(tail -n 3 "$STATE/allocation") == $'head n1 10.78.2.2\nworker-0 n2 10.78.2.3\nworker-1 n3 10.78.2.4' ]] || fail "$(<"$STATE/allocation")"
}

@test "another user of a node reaches neither Ray's logs nor its sockets" {
  for host in n1 n2 n3; do closed_to_others on_host "$host"; done
}

# shellcheck disable=SC2034 # for conforms
WITHIN=("$NETLAB" lab)
host_goes_down() { "$NETLAB" cut n2; }
host_comes_back() { "$NETLAB" heal n2; }
conforms head worker-0

@test "a trivial job: its driver is on a worker by node id and by address, not on the head, and 54 is content" {
  export MVP_WORKLOADS=$PROJECT/tests/lab/workloads
  echo '{"workload": "trivial", "submission_id": "by-slurm"}' >"$LAB_DIR/trivial.json"
  run --separate-stderr in_lab 43_submit_jobspec.sh "$LAB_DIR/trivial.json" --wait --timeout 200
  assert_status 0
  assert_output by-slurm
  run --separate-stderr in_lab 51_logs.sh by-slurm
  [[ $output == *'ran on 10.78.2.'[34]* ]] || fail 'the task did not run on a worker'
  run --separate-stderr in_lab 54_verify.sh by-slurm --json
  assert_status 0
  python - "$output" "$LAB_DIR/shared/jobs/by-slurm/result.json" <<'PY'
import json, sys
found = json.loads(sys.argv[1])
wrong = [check for check in found["jobs"][0]["checks"] if check["verdict"] not in ("Pass", "Skipped")]
assert found["passed"] and not wrong, wrong
assert json.load(open(sys.argv[2]))["driver_host"] in ("worker-0", "worker-1")
PY
}

@test "a worker whose srun is killed is told with its log by the next command, and up repairs it" {
  in_lab 01_up.sh --check
  kill -TERM "$(pgrep -P "$(<"$STATE/steps/worker-1/pid")")"
  wait_for 20 'the end of the step' test -e "$STATE/steps/worker-1/code"
  run --separate-stderr in_lab 50_status.sh
  assert_status 0
  assert_stderr_has "worker-1: its Ray node's step ended"
  assert_stderr_has "$STATE/steps/worker-1/log"
  assert_stderr_has 'worker-1: up after'
  run --separate-stderr in_lab 01_up.sh
  assert_status 0
  assert_output 'http://10.78.2.2:8265 repaired'
  run --separate-stderr in_lab 50_status.sh
  [[ $output == *worker-1*alive* && $stderr != *ended* ]] || fail 'not repaired'
}

@test "down ends exactly this allocation; again is fine; a job can be read without it, and what needs it says so" {
  read -r id _ <"$STATE/allocation"
  run --separate-stderr in_lab 02_down.sh
  assert_status 0
  [[ $(allocations) == *"$id "CANCELLED* && $(allocations) != *RUNNING* && ! -e $STATE/allocation ]] || fail "left: $(allocations)"
  [[ $(in_lab squeue -h -j "$(<"$LAB_DIR/other")" -o %T) == RUNNING ]] || fail "another job was ended"
  in_lab scancel "$(<"$LAB_DIR/other")"
  run --separate-stderr in_lab 02_down.sh
  assert_status 0
  run --separate-stderr verbs host_exec worker-0 -- true
  assert_status 3
  assert_stderr_has "worker-0: cluster 'slurmt' has no allocation"
  run --separate-stderr in_lab 51_logs.sh by-slurm
  assert_status 0
  [[ $output == *'ran on 10.78.2.'[34]* ]] || fail 'the log cannot be read'
}

@test "an allocation that the shell is in is adopted, and down leaves it alone" {
  id=$(in_lab sbatch --parsable --nodes=3 --output=/dev/null --wrap 'exec sleep infinity')
  wait_for 20 'the allocation' eval "[[ \$(in_lab squeue -h -j $id -o %T) == RUNNING ]]"
  in_lab srun --jobid="$id" --overlap --nodes=1 --ntasks=1 --nodelist=n3 --job-name=mine sleep 600 &
  wait_for 20 'a step of somebody else' eval "in_lab squeue -h -s -j $id -o %j | grep -x mine"
  # As in a salloc shell, up to its first command on a host: no Ray here.
  run --separate-stderr in_lab env SLURM_JOB_ID="$id" SLURM_NNODES=3 SLURM_CPUS_PER_TASK=3 "$PROJECT/tests/lab/verbs.sh" hosts_up
  assert_status 0
  assert_stderr_has "allocation $id: adopted"
  [[ $(verbs host_exec worker-1 -- hostname) == n3 ]] || fail 'not in that allocation'
  in_lab "$PROJECT/tests/lab/verbs.sh" host_exec worker-0 -- sleep 500 &
  wait_for 20 'a step of ours' eval "[[ \$(steps) == n2 ]]"
  run --separate-stderr in_lab 02_down.sh
  assert_status 0
  wait_for 20 'the end of our step' eval "[[ -z \$(steps) ]]"
  [[ $(in_lab squeue -h -j "$id" -o %T) == RUNNING && $(in_lab squeue -h -s -j "$id" -o %j) == *mine* ]] || fail 'wrong things were ended'
  in_lab scancel "$id"
  wait || true
}
