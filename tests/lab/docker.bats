#!/usr/bin/env bats
# A docker daemon of the test's own, this project's compose files, and a person who is not root. The order counts.

load lab
load conformance
load docker_lab

setup_file() {
  lab_needs docker
  make_docker_lab
  export TEST_CLUSTER=$LAB_DIR/docked.yaml
  sed -e 's|^name: .*|name: docked|' -e "s|docker-compose.cpu.yaml\]|docker-compose.cpu.yaml, $LAB_DIR/site.yaml]|" \
    "$PROJECT/templates/ray/dev-cpu.yaml" >"$TEST_CLUSTER"
}

teardown_file() {
  end_docker_lab
  rm -rf "$PROJECT/.mvp/docked"
}

only_compose_1() { # in BATS_TEST_TMPDIR/bin a docker without compose v2
  mkdir -p "$BATS_TEST_TMPDIR/bin"
  printf '#!/bin/sh\n[ "$1" != compose ] || exit 1\nexec %q "$@"\n' "$(command -v docker)" >"$BATS_TEST_TMPDIR/bin/docker"
  chmod +x "$BATS_TEST_TMPDIR/bin/docker"
}

variant() { # <compose file after docker-compose.cpu.yaml, or nothing> [<sed program>]: MVP_CLUSTER of this test
  sed -e 's|^name: .*|name: docked|' -e "s|docker-compose.cpu.yaml\]|docker-compose.cpu.yaml${1:+, $1}]|" -e "${2:-}" \
    "$PROJECT/templates/ray/dev-cpu.yaml" >"$LAB_DIR/variant.yaml"
  export MVP_CLUSTER=$LAB_DIR/variant.yaml
}

assert_one_message() { # <text>: and what to try
  assert_status 3
  assert_output ''
  assert_stderr_has "blocked: $1"
  # shellcheck disable=SC2031 # set by run
  [[ $(wc -l <<<"$stderr") == 2 && $stderr == *$'\n  try: '* ]] || fail 'not one message with what to try'
}

submit() { # <JobSpec as JSON>: to its end; its id is in $output
  printf '%s\n' "$1" >"$BATS_TEST_TMPDIR/spec.json"
  run --separate-stderr 43_submit_jobspec.sh "$BATS_TEST_TMPDIR/spec.json" --wait
}

folder() { # <id>: of a job, as this machine sees it
  printf '%s/jobs/%s' "$MVP_SHARED_DIR" "$1"
}

field() { # <file> <Python expression over the JSON in it, "it">
  python -c 'import json, sys; it = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"
}

@test "a daemon that does not answer, or refuses us, is told apart" {
  DOCKER_HOST=unix://$LAB_DIR/nothing.sock run --separate-stderr 01_up.sh
  assert_status 3
  assert_stderr_has "blocked: no docker daemon answers at unix://$LAB_DIR/nothing.sock"
  mkdir "$BATS_TEST_TMPDIR/bin"
  printf '#!/bin/sh\nexec setpriv --reuid 12345 --clear-groups %q "$@"\n' "$(command -v docker)" >"$BATS_TEST_TMPDIR/bin/docker"
  chmod +x "$BATS_TEST_TMPDIR/bin/docker"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH run --separate-stderr 01_up.sh
  assert_status 3
  assert_stderr_has "may not use docker's socket"
}

@test "without NVIDIA's runtime the GPU cluster is blocked, and says what to do" {
  run --separate-stderr 01_up.sh --cluster dev
  assert_status 3
  assert_stderr_has "blocked: docker has no GPU runtime 'nvidia'"
  assert_stderr_has '--cluster dev-cpu'
  only_compose_1
  PATH=$BATS_TEST_TMPDIR/bin:$PATH run --separate-stderr 01_up.sh --cluster dev
  assert_status 3
  assert_stderr_has "blocked: docker has no GPU runtime 'nvidia'"
  [[ -z $(docker ps -aq) ]] || fail "left: $(docker ps -a)"
}

@test "with the runtime, compose gives each worker its GPUs and the head none" {
  # A stand-in for NVIDIA's: no GPU appears, but docker starts the production file as it is.
  printf '{"runtimes": {"nvidia": {"path": "%s"}}}\n' "$LAB_DIR/docker/bin/runc" >"$LAB_DIR/docker/daemon.json"
  kill -HUP "$(<"$LAB_DIR/docker/pid")"
  wait_for 20 "docker to know the runtime" grep -q nvidia <(docker info)
  MVP_CLUSTER=dev MVP_GPUS_1=6,7 run --separate-stderr verbs hosts_up
  assert_status 0
  docker inspect --format '{{.HostConfig.Runtime}} {{range .Config.Env}}{{println .}}{{end}}' mvp11-ray-{head,worker-0,worker-1} |
    grep -oE '^(runc|nvidia) |NVIDIA_VISIBLE_DEVICES=.*' >"$BATS_TEST_TMPDIR/gpus"
  run diff "$BATS_TEST_TMPDIR/gpus" - <<<$'runc \nNVIDIA_VISIBLE_DEVICES=void
nvidia \nNVIDIA_VISIBLE_DEVICES=0,1,2,3\nnvidia \nNVIDIA_VISIBLE_DEVICES=6,7'
  assert_status 0
  MVP_CLUSTER=dev run --separate-stderr verbs hosts_down
  assert_status 0
}

