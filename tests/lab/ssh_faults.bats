#!/usr/bin/env bats
# What breaks between hosts: each is named before anything starts, or its job ends with the truth and the cluster comes back. The order
# counts: there is one cluster, which the third test begins to start.

load lab
load ssh_hosts

setup_file() {
  lab_needs namespaces sshd
  make_ssh_lab sshf 10.77.2
  mkdir -p "$LAB_DIR/private/workloads"
  cp "$PROJECT/tests/bats/toy_trainer.py" "$LAB_DIR/private/workloads"
  toy() { printf 'entry: {command: [python3, /private/workloads/toy_trainer.py, %s]}\n' "$2" >"$LAB_DIR/private/workloads/$1.yaml"; }
  toy short '"2", "0.1"'
  toy long '"600", "0.3"'
  echo 'export MVP_WORKLOADS=/private/workloads' >>"$LAB_DIR/head/run/root/.bashrc"
}

teardown_file() {
  end_ssh_lab
}

submit() { # <id> <workload> [<43's options>...]
  printf '{"workload": "%s", "submission_id": "%s"}' "$2" "$1" >"$LAB_DIR/$1.json"
  in_lab 43_submit_jobspec.sh "$LAB_DIR/$1.json" "${@:3}"
}

result() { # <id> <field>
  python -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$LAB_DIR/private/jobs/$1/result.json" "$2"
}

trains() { # <id>
  [[ $(result "$1" steps_done) -ge 2 ]]
}

settled_as() { # <id> <state>: as the status screen says, which asks Ray about jobs that have not ended
  in_lab 50_status.sh --json >/dev/null
  [[ $(result "$1" state) == "$2" ]]
}

is_up() { in_lab 01_up.sh --check; }

nothing_runs() {
  local host
  for host in head worker-0 worker-1; do ! on_host "$host" pgrep -f 'raylet|mvp_helpers' || return 1; done
}

@test "a host without the shared mount is named by 00 before anything starts" {
  on_host worker-1 mount -t tmpfs tmpfs /private
  run --separate-stderr in_lab 00_prereq_check.sh
  on_host worker-1 umount /private
  assert_status 3
  assert_stderr_has 'worker-1 does not see /private/common/tools/mvp/'
  assert_stderr_has 'mount the shared root /private on worker-1'
  [[ $stderr != *'worker-0'* ]] || fail 'worker-0 is named too'
}

@test "a clock that differs is found by 00" {
  lacks=$(lacks_commands faketime)
  [[ -z $lacks ]] || skip "$lacks"
  cp "$LAB_DIR/worker-1/run/root/.bashrc" "$LAB_DIR/bashrc"
  echo "export LD_PRELOAD=$(echo /usr/lib/*/faketime/libfaketime.so.1) FAKETIME=+300s" >>"$LAB_DIR/worker-1/run/root/.bashrc"
  run --separate-stderr in_lab 00_prereq_check.sh
  cp "$LAB_DIR/bashrc" "$LAB_DIR/worker-1/run/root/.bashrc"
  assert_status 3
  [[ $output == *'✗ Blocked  clocks agree'*'within 30'[0-9]' s'* || $output == *'✗ Blocked  clocks agree'*'within 299 s'* ]] || fail 'the clocks are not told'
}

@test "another Ray on one host is refused with both versions, by 00 and by up" {
  metadata=$(echo "$PROJECT"/.venv/lib/python3*/site-packages/ray-*.dist-info/METADATA)
  ours=$(sed -n 's/^Version: //p' "$metadata")
  sed 's/^Version: .*/Version: 2.9.0/' "$metadata" >"$LAB_DIR/worker-1/run/METADATA"
  on_host worker-1 mount --bind /run/METADATA "$metadata"
  run --separate-stderr in_lab 00_prereq_check.sh
  assert_status 3
  [[ $output == *"✗ Blocked  same Ray on all hosts"*"$ours on head, worker-0; 2.9.0 on worker-1"* ]] || fail '00 does not tell both'
  run --separate-stderr in_lab 01_up.sh
  assert_status 3
  assert_stderr_has "worker-1 has Ray 2.9.0, the head has Ray $ours: they must be the same on all hosts of a cluster"
  on_host worker-1 umount "$metadata"
  run --separate-stderr in_lab 01_up.sh
  assert_status 0
}

