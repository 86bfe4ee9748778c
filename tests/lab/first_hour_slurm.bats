#!/usr/bin/env bats
# long: The three commands of docs/slurm.md, from a clone to two verified PPO jobs in an allocation of three nodes.

load lab
load slurm_hosts
load first_hour

setup_file() {
  lab_needs namespaces slurm
  make_slurm_lab slurmh 10.78.5
  make_clone
  serve 10.78.5.254 "$NETLAB" lab
  shrink slurm "s|^shared_root: .*|&\npython: $PROJECT/.venv/bin/python|
    s|^code: .*|code: {source: git, repository: $VERL_URL, path: $CLONE/.mvp/private/user/code/verl}|"
}

teardown_file() {
  [[ -n ${LAB_DIR:-} ]] || return 0
  end_servers
  end_slurm_lab
}

@test "the three commands of docs/slurm.md, typed as written, end in two verified PPO jobs" {
  type_first_commands docs/slurm.md "$NETLAB" lab
  assert_first_hour "$CLONE/.mvp/private"
  [[ -z $(in_lab squeue -h) ]] || fail "left: $(in_lab squeue -h)"
}