@test "an image that is nowhere is named" {
  MVP_IMAGE=mvp/nowhere:7 run --separate-stderr 01_up.sh
  assert_status 3
  assert_stderr_has 'blocked: image mvp/nowhere:7 is not on this machine and cannot be pulled'
  [[ -z $(docker ps -aq) ]] || fail "left: $(docker ps -a)"
}

@test "a shared folder that the person cannot write is named" {
  MVP_SHARED_DIR=/proc/1/fd run --separate-stderr 01_up.sh
  assert_status 3
  assert_stderr_has 'blocked: ada cannot write the shared folder /proc/1/fd'
}

@test "a container of somebody else's that has our name is named" {
  docker create --name mvp11-ray-worker-1 mvp/lab:1 sleep 600 >/dev/null
  run --separate-stderr 01_up.sh
  docker rm mvp11-ray-worker-1 >/dev/null
  assert_status 3
  assert_stderr_has "blocked: a container that is not this cluster's has the name mvp11-ray-worker-1"
  [[ -z $(docker ps -aq) ]] || fail "left: $(docker ps -a)"
}

@test "version 1 that still runs blocks; 03 removes it and nothing else" {
  docker run -d --name mvp-ray-head mvp/lab:1 sleep 600 >/dev/null
  docker run -d --name mvp-ray-worker-1 mvp/lab:1 sleep 600 >/dev/null
  docker create --name mvp-ray-headlight mvp/lab:1 true >/dev/null
  run --separate-stderr 01_up.sh
  assert_status 3
  assert_stderr_has 'containers of version 1 run: '
  assert_stderr_has './scripts/03_cleanup_v1_legacy.sh'
  run --separate-stderr 03_cleanup_v1_legacy.sh
  assert_status 0
  [[ $(docker ps -a --format '{{.Names}}') == mvp-ray-headlight ]] || fail "left: $(docker ps -a)"
  docker rm mvp-ray-headlight >/dev/null
}

made() { # what compose made, in a few words
  docker inspect --format \
    '{{.Name}} {{.Config.Hostname}} {{.Config.User}} {{.HostConfig.Init}} {{.HostConfig.ShmSize}} {{.HostConfig.RestartPolicy.Name}}' \
    mvp11-ray-{head,worker-0,worker-1}
}

@test "compose 1.29 makes the containers too" {
  only_compose_1
  PATH=$BATS_TEST_TMPDIR/bin:$PATH run --separate-stderr verbs hosts_up
  assert_status 0
  made >"$LAB_DIR/made"
}

host_goes_down() { docker stop -t 0 "mvp11-${1#mvp-}"; }
host_comes_back() { docker start "mvp11-${1#mvp-}"; }
conforms mvp-ray-head mvp-ray-worker-0

@test "a reader that goes away ends what writes to it" {
  verbs host_exec mvp-ray-worker-0 -- seq 100000000 | head -1
  run docker top mvp11-ray-worker-0 -eo pid,args
  [[ $output != *'seq 100000000'* ]] || fail 'it goes on'
}

@test "compose 1.29 removes them" {
  only_compose_1
  PATH=$BATS_TEST_TMPDIR/bin:$PATH run --separate-stderr 02_down.sh
  assert_status 0
  [[ -z $(docker ps -aq)$(docker network ls -q --filter name=mvp11) ]] || fail 'something is left'
}

