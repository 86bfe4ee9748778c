#!/usr/bin/env bats
# long: The three commands of docs/docker.md, from a clone to two verified PPO jobs in containers.

load lab
load docker_lab
load first_hour

setup_file() {
  lab_needs docker
  make_docker_lab
  make_clone
  # Where containers reach the daemon's own network.
  serve 10.79.255.1 nsenter --net="$("$PROJECT/tests/lab/dockerd.sh" network "$LAB_DIR/docker")"
  # shellcheck disable=SC2016
  shrink dev "s|docker-compose.yaml\]|docker-compose.yaml, docker-compose.cpu.yaml, $LAB_DIR/site.yaml]|"
  chown -R 12345:12345 "$CLONE"
}

teardown_file() {
  [[ -n ${LAB_DIR:-} ]] || return 0
  end_servers
  end_docker_lab
}

# bats test_tags=nightly
@test "the three commands of docs/docker.md, typed as written, end in two verified PPO jobs" {
  type_first_commands docs/docker.md
  assert_first_hour "$MVP_SHARED_DIR"
  [[ -z $(docker ps -aq) ]] || fail "left: $(docker ps -a)"
}
