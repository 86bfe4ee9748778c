#!/usr/bin/env bats
# long: The three commands of docs/slurm.md, from a clone to two verified PPO jobs in an allocation of three nodes. A data set and a
# model are there already, without a manifest, and the nodes have two networks.

load lab
load slurm_hosts
load first_hour

setup_file() {
  lab_needs namespaces slurm
  export LAB_DATA=10.79.5
  make_slurm_lab slurmh 10.78.5
  make_clone
  serve 10.78.5.254 "$NETLAB" lab
  shrink slurm "s|^shared_root: .*|&\npython: $PROJECT/.venv/bin/python|
    s|^code: .*|code: {source: git, repository: $VERL_URL, path: $CLONE/.mvp/private/user/code/verl}|"
  echo 'network: {interface: data0}' >>"$CLONE/templates/ray/slurm.yaml"
  leave_data_and_model "$CLONE/.mvp/private"
}

leave_data_and_model() { # <shared root>: the data set as a copied folder, the model as a link into a cache of the hub; no manifest
  local copied=$LAB_DIR/copied
  sed -e "s|^shared_root: .*|shared_root: $copied|" -e "s|^state_dir: .*|state_dir: $LAB_DIR/state|" -e 's|^data: .*|data: {source: hub}|' \
    "$PROJECT/templates/ray/local.yaml" >"$copied.yaml"
  in_lab 30_prepare_data_and_model.sh --cluster "$copied.yaml"
  mkdir -p "$1/datasets" "$1/common/models"
  cp -r "$copied/datasets/gsm8k" "$1/datasets/"
  cp -r "$copied/hf" "$1/"
  (cd "$1/common/models" && ln -s ../../hf/hub/models--*/snapshots/* "$(basename "$copied"/common/models/*/)")
}

teardown_file() {
  [[ -n ${LAB_DIR:-} ]] || return 0
  end_servers
  end_slurm_lab
}

# bats test_tags=nightly
@test "the three commands of docs/slurm.md, typed as written, end in two verified PPO jobs" {
  type_first_commands docs/slurm.md "$NETLAB" lab
  assert_first_hour "$CLONE/.mvp/private"
  for part in datasets/gsm8k common/models/Qwen2.5-0.5B-Instruct; do
    assert_stderr_has "adopting $CLONE/.mvp/private/$part: "
  done
  assert_stderr_has 'made datasets/gsm8k_sft ' # by a node, through the proxy
  [[ -L $CLONE/.mvp/private/common/models/Qwen2.5-0.5B-Instruct ]] || fail 'the link was replaced'
  assert_nodes_in "$CLONE/.mvp/private" 10.79.5.
  jobs=("$CLONE"/.mvp/private/jobs/ppo-*)
  run --separate-stderr in_lab env -u MVP_SHARED_ROOT "MVP_CLUSTER=$CLONE/templates/ray/slurm.yaml" "$CLONE/scripts/54_verify.sh" "${jobs[@]##*/}" --json
  assert_status 0
  python - "$output" <<'PY'
import json, sys
checks = [{check["name"]: check for check in job["checks"]} for job in json.loads(sys.argv[1])["jobs"]]
assert "Pass" in [check["data and model reused"]["verdict"] for check in checks], checks
PY
  [[ -z $(in_lab squeue -h) ]] || fail "left: $(in_lab squeue -h)"
}
