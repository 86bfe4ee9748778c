#!/usr/bin/env bats
# What the docker driver says when docker cannot: with a docker that only pretends, for what a test machine cannot produce.
# The real one is in tests/lab/docker.bats.

load helpers

setup() {
  cd "$BATS_TEST_TMPDIR" || return
  mkdir bin shared
  export MVP_CLUSTER=dev MVP_SHARED_DIR=$PWD/shared
  # All commands of this machine, but no docker.
  find /usr/bin /bin "$PROJECT/.venv/bin" -maxdepth 1 ! -type d ! -name 'docker*' ! -name nvidia-smi -exec ln -sf -t bin {} +
  PATH=$PROJECT/scripts:$PWD/bin
}

teardown() {
  [[ ! -e unexpected ]] || fail "docker was asked: $(<unexpected)"
}

docker_has() { # <pattern of its arguments> <exit code> <what it prints>: in addition to what it had
  [[ -e bin/docker ]] || printf '#!/bin/bash\ncase $* in\n"compose version") exit 0 ;;\n"ps "*) exit 0 ;;\n' >bin/docker
  chmod +x bin/docker
  printf '%s) printf "%%s\\n" %q; exit %s ;;\n' "$1" "$3" "$2" >>bin/docker
}

up_says() { # runs 01_up.sh with the docker that was described
  printf '*) echo "$*" >>%q; exit 99 ;;\nesac\n' "$PWD/unexpected" >>bin/docker
  run --separate-stderr 01_up.sh
  assert_status 3
  assert_output ''
  [[ $(wc -l <<<"$stderr") == 2 && $stderr == blocked:*$'\n  try: '* ]] || fail 'not one message with what to try'
}

starts_with() { # <exit code of compose up> <what it prints>
  docker_has 'compose*config' 0 'image: some/image:1'
  docker_has '"image inspect some/image:1"' 0 '[]'
  docker_has 'compose*" up -d --no-recreate"' "$1" "$2"
  docker_has 'compose*" down -t 3"' 0 ''
}

@test "no docker on this machine" {
  run --separate-stderr 01_up.sh
  assert_status 3
  assert_stderr_has 'blocked: docker is not installed on this machine'
  assert_stderr_has 'try: '
}

@test "no compose, neither v2 nor 1.29" {
  docker_has '"nothing"' 0 ''
  sed -i 's/^"compose version") exit 0/"compose version") exit 1/' bin/docker
  up_says
  assert_stderr_has 'docker compose is not installed'
}

@test "compose 1.29 is used where v2 is not there" {
  starts_with 1 'whatever'
  sed -i 's/^"compose version") exit 0/"compose version") exit 1/' bin/docker
  printf '#!/bin/bash\necho "$*" >>%q\n' "$PWD/compose.calls" >bin/docker-compose
  chmod +x bin/docker-compose
  up_says
  assert_stderr_has 'the container of mvp-ray-head does not stay up'
  [[ $(<compose.calls) == *" config"$'\n'*" up -d --no-recreate" ]] || fail "called: $(<compose.calls)"
}

@test "a socket that newer dockers may not open either" {
  docker_has '"nothing"' 0 ''
  sed -i 's/^"ps "\*) exit 0/"ps "*) echo "permission denied while trying to connect to the docker API at unix:\/\/\/var\/run\/docker.sock"; exit 1/' bin/docker
  up_says
  assert_stderr_has "may not use docker's socket"
}

@test "fewer GPUs than asked for: the ids and the variables are named" {
  starts_with 1 'nvidia-container-cli: device error: 7: unknown device: unknown'
  MVP_GPUS_1=6,7 up_says
  assert_stderr_has 'MVP_GPUS_0=0,1,2,3 MVP_GPUS_1=6,7'
  assert_stderr_has 'nvidia-smi -L'
}

@test "the workers share the GPUs of the machine, however many there are" {
  export NVIDIA_SMI=$BATS_TEST_DIRNAME/../doubles/recorded/nvidia-smi-h200 NVIDIA_SMI_UNEXPECTED=$PWD/unexpected
  ln -s "$BATS_TEST_DIRNAME/../doubles/bin/nvidia-smi" bin
  starts_with 1 'Error response from daemon: could not select device: unknown device'
  up_says
  assert_stderr_has 'MVP_GPUS_0=0,1 MVP_GPUS_1=2,3'
}

@test "the same from a docker that knows GPUs by CDI" {
  starts_with 1 'Error response from daemon: CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=7'
  up_says
  assert_stderr_has 'this machine lacks a GPU that a worker asks for'
}

@test "a driver that does not work" {
  starts_with 1 'nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown'
  up_says
  assert_stderr_has 'the NVIDIA driver does not work for containers'
}

@test "a port that a compose file of the user's own publishes and another program holds" {
  starts_with 1 'Error response from daemon: driver failed programming external connectivity on endpoint x: Bind for 127.0.0.1:8265 failed: port is already allocated'
  up_says
  assert_stderr_has 'a port that the compose files publish is taken'
  assert_stderr_has '127.0.0.1:8265'
}

@test "a dry run shows what would be done on which host, and does none of it" {
  docker_has '"nothing"' 0 ''
  printf '*) echo "$*" >>%q; exit 99 ;;\nesac\n' "$PWD/unexpected" >>bin/docker
  run --separate-stderr 01_up.sh --dry-run
  assert_status 0
  assert_output "would run: hosts_up*start-node mvp-ray-head*start-node mvp-ray-worker-0*start-node mvp-ray-worker-1*"
}
