#!/usr/bin/env bats
# The verdict on learning with verl's own trainer: what trains learns the task of a CPU cluster, and what was broken on purpose does not.

# long: real trainers, one after another

load helpers

setup_file() {
  make_job_cluster learns 78 780
  01_up.sh && 30_prepare_data_and_model.sh && 31_snapshot_verl_code.sh
}

teardown_file() {
  end_cluster
}

trained() { # <workload> <id> [<43's options>...]: its verdict on learning is in output, those of its gates in gates; speed is not asserted
  sed -e 's/save_freq: .*/save_freq: -1/' -e "s|^code_path: .*|code_path: ${CODE:-common/code/verl/current}|" "$PROJECT/templates/$1.yaml" >"$FOLDER/specs/$2.yaml"
  printf 'submission_id: %s\n' "$2" >>"$FOLDER/specs/$2.yaml"
  43_submit_jobspec.sh "$FOLDER/specs/$2.yaml" --wait "${@:3}"
  gates=$(54_verify.sh --gates "$2" || true)
  run --separate-stderr 54_verify.sh --learning "$2"
  printf '# %s\n' "$(grep -A2 learned <<<"$output")" >&3
}

gate() { # <verdict> <gate>: its verdict on the last job that trained
  grep -q "$1 * gate: $2 " <<<"$gates" || fail "$2 is not $1: $gates"
}

# bats test_tags=nightly
@test "PPO, GRPO and SFT learn the task of a CPU cluster in their 20 steps" {
  for workload in ppo grpo sft; do
    trained "$workload" "$workload"
    assert_status 0
    assert_output '*✓ Pass     learned *→*'
    gate Pass learning
  done
}

# bats test_tags=nightly
@test "a learning rate of 0 fails the verdict and the gate" {
  trained grpo still --set actor_rollout_ref.actor.optim.lr=0
  assert_status 1
  assert_output '*✗ Fail     learned *no proven rise*'
  gate Fail learning
}

# bats test_tags=nightly
@test "a verl that turns the reward's sign fails the verdict and the gate" {
  mkdir "$FOLDER/turned" && cp -r "$(python -c 'import importlib.util as u; print(u.find_spec("verl").submodule_search_locations[0])')" "$FOLDER/turned/verl"
  sed -i 's/scores = token_level_rewards.sum(dim=-1)/scores = -token_level_rewards.sum(dim=-1)/' "$FOLDER/turned/verl/trainer/ppo/core_algos.py"
  CODE_ID=turned 31_snapshot_verl_code.sh --source "$FOLDER/turned"
  CODE=common/code/verl/turned trained grpo turned
  assert_status 1
  assert_output '*✗ Fail     learned *no proven rise*'
  gate Fail learning
}
