#!/usr/bin/env bats
# long: trains once, with the nightly test six times
# The end-to-end procedure over the real verl, from nothing to a verdict: smoke, save and resume, learning signal.

load helpers

setup_file() {
  make_cluster_file e2esmoke 72 720 # only its data and model are used: the trainer starts a Ray of its own
  SMOKE_RUNS=$FOLDER/runs
  export SMOKE_RUNS
}

teardown_file() {
  rm -rf "$FOLDER"
}

smoke() { # <option>...: the procedure passes, and leaves nothing outside its own folders
  export HOME=$FOLDER/home
  mkdir -p "$HOME"
  run --separate-stderr e2e_smoke.sh --runs-dir "$SMOKE_RUNS" "$@"
  assert_status 0
  [[ ! -e $HOME/.ray ]] || fail "the run's Ray left something in HOME: $(find "$HOME/.ray")"
  left=$(git -C "$BATS_TEST_DIRNAME/../../.mvp/e2e/checkouts/verl" status --porcelain)
  [[ -z $left ]] || fail "the run left something in the checkout: $left"
  assert_output 'Result: Pass - *'
}

@test "level 0 passes with the real trainer on CPUs" {
  smoke --level 0
  [[ $stderr == *'level-0-smoke: Pass'* ]] || fail 'it did not train'
}

# bats test_tags=nightly
@test "levels 0, 1 and 5 pass with the real trainer on CPUs" {
  smoke
  for step in level-0-smoke level-1-save level-1-resume level-5-train; do
    [[ $stderr == *"$step: Pass"* ]] || fail "$step did not pass"
  done
  assert_output '*learning-signal passed*'
  grep -h 'global_step_1' "$SMOKE_RUNS"/*/steps/level-1-resume/try-1/wrapper.log | grep -qi resum || fail 'no sign of a resume'
}
