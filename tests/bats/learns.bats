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
    gate Pass "$([[ $workload == sft ]] && echo falls || echo rise)" # of any hardware
  done
}

# bats test_tags=nightly
@test "a run that is stopped and resumed is equal, to the last bit, to one that is not" {
  cp "$FOLDER/specs/ppo.yaml" "$FOLDER/specs/part.yaml"
  sed -i 's/^submission_id: .*/submission_id: part/' "$FOLDER/specs/part.yaml"
  43_submit_jobspec.sh "$FOLDER/specs/part.yaml"
  wait_for 400 'its fifth step' grep -q '"step":5,' "$JOBS/part/metrics.jsonl"
  52_stop.sh part
  { sed 's/^submission_id: .*/submission_id: rest/' "$FOLDER/specs/part.yaml" && echo 'resume_from: part'; } >"$FOLDER/specs/rest.yaml"
  43_submit_jobspec.sh "$FOLDER/specs/rest.yaml" --wait
  python - "$JOBS" <<'PY'
import json, sys
from pathlib import Path

def trained(*jobs):
    rows = [json.loads(line) for job in jobs for line in (Path(sys.argv[1]) / job / "metrics.jsonl").open()]
    measured = ("timing", "perf/", "memory", "throughput")
    return [{name: value for name, value in row["data"].items() if not any(word in name for word in measured)} for row in rows]

whole, parts = trained("ppo"), trained("part", "rest")
assert len(whole) == len(parts) == 20 and len(whole[0]) > 40, (len(whole), len(parts), len(whole[0]))
for step, (one, other) in enumerate(zip(whole, parts), 1):
    assert one == other, (step, {name: (one[name], other.get(name)) for name in one if one[name] != other.get(name)})
PY
}

# bats test_tags=nightly
@test "a learning rate of 0 fails the verdict and the gate" {
  trained grpo still --set actor_rollout_ref.actor.optim.lr=0
  assert_status 1
  assert_output '*✗ Fail     learned *no proven rise*'
  gate Fail rise
}

# bats test_tags=nightly
@test "a verl that turns the reward's sign fails the verdict and the gate" {
  mkdir "$FOLDER/turned" && cp -r "$(python -c 'import importlib.util as u; print(u.find_spec("verl").submodule_search_locations[0])')" "$FOLDER/turned/verl"
  sed -i 's/scores = token_level_rewards.sum(dim=-1)/scores = -token_level_rewards.sum(dim=-1)/' "$FOLDER/turned/verl/trainer/ppo/core_algos.py"
  CODE_ID=turned 31_snapshot_verl_code.sh --source "$FOLDER/turned"
  CODE=common/code/verl/turned trained grpo turned
  assert_status 1
  assert_output '*✗ Fail     learned *no proven rise*'
  gate Fail rise
}
