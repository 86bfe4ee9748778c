# shellcheck shell=bash
# A docker daemon of the test's own, the lab's image, and a person who is not root: for setup_file.

export MVP_IMAGE=mvp/lab:1 MVP_SHM_SIZE=2gb SUDO_USER=ada SUDO_UID=12345 SUDO_GID=12345 # as sudo says who started us
[[ -z ${LAB_DIR:-} ]] || export MVP_SHARED_DIR=$LAB_DIR/ada/private

lacks_docker() {
  local why
  why=$(lacks_root && lacks_namespaces && lacks_commands docker dockerd docker-compose runc iptables mmdebstrap setpriv)
  [[ -n $why ]] || DOCKER_CONFIG=$PROJECT/.mvp/lab/docker docker compose version &>/dev/null || why='docker compose v2 is not installed'
  [[ -n $why || -d $PROJECT/.venv/lib/python3.11 ]] || why='.venv is not of Python 3.11, which the image has'
  printf '%s' "${why%%$'\n'*}"
}

make_docker_lab() { # sets DOCKER_HOST, and writes site.yaml, a compose file with what the image lacks
  LAB_DIR=$(mktemp -d "${TMPDIR:-/tmp}/mvp-lab.XXXXXX")
  chmod 755 "$LAB_DIR"
  install -d -o 12345 -g 12345 "$LAB_DIR/ada"
  export LAB_DIR MVP_SHARED_DIR=$LAB_DIR/ada/private DOCKER_HOST=unix://$LAB_DIR/docker/docker.sock DOCKER_CONFIG=$PROJECT/.mvp/lab/docker
  "$PROJECT/tests/lab/dockerd.sh" up "$LAB_DIR/docker" 2>"$LAB_DIR/why" || skip "dockerd does not start here: $(tail -n 1 "$LAB_DIR/why")"
  "$PROJECT/tests/lab/docker-image.sh" mvp/lab:1
  # The image has Debian's Python; Ray, torch and verl are those of this project's own environment.
  cat >"$LAB_DIR/site.yaml" <<YAML
x-site: &site
  volumes: ["$PROJECT/.venv/lib/python3.11/site-packages:/usr/local/lib/python3.11/dist-packages:ro"]
  environment: {MVP_WORKLOADS: /workspace/mvp/tests/lab/workloads}
services: {mvp-ray-head: *site, mvp-ray-worker-0: *site, mvp-ray-worker-1: *site}
YAML
}

end_docker_lab() { # for teardown_file
  [[ -n ${LAB_DIR:-} ]] || return 0
  "$PROJECT/tests/lab/dockerd.sh" down "$LAB_DIR/docker"
  rm -rf "$LAB_DIR"
}
