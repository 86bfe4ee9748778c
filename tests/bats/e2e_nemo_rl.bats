#!/usr/bin/env bats
# The end-to-end procedure through NeMo-RL (61) as a command, over the fixture checkouts of the unit tests; no cluster is needed.

load helpers
load e2e

@test "a run passes with imports proven in a real Ray worker; a resume of it runs nothing again" {
  run --separate-stderr 61_e2e_nemo_rl.sh --description "$FIXTURES/nemo-rl-no-gpu.yaml" --level 0 --runs-dir "$FIXTURES/runs"
  assert_status 0
  assert_output 'Result: Pass - Level 0*- Local Bridge import in NeMo-RL: Pass*- NeMo-RL Megatron policy run: Pass*- Metrics/log capture: Pass*'
  folder=$(dirname "$FIXTURES"/runs/*/summary.md)
  [[ -s $folder/steps/level-0-smoke/try-1/metrics-1.json ]] || fail "$(find "$folder")"
  [[ ! -e $HOME/.gitconfig ]] || fail 'the script wrote into the home'
  [[ -z $(git -C "$NEMO_RL_REPO" status --porcelain) ]] || fail 'the checkout is no longer clean'
  FAKE_FAULT=provider run --separate-stderr 61_e2e_nemo_rl.sh --resume "$folder"
  assert_status 0
  assert_stderr_has 'level-0-smoke: Pass (earlier)'
}

@test "what a change requires, the plan, and bad input" {
  run --separate-stderr 61_e2e_nemo_rl.sh --recommend --base main
  assert_status 0
  assert_output '0 changed files*no level*'
  run --separate-stderr 61_e2e_nemo_rl.sh --level 0,1 --dry-run --runs-dir "$FIXTURES/none"
  assert_status 0
  assert_output '*bash tests/functional/grpo_megatron.sh*bash tests/functional/sft_resume_diamond.sh*'
  [[ ! -e $FIXTURES/none ]] || fail 'a plan wrote something'
  run --separate-stderr 61_e2e_nemo_rl.sh --level 7
  assert_status 2
  assert_stderr_has "nemo-rl has no level '7' (levels: 0, 1, 2, 3, 4, 5, 6)"
  run --separate-stderr 61_e2e_nemo_rl.sh --level 0 --override grpo.seq_logprob_error_threshold=2
  assert_status 2
  assert_stderr_has 'is refused: it leaves sequences out'
  NEMO_RL_REPO=$BRIDGE_REPO run --separate-stderr 61_e2e_nemo_rl.sh --level 0
  assert_status 2
  assert_stderr_has 'it looks like bridge: BRIDGE_REPO'
}