@test "the driver's host is cut off: the job fails with the reason, the watchdog joins the host again, the next job works" {
  run --separate-stderr in_lab 21_start_workers.sh --watchdog
  assert_status 0
  assert_output $'already running\nalready running'
  submit cut long >/dev/null
  wait_for 60 'the training' trains cut
  driver=$(result cut driver_host)
  "$NETLAB" cut "$driver"
  wait_for 60 'the end of the job' settled_as cut FAILED
  run --separate-stderr in_lab 55_explain.sh cut
  "$NETLAB" heal "$driver"
  assert_status 0
  [[ $output == *'node'* ]] || fail 'the node is not named'
  wait_for 120 "$driver to join" is_up
  grep -q 'starting it again' "$LAB_DIR/private/ray/sshf/$driver/watchdog.log" || fail 'the watchdog did not do it'
  submit after-cut short --wait --timeout 300
}

head_is_gone() { ! on_host head pgrep -x gcs_server; }

@test "the head is killed and comes back at another address: the watchdogs find it, ended jobs are as they were" {
  # shellcheck disable=SC2046 # pids; some of them may end before their turn
  on_host head kill -KILL $(on_host head pgrep -f 'raylet|gcs_server|ray.scripts|dashboard') || true
  wait_for 10 'the head to be gone' head_is_gone
  run --separate-stderr in_lab 54_verify.sh after-cut --json
  [[ $output == *'"after-cut"'* ]] || fail 'the ended job cannot be read'
  on_host head ip addr add 10.77.2.101/24 dev eth0
  sed -i 's/role: head,/role: head, ip: 10.77.2.101,/' "$MVP_CLUSTER"
  run --separate-stderr in_lab 20_start_head.sh
  assert_status 0
  assert_output repaired
  wait_for 120 'the workers to join' is_up
  submit after-head short --wait --timeout 300
}

@test "down ends the watchdogs first" {
  run --separate-stderr in_lab 02_down.sh
  assert_status 0
  nothing_runs
  for host in worker-0 worker-1; do
    [[ $(tail -n 1 "$LAB_DIR/private/ray/sshf/$host/watchdog.log") == *'interrupted: ending' ]] || fail "$(<"$LAB_DIR/private/ray/sshf/$host/watchdog.log")"
  done
}

@test "three dead hosts of many are named, and keep nobody waiting for longer than the connect timeout" {
  many=$LAB_DIR/many.yaml
  sed '/name: worker/d' "$MVP_CLUSTER" >"$many"
  for at in {0..9}; do sed -i "/^hosts:/a\\  - {name: w$at, role: worker, host: worker-0.lab}" "$many"; done
  for at in 2 5 7; do sed -i "s/name: w$at, role: worker, host: worker-0.lab/name: w$at, role: worker, host: 10.77.2.20$at/" "$many"; done
  sed -i '/role: head/d; /^hosts:/a\  - {name: head, role: head, host: head.lab, ip: 10.77.2.101}' "$many"
  printf 'Host worker-0.lab\n  HostName 10.77.2.2\n' | cat - "$LAB_DIR/ssh_config" >"$LAB_DIR/config" && mv "$LAB_DIR/config" "$LAB_DIR/ssh_config"
  MVP_CLUSTER=$many run --separate-stderr in_lab 20_start_head.sh
  assert_status 3
  for at in 2 5 7; do assert_stderr_has "blocked: w$at: no connection (ssh "; done
  [[ $stderr == *'blocked: check host: '* ]] || fail 'no summary'
  told=${stderr##*blocked: check host: }
  [[ $(tr ' ' '\n' <<<"$told" | sort | xargs) == 'w2 w5 w7' ]] || fail "named: $told"
}
