# shellcheck shell=bash
# Hosts reached by ssh, and a cluster file for them: for setup_file.

make_ssh_lab() { # <prefix> <subnet>: sets MVP_CLUSTER; worker-1 is reached by an alias that jumps over the head
  LAB_DIR=$(mktemp -d "${TMPDIR:-/tmp}/mvp-lab.XXXXXX")
  export LAB_DIR PATH=$PATH:/usr/sbin:/sbin
  ssh-keygen -q -t ed25519 -N '' -f "$LAB_DIR/id"
  make_lab "$1" "$2" "$PROJECT/tests/lab/ssh_host.sh"
  cat >"$LAB_DIR/ssh_config" <<CONF
Host the-second
  HostName $2.3
  ProxyJump head.lab
Host head.lab
  HostName $2.1
Host *
  User root
  IdentityFile $LAB_DIR/id
  IdentitiesOnly yes
  StrictHostKeyChecking accept-new
  UserKnownHostsFile $LAB_DIR/known_hosts
CONF
  export TEST_CLUSTER=$LAB_DIR/$1.yaml MVP_CLUSTER=$LAB_DIR/$1.yaml
  cat >"$MVP_CLUSTER" <<YAML
name: $1
host_driver: ssh
shared_root: /private
python: $PROJECT/.venv/bin/python
device: cpu
hosts:
  - {name: head, role: head, host: head.lab}
  - {name: worker-0, role: worker, host: $2.2, user: root, port: 22, ip: $2.2}
  - {name: worker-1, role: worker, host: the-second}
ssh: {config: $LAB_DIR/ssh_config, connect_timeout_s: 3}
worker: {num_cpus: 8, resources: {worker_node: 100}}
ray:
  object_store_mb: 100
  system_env:
    RAY_health_check_initial_delay_ms: "1000"
    RAY_health_check_period_ms: "500"
    RAY_health_check_timeout_ms: "1000"
    RAY_health_check_failure_threshold: "3"
YAML
}

end_ssh_lab() { # for teardown_file
  [[ -z ${MVP_CLUSTER:-} ]] || in_lab "$PROJECT/scripts/02_down.sh" &>/dev/null || true
  rm -rf "$PROJECT/.mvp/$LAB_PREFIX"
  end_lab
}
