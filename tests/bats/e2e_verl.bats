#!/usr/bin/env bats
# The end-to-end procedure (60) and triage (62) as commands, over the fixture checkouts of the unit tests; no cluster is needed.

load helpers
load e2e

@test "a run passes with the summary on stdout; a resume of it runs nothing again; the exit code is the verdict" {
  run --separate-stderr 60_e2e_verl.sh --description "$FIXTURES/verl-no-gpu.yaml" --level 0 --runs-dir "$FIXTURES/runs"
  assert_status 0
  assert_output 'Result: Pass - Level 0*Deliverables:*- Local Bridge import in verl: Pass*Limitations:*Follow-ups:*- none'
  folder=$(dirname "$FIXTURES"/runs/*/summary.md)
  [[ -s $folder/summary.md && -s $folder/steps/level-0-smoke/try-1/wrapper.log ]] || fail "$(find "$folder")"
  run --separate-stderr 60_e2e_verl.sh --resume "$folder" --json
  assert_status 0
  assert_stderr_has 'level-0-smoke: Pass (earlier)'
  python -c 'import json, sys; assert json.load(sys.stdin)["result"] == "Pass"' <<<"$output"
  FAKE_FAULT=provider run --separate-stderr 60_e2e_verl.sh --resume "$folder"
  assert_status 0
}

@test "a trainer that hangs is ended by Ctrl-C too, with a summary, and nothing of it is left" {
  FAKE_FAULT=hang 60_e2e_verl.sh --description "$FIXTURES/verl-no-gpu.yaml" --level 0 --runs-dir "$FIXTURES/hang" >"$FIXTURES/out" 2>"$FIXTURES/err" &
  local pid=$! _
  for _ in {1..1500}; do
    ! grep -q 'level-0-smoke:' "$FIXTURES/err" || break
    sleep 0.2
  done
  sleep 1
  helper=$(pgrep -P "$pid" -f 'mvp_helpers e2e')
  kill -TERM "$helper"
  wait "$pid" || status=$?
  assert_status 130
  grep -q '^Result: Blocked - level-0-smoke: interrupted' "$FIXTURES"/hang/*/summary.txt || fail "$(cat "$FIXTURES"/hang/*/summary.txt)"
  name=$(basename "$FIXTURES"/hang/*)
  ! grep -lsz "MVP_E2E_STEP=$name" /proc/[0-9]*/environ || fail 'something is left'
}

@test "what a change calls for, the plan, and bad input" {
  run --separate-stderr 60_e2e_verl.sh --recommend --base main
  assert_status 0
  assert_output '0 changed files*no level*'
  run --separate-stderr 60_e2e_verl.sh --level 0,2 --dry-run --runs-dir "$FIXTURES/none"
  assert_status 0
  assert_output '*export COMMON_TP=2*bash tests/special_e2e/run_ppo_trainer_megatron.sh*'
  [[ ! -e $FIXTURES/none ]] || fail 'a plan wrote something'
  run --separate-stderr 60_e2e_verl.sh --level 0 --override 'a=b c'
  assert_status 2
  assert_stderr_has 'would split or expand it'
  VERL_REPO=$BRIDGE_REPO run --separate-stderr 60_e2e_verl.sh --level 0
  assert_status 2
  assert_stderr_has 'it looks like bridge: BRIDGE_REPO'
}

@test "a wrong value is bad input, not a verdict" {
  local words
  for words in '--level 0 --steps abc' '--level 0 --steps=1' '--level 0 --timeout nan' '--level 0 --stall -1' '--level x' '--resume none'; do
    # shellcheck disable=SC2086 # options and their values
    run --separate-stderr 60_e2e_verl.sh $words --runs-dir "$FIXTURES/none"
    assert_status 2
    assert_output ''
    [[ $stderr == 'bad input: '*$'\n  try: '* && ${#stderr_lines[@]} == 2 ]] || fail "$words: not one line with what to try"
  done
  [[ ! -e $FIXTURES/none ]] || fail 'a folder was made'
}

@test "elsewhere: the command is what Python says, its output or its log is shown, and the log decides the exit code" {
  local bin=$FIXTURES/bin runs=$FIXTURES/elsewhere
  mkdir -p "$bin"
  cat >"$bin/docker" <<'SH'
#!/bin/bash
printf '%s\n' "$@" >"$FIXTURES/argv"
echo "${SAYS-Result: Pass - in a container}"
exit "${ENDS:-0}"
SH
  cat >"$bin/sbatch" <<'SH'
#!/bin/bash
for word; do [[ $word != --output=* ]] || log=${word#*=}; done
[[ -n ${SAYS-x} ]] || exit "$ENDS"
echo 'Submitted batch job 12'
echo "$SAYS" >"$log"
exit "$ENDS"
SH
  chmod +x "$bin"/*
  PATH=$bin:$PATH
  local go=(60_e2e_verl.sh --description "$FIXTURES/verl-no-gpu.yaml" --level 0 --override 'a="b"' --runs-dir "$runs")
  ENDS=7 run --separate-stderr "${go[@]}" --via docker --image x:1
  assert_status 7
  assert_output 'Result: Pass - in a container'
  grep -qxF 'a="b"' "$FIXTURES/argv" && grep -qxF "$FIXTURES:$FIXTURES" "$FIXTURES/argv" || fail "$(<"$FIXTURES/argv")"

  SAYS='Result: Fail - it failed' ENDS=1 run --separate-stderr "${go[@]}" --via sbatch
  assert_status 1
  assert_output 'Result: Fail - it failed'
  assert_stderr_has "its log is $runs/slurm-e2e-"
  assert_stderr_has 'Submitted batch job 12'
  SAYS='slurmstepd: error: node failure' ENDS=1 run --separate-stderr "${go[@]}" --via sbatch
  assert_status 3
  assert_stderr_has 'blocked: the log contains no summary'
  SAYS='' ENDS=1 run --separate-stderr "${go[@]}" --via sbatch
  assert_status 1
  [[ $stderr != *summary* ]] || fail 'a log of a job that never was'
  SAYS='Result: Blocked - no GPU' ENDS=3 run --separate-stderr "${go[@]}" --via sbatch
  assert_status 3

  run --separate-stderr "${go[@]}" --via docker --image x:1 --plan
  assert_status 3
  assert_output '*docker run*x:1*'
  assert_stderr_has 'PROBLEM: '
  assert_stderr_has "override 'a"

  run --separate-stderr "${go[@]}" --via dokcer --image x:1
  assert_status 2
  assert_stderr_has "did you mean 'docker'?"
}

@test "logs are judged one by one, and the exit code is the worst of them" {
  printf 'step:1 - actor/loss:0.5\nTraining Progress: 100%%|#| 1/1 [00:01<00:00]\n' >"$FIXTURES/pass.log"
  printf 'cp: x: No space left on device\n' >"$FIXTURES/disk.log"
  run --separate-stderr 62_e2e_triage.sh "$FIXTURES/pass.log" "$FIXTURES/disk.log" --json
  assert_status 3
  [[ $(wc -l <<<"$output") == 2 ]] || fail 'not one object a log'
  run --separate-stderr 62_e2e_triage.sh "$FIXTURES/pass.log"
  assert_status 0
  head -c 5000 /dev/urandom >"$FIXTURES/binary.log"
  : >"$FIXTURES/empty.log"
  echo '{"loss": ' >"$FIXTURES/metrics.json"
  run --separate-stderr 62_e2e_triage.sh /no/such.log "$FIXTURES" "$FIXTURES/binary.log" "$FIXTURES/empty.log" "$FIXTURES/metrics.json" \
    "$FIXTURES/pass.log"
  assert_status 2
  assert_output 'Pass*' # what can be read is judged
  [[ $(grep -c '^bad input: ' <<<"$stderr") == 5 ]] || fail 'not one message each'
}
