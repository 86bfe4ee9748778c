#!/usr/bin/env bats
# long: The three commands of docs/docker.md, from a clone to two verified PPO jobs in containers with two networks.

load lab
load docker_lab
load first_hour

setup_file() {
  lab_needs docker
  make_docker_lab
  make_clone
  # Where containers reach the daemon's own network.
  serve 10.79.255.1 nsenter --net="$("$PROJECT/tests/lab/dockerd.sh" network "$LAB_DIR/docker")"
  # The prefix makes the interface's name certain: docker connects networks in any order.
  cat >"$LAB_DIR/data.yaml" <<'YAML'
x-both: &both {networks: {mvp: {}, data: {}}}
services: {mvp-ray-head: *both, mvp-ray-worker-0: *both, mvp-ray-worker-1: *both}
networks: {data: {driver_opts: {com.docker.network.container_iface_prefix: data}, ipam: {config: [{subnet: 10.81.5.0/24}]}}}
YAML
  shrink dev "s|docker-compose.yaml\]|docker-compose.yaml, docker-compose.cpu.yaml, $LAB_DIR/site.yaml, $LAB_DIR/data.yaml]|"
  echo 'network: {interface: data0}' >>"$CLONE/templates/ray/dev.yaml"
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
  assert_nodes_in "$MVP_SHARED_DIR" 10.81.5.
  [[ -z $(docker ps -aq) ]] || fail "left: $(docker ps -a)"
}
