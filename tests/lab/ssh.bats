#!/usr/bin/env bats
# Three hosts with sshd, each with a network and processes of its own: the same scripts and JobSpecs as everywhere. The order counts.

load lab
load conformance
load ssh_hosts

setup_file() {
  lab_needs namespaces sshd
  export LAB_DATA=10.78.1
  make_ssh_lab ssht 10.77.1
  in_lab "$PROJECT/tests/lab/verbs.sh" hosts_up
}

teardown_file() {
  end_ssh_lab
}

# shellcheck disable=SC2034 # for conforms
WITHIN=("$NETLAB" lab)
host_goes_down() { "$NETLAB" cut "$1"; }
host_comes_back() { "$NETLAB" heal "$1"; }
conforms head worker-0

result() { # <id> <field>
  on_host head "$PROJECT/.venv/bin/python" -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' \
    "/private/jobs/$1/result.json" "$2"
}

ray_here() { # <host> <argument>...: Ray's own command there, as a person would type it
  on_host "$1" env RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=/private/ray/ssht/ray_token RAY_ADDRESS="http://${DASHBOARD_IP:-10.77.1.1}:8265" \
    "$PROJECT/.venv/bin/python" -m ray.scripts.scripts "${@:2}"
}

@test "00 is content, and up starts Ray on hosts that told their addresses and got this project" {
  run --separate-stderr in_lab 00_prereq_check.sh
  assert_status 0
  assert_output '*worker-0: network  *Ray at 10.77.1.2, Gloo on eth0, NCCL on eth0; not used: data0 10.78.1.2*'
  [[ $output != *✗* && $output == *'worker-1: same shared root as the others'*"sees what all 3 hosts wrote"* ]] || fail '00 is not content'
  run --separate-stderr in_lab 01_up.sh
  assert_status 0
  assert_output 'http://10.77.1.1:8265 started'
  run --separate-stderr in_lab 13_deploy_tools.sh
  assert_status 0
  assert_output 'head: already there'$'\n''/private/common/tools/mvp/*'
  [[ $(in_lab 13_deploy_tools.sh --list) == "* ${lines[1]##*/}" ]] || fail 'not listed'
}

interfaces_of_jobs() { # <host>: Gloo's and NCCL's, as every process that its Ray node starts has them
  on_host "$1" bash -c 'tr "\0" "\n" </proc/$(pgrep -o raylet)/environ' | sed -n 's/_SOCKET_IFNAME//p' | sort | tr '\n' ' '
}

@test "every job's Gloo and NCCL use the interface of the host's address, although the host's name means another" {
  for host in worker-0 worker-1; do
    [[ $(on_host "$host" getent ahostsv4 "$host") == 127.0.1.1* ]] || fail "$host: its name is not a trap"
    [[ $(interfaces_of_jobs "$host") == 'GLOO=eth0 NCCL=eth0 ' ]] || fail "$host: $(interfaces_of_jobs "$host")"
  done
}

@test "another user of a host reaches neither Ray's logs nor its sockets" {
  for host in head worker-0 worker-1; do closed_to_others on_host "$host"; done
}

@test "a trivial job runs on a worker" {
  run --separate-stderr ray_here head job submit --entrypoint-resources='{"worker_node": 1}' -- hostname
  assert_status 0
  [[ $output == *$'\n'worker-[01]$'\n'* ]] || fail 'it did not run on a worker'
}

@test "a real SFT job: its driver is on a worker by node id and by address, not on the head, and 54 is content" {
  in_lab 30_prepare_data_and_model.sh >/dev/null
  in_lab 31_snapshot_verl_code.sh >/dev/null
  cat >"$LAB_DIR/sft.json" <<'JSON'
{"workload": "sft", "submission_id": "sft-by-ssh", "code_path": "common/code/verl/current", "model": "common/models/default",
  "dataset": "datasets/gsm8k_sft", "trainer_overrides": {"trainer.total_training_steps": 4, "trainer.save_freq": 2}}
JSON
  run --separate-stderr in_lab 43_submit_jobspec.sh "$LAB_DIR/sft.json" --wait --timeout 300
  assert_status 0
  assert_output sft-by-ssh
  driver=$(result sft-by-ssh driver_host)
  [[ $driver == worker-[01] ]] || fail "the driver ran on '$driver'"
  run --separate-stderr in_lab 54_verify.sh sft-by-ssh --json
  assert_status 0
  python - "$output" <<'PY'
import json, sys
found = json.loads(sys.argv[1])
checks = found["jobs"][0]["checks"]
wrong = [check for check in checks if check["verdict"] not in ("Pass", "Skipped")]
assert found["passed"] and not wrong, wrong
print([check for check in checks if check["verdict"] == "Skipped"])
PY
}

@test "51, 53 and 55 work on a job that ran by ssh" {
  run --separate-stderr in_lab 51_logs.sh sft-by-ssh
  assert_status 0
  [[ $output == *step* ]] || fail 'no log'
  run --separate-stderr in_lab 53_debug_bundle.sh sft-by-ssh
  assert_status 0
  assert_output '/private/jobs/sft-by-ssh/debug/*.tar.zst'
  on_host head tar -tf "$output" >"$LAB_DIR/bundle"
  for host in head worker-0 worker-1; do grep -q "hosts/$host/report.json" "$LAB_DIR/bundle" || fail "nothing of $host: $(<"$LAB_DIR/bundle")"; done
  run --separate-stderr in_lab 55_explain.sh sft-by-ssh
  assert_status 0
}