@test "the end-to-end procedure runs in a container: the same paths, its own Ray, its verdict" {
  local fixtures=$LAB_DIR/e2e
  mkdir "$fixtures" && make_e2e_fixtures "$fixtures"
  # shellcheck source=/dev/null
  source "$fixtures/environment"
  run --separate-stderr 60_e2e_verl.sh --description "$fixtures/verl-no-gpu.yaml" --level 0 --runs-dir "$fixtures/runs" \
    --via docker --image mvp/lab:1 --launcher-option=-v \
    --launcher-option="$PROJECT/.venv/lib/python3.11/site-packages:/usr/local/lib/python3.11/dist-packages:ro"
  assert_status 0
  assert_output "Result: Pass - Level 0*- Container image, as given: mvp/lab:1*"
  [[ -s $(echo "$fixtures"/runs/*/steps/level-0-smoke/try-1/wrapper.log) ]] || fail 'no log outside the container'
}

@test "an image without the interpreter, the helper's packages or Ray is blocked, and a message says what to add" {
  variant '' 's|^python: .*|python: python9|'
  run --separate-stderr 01_up.sh
  assert_one_message 'image mvp/lab:1 of mvp-ray-head lacks bash, or the interpreter python9'
  [[ -z $(docker ps -aq) ]] || fail "left: $(docker ps -a)"
  variant ''
  run --separate-stderr 01_up.sh
  assert_status 3
  assert_stderr_has 'blocked: mvp-ray-worker-0: /usr/bin/python3 lacks click, msgspec, PyYAML, which the helper needs'
  assert_stderr_has 'in its image: /usr/bin/python3 -m pip install click=='
  run --separate-stderr 00_prereq_check.sh
  assert_status 3
  assert_stderr_has 'mvp-ray-worker-1: /usr/bin/python3 lacks click, msgspec, PyYAML'
  run --separate-stderr 02_down.sh # which cannot ask them for waiting attempts, and removes them
  assert_status 3
  assert_stderr_has "cluster 'docked': down after "
  assert_stderr_has 'waiting attempts of retried jobs may go on'
  [[ -z $(docker ps -aq) ]] || fail "left: $(docker ps -a)"
  # All that the helper needs, but neither Ray nor verl nor zstd.
  mkdir "$LAB_DIR/packages"
  cp -r "$PROJECT"/.venv/lib/python3.11/site-packages/{click,msgspec,yaml} "$LAB_DIR/packages"
  sed "s|$PROJECT/.venv/lib/python3.11/site-packages:|$LAB_DIR/packages:|" "$LAB_DIR/site.yaml" >"$LAB_DIR/bare.yaml"
  variant "$LAB_DIR/bare.yaml"
  run --separate-stderr 01_up.sh
  assert_one_message 'mvp-ray-head: Ray is not installed for /usr/bin/python3'
  assert_stderr_has 'MVP_IMAGE=<an image'
  run --separate-stderr 31_snapshot_verl_code.sh
  assert_one_message 'verl is not installed for /usr/bin/python3'
  run --separate-stderr 00_prereq_check.sh
  assert_status 3
  assert_output '*– Skipped  mvp-ray-head: packages of the helper *without cryptography jobs are not sealed; without backports.zstd 53 makes .tar.gz archives*/usr/bin/python3 -m pip install cryptography==* backports.zstd==*'
  assert_output '*✗ Blocked  mvp-ray-head: Ray >= 2.41 *not installed*→ MVP_IMAGE=<an image*✗ Blocked  mvp-ray-head: verl code *→ MVP_IMAGE=<an image*'
  02_down.sh
}

@test "up starts containers and Ray in them; the shared folder is the person's" {
  run --separate-stderr 01_up.sh
  assert_status 0
  assert_output 'http://10.79.*:8265 started'
  run diff "$LAB_DIR/made" <(made)
  assert_status 0
  [[ $(docker ps --format '{{.Ports}}') != *'->'* ]] || fail 'a port is published'
  [[ -z $(find "$MVP_SHARED_DIR" ! -user 12345) ]] || fail "not ada's: $(find "$MVP_SHARED_DIR" ! -user 12345)"
  run --separate-stderr 01_up.sh
  assert_output '* already up'
}

@test "compose by hand means the same containers" {
  [[ $(cd "$PROJECT" && docker compose ps --services | sort | xargs) == 'mvp-ray-head mvp-ray-worker-0 mvp-ray-worker-1' ]] || fail 'another project'
}

@test "another user in a container reaches neither Ray's logs nor its sockets" {
  for host in head worker-0 worker-1; do closed_to_others docker exec -i -u 0 "mvp11-ray-$host"; done
}

@test "any command of Ray runs on the head" {
  run --separate-stderr ray.sh status
  assert_status 0
  assert_output '*/200.0 worker_node*'
}

@test "another image than the one that runs is refused, not taken silently" {
  MVP_IMAGE=mvp/lab:2 run --separate-stderr 01_up.sh
  assert_status 3
  assert_stderr_has 'runs image mvp/lab:1, not MVP_IMAGE=mvp/lab:2'
}

@test "every check of 00 holds" {
  run --separate-stderr 00_prereq_check.sh
  assert_status 0
}

@test "a trivial job runs on a worker" {
  submit '{"workload": "trivial"}'
  assert_status 0
  [[ $(<"$(folder "$output")/logs/driver.log") == *'ran on 10.79.'* ]] || fail "$(<"$(folder "$output")/logs/driver.log")"
}

@test "a JobSpec as the source plan has it, by its path in the containers: no id, the head's own address, RAY_ADDRESS=auto" {
  setpriv --reuid 12345 --regid 12345 --clear-groups tee "$MVP_SHARED_DIR/user/plan.json" >/dev/null <<'JSON'
{"workload": "trivial", "submission_id": "", "ray": {"address": "http://127.0.0.1:8265"}, "env_vars": {"RAY_ADDRESS": "auto"}}
JSON
  run --separate-stderr 43_submit_jobspec.sh /private/user/plan.json --wait
  assert_status 0
  [[ $output == trivial-* ]] || fail 'no id'
  cmp "$MVP_SHARED_DIR/user/plan.json" "$(folder "$output")/config/job_spec.json"
  run --separate-stderr 43_submit_jobspec.sh /private/user/none.json
  assert_status 2
  assert_stderr_has 'no such file: /private/user/none.json'
}

@test "a real verl SFT job: driver on a worker by both its proofs, evidence complete, all checks pass, image known" {
  30_prepare_data_and_model.sh >/dev/null 2>&1
  31_snapshot_verl_code.sh >/dev/null 2>&1
  run --separate-stderr 43_submit_jobspec.sh /workspace/mvp/templates/ppo.json --dry-run
  assert_status 0
  submit '{"workload": "sft", "code_path": "common/code/verl/current", "model": "common/models/default", "dataset": "datasets/gsm8k_sft",
    "trainer_overrides": {"trainer.total_epochs": 1, "trainer.total_training_steps": 2, "trainer.save_freq": 1}}'
  assert_status 0
  printf '%s\n' "$output" >"$LAB_DIR/sft"
  run --separate-stderr 54_verify.sh "$(<"$LAB_DIR/sft")"
  assert_status 0
  assert_output '*driver_info.node_ip_address 10.79.*1 job: 17 Pass, 0 Fail, 1 Skipped*'
  folder=$(folder "$(<"$LAB_DIR/sft")")
  head=$(docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' mvp11-ray-head)
  driver=$(field "$folder/result.json" 'it["driver_node_ip"]')
  [[ $driver == 10.79.* && $driver != "$head" ]] || fail "driver on $driver, head is $head"
  [[ $(field "$folder/config/provenance.json" 'it["image"], it["image_id"]') == "('mvp/lab:1', '$(docker inspect -f '{{.Image}}' mvp11-ray-head)')" ]] ||
    fail "$(<"$folder/config/provenance.json")"
  [[ $(field "$folder/config/provenance.json" 'it["submitted_from"]["host"], it["submitted_from"]["user"]') == "('mvp-ray-head', 'ada')" ]] ||
    fail "$(<"$folder/config/provenance.json")"
  [[ -z $(find "$MVP_SHARED_DIR" ! -user 12345) ]] || fail "not ada's: $(find "$MVP_SHARED_DIR" ! -user 12345)"
}

started_again() { # <container> <when it was started before>
  [[ $(docker inspect --format '{{.State.StartedAt}}' "$1") != "$2" ]] && docker exec "$1" true
}

@test "containers are healthy; one whose processes end comes back by itself" {
  [[ $(docker ps --filter health=healthy --format '{{.Names}}' | wc -l) == 3 ]] || fail "$(docker ps)"
  before=$(docker inspect --format '{{.State.StartedAt}}' mvp11-ray-worker-1)
  docker exec mvp11-ray-worker-1 kill 1 || true # it may end with the container (137)
  wait_for 30 'the container to be back' started_again mvp11-ray-worker-1 "$before"
}

@test "a killed head is named with the way out; after 01 its jobs are readable and the next one runs" {
  docker kill mvp11-ray-head >/dev/null
  run --separate-stderr 50_status.sh
  assert_status 3
  assert_stderr_has 'blocked: mvp-ray-head: its container does not run'
  assert_stderr_has './scripts/01_up.sh'
  run --separate-stderr 01_up.sh
  assert_status 0
  assert_output '* repaired'
  run --separate-stderr 50_status.sh
  assert_status 0
  assert_output "*$(<"$LAB_DIR/sft")*SUCCEEDED*"
  run --separate-stderr 54_verify.sh "$(<"$LAB_DIR/sft")"
  assert_status 0
  submit '{"workload": "trivial"}'
  assert_status 0
}

@test "down leaves the data and nothing else; again is fine; up --check says down" {
  run --separate-stderr 02_down.sh
  assert_status 0
  [[ -z $(docker ps -aq)$(docker network ls -q --filter name=mvp11) ]] || fail 'something is left'
  [[ -s $(folder "$(<"$LAB_DIR/sft")")/result.json ]] || fail 'the job is gone'
  run --separate-stderr 02_down.sh
  assert_status 0
  run --separate-stderr 01_up.sh --check
  assert_status 1
  assert_output down
}
