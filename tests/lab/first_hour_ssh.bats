#!/usr/bin/env bats
# long: The three commands of docs/ssh.md, from a clone to two verified PPO jobs on hosts that see neither the clone nor its packages.

load lab
load ssh_hosts
load first_hour

setup_file() {
  lab_needs namespaces sshd
  make_ssh_lab sshh 10.77.5
  make_clone
  serve 10.77.5.254 "$NETLAB" lab
  shrink prod "s|^python: .*|python: $PROJECT/.venv/bin/python|; s|^ssh: {|ssh: {config: $LAB_DIR/ssh_config, |"
  printf 'Host train-%s\n  HostName 10.77.5.%s\n' head 1 0 2 1 3 | cat - "$LAB_DIR/ssh_config" >"$LAB_DIR/config"
  mv "$LAB_DIR/config" "$LAB_DIR/ssh_config"
}

teardown_file() {
  [[ -n ${LAB_DIR:-} ]] || return 0
  end_servers
  end_ssh_lab
}

# bats test_tags=nightly
@test "the three commands of docs/ssh.md, typed as written, end in two verified PPO jobs" {
  type_first_commands docs/ssh.md "$NETLAB" lab
  assert_first_hour "$LAB_DIR/private"
  run on_host head pgrep -f 'raylet|mvp_helpers'
  [[ $status == 1 ]] || fail 'something is left on the head'
}