@test "a job is stopped from here, and nothing of it is left on its hosts" {
  mkdir "$LAB_DIR/private/user/workloads"
  cp "$PROJECT/tests/bats/toy_trainer.py" "$LAB_DIR/private/user/workloads"
  echo 'entry: {command: [python3, /private/user/workloads/toy_trainer.py, "2000", "0.3"]}' >"$LAB_DIR/private/user/workloads/toy.yaml"
  echo 'export MVP_WORKLOADS=/private/user/workloads' >>"$LAB_DIR/head/run/root/.bashrc"
  echo '{"workload": "toy", "submission_id": "stopped"}' >"$LAB_DIR/long.json"
  in_lab 43_submit_jobspec.sh "$LAB_DIR/long.json"
  wait_for 90 'the training' on_host head test -s /private/jobs/stopped/metrics.jsonl
  run --separate-stderr in_lab 52_stop.sh stopped
  assert_status 0
  [[ $(result stopped state) == STOPPED ]] || fail "it is $(result stopped state)"
  for host in head worker-0 worker-1; do
    # shellcheck disable=SC2016 # expanded on the host
    left=$(on_host "$host" bash -c 'grep -lsz "^MVP_JOB_FOLDER=/private/jobs/stopped$" /proc/[0-9]*/environ') || true
    [[ -z $left ]] || fail "left on $host: $left"
  done
}

@test "in a session on a host the same scripts need no ssh" {
  tools=$(in_lab 13_deploy_tools.sh | tail -n 1)
  here() { on_host "$1" env MVP_CLUSTER=/run/here.yaml "$tools/scripts/$2" "${@:3}"; }
  for host in head worker-0; do sed '/^ssh:/d; s/host: [^,}]*/host: nowhere.invalid/; s/ ip: [^}]*/ ip: ""/' "$MVP_CLUSTER" >"$LAB_DIR/$host/run/here.yaml"; done
  run --separate-stderr here worker-0 21_start_workers.sh --here worker-0
  assert_status 0
  assert_output 'already running'
  run --separate-stderr here head 20_start_head.sh --here head
  assert_status 0
  assert_output 'already running'
  # From the head, by the head's own ssh; the head itself is "self".
  sed 's/host: head.lab/host: self/; s/^ssh:.*/ssh: {connect_timeout_s: 3}/; s/host: the-second/host: worker-1/' "$MVP_CLUSTER" >"$LAB_DIR/head/run/here.yaml"
  run --separate-stderr here head 21_start_workers.sh
  assert_status 0
  assert_output $'already running\nalready running'
  run --separate-stderr here head 50_status.sh
  assert_status 0
  assert_output '*worker-1*'
}

@test "a host with another shell's noise is named with what it prints" {
  echo 'echo welcome' >>"$LAB_DIR/worker-1/run/root/.bashrc"
  run --separate-stderr in_lab 00_prereq_check.sh
  sed -i '$d' "$LAB_DIR/worker-1/run/root/.bashrc"
  assert_status 3
  assert_stderr_has "worker-1: its shell prints text at every command: 'welcome"
}

@test "down ends all of it: no process, no connection, no record" {
  run --separate-stderr in_lab 02_down.sh
  assert_status 0
  for host in head worker-0 worker-1; do
    left=$(on_host "$host" ps -eo args= | grep -Ei 'ray|mvp_helpers|gcs' | grep -v grep) || true
    [[ -z $left ]] || fail "left on $host: $left"
  done
  run find "$LAB_DIR/private/ray" -name node.json -o -name head.json
  assert_output ''
  run in_lab bash -c 'pgrep --ns $$ --nslist net -f "ssh: /tmp/mvp-ssh-.*[m]ux"'
  [[ $status == 1 ]] || fail 'connections are left'
}

named() { # <interface>: a cluster file that names it
  sed '/^  - {name: worker-0/s/, ip: [^}]*//' "$MVP_CLUSTER" >"$LAB_DIR/named.yaml"
  printf 'network: {interface: %s}\n' "$1" >>"$LAB_DIR/named.yaml"
  printf '%s' "$LAB_DIR/named.yaml"
}

@test "an interface that one host lacks stops 00 and 01 with that host's name" {
  on_host worker-1 bash -c 'ip link set data0 down && ip link set data0 name data1 && ip link set data1 up'
  for script in 00_prereq_check.sh 01_up.sh; do
    run --separate-stderr in_lab "$script" --cluster "$(named data0)"
    assert_status 3
    assert_output ''
    assert_stderr_has "blocked: worker-1: no network interface 'data0' (network.interface); it has data1, eth0, lo"
  done
  on_host worker-1 bash -c 'ip link set data1 down && ip link set data1 name data0 && ip link set data0 up'
}

@test "a named interface gives Ray's nodes its addresses, and jobs its name" {
  run --separate-stderr in_lab 01_up.sh --cluster "$(named data0)"
  assert_status 0
  assert_output 'http://10.78.1.1:8265 started'
  DASHBOARD_IP=10.78.1.1 run --separate-stderr ray_here head job submit --entrypoint-resources='{"worker_node": 1}' -- env
  assert_status 0
  [[ $output == *GLOO_SOCKET_IFNAME=data0* && $output == *NCCL_SOCKET_IFNAME=data0* ]] || fail 'not in the environment of a job'
  in_lab 02_down.sh --cluster "$(named data0)"
}
