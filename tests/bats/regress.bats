#!/usr/bin/env bats
# regress.sh against scripts that only pretend: the order of its steps, its exit code, and whether it stops the cluster.

load helpers

setup() {
  cd "$BATS_TEST_TMPDIR" || return
  cp -r "$PROJECT/scripts" .
  ln -s "$PROJECT/lib" "$PROJECT/.venv" "$PROJECT/templates" .
  make_cluster_file regress 11 110
  local script
  for script in scripts/[0-9]*.sh; do
    cat >"$script" <<'SH'
#!/bin/bash
# Pretends. STATE: what 01_up.sh --check says; FAIL: "<script's number>=<exit code>"; SLOW: a number whose script waits.
number=$(basename "$0") && number=${number%%_*}
echo "$number $*" >>calls
case "$number $*" in
  '01 --check') echo "$STATE" ;;
  43*) echo "job-$(grep -c ^43 calls)" ;;
  54*) echo "verdict of $*" ;;
esac
[[ $SLOW != "$number" ]] || sleep 300
[[ $FAIL != "$number="* ]] || exit "${FAIL#*=}"
SH
  done
  export STATE=down FAIL='' SLOW=''
}

teardown() {
  rm -r "$FOLDER"
}

regress() {
  run --separate-stderr ./scripts/regress.sh "${@:-ppo}"
}

calls() { # the numbers of the scripts, in order
  cut -d' ' -f1 calls | xargs
}

@test "all steps in order, two jobs, one verdict, and the cluster it started is stopped" {
  regress
  assert_status 0
  assert_output 'verdict of --learning --gates job-1 job-2'
  [[ $(calls) == '12 00 01 01 30 31 43 43 54 56 02' ]] || fail "called: $(calls)"
  assert_stderr_has "see $FOLDER/private/jobs/job-2/"
  assert_stderr_has "regression of 'ppo' on cluster 'regress': passed"
}

@test "all: PPO twice, GRPO and SFT, and the Definition of Done, as JSON when asked" {
  regress all --json
  assert_status 0
  assert_output 'verdict of --learning --gates --json --definition-of-done job-1 job-2 job-3 job-4'
  [[ $(grep ^43 calls | grep -o '[a-z]*.json' | xargs) == 'ppo.json ppo.json grpo.json sft.json' ]] || fail "$(<calls)"
}

@test "another workload than ppo is submitted once" {
  regress sft
  assert_output 'verdict of --learning --gates job-1'
}

@test "a workload that failed is not run again, the others are" {
  FAIL=43=1 regress all
  assert_status 1
  [[ $(grep ^43 calls | grep -o '[a-z]*.json' | xargs) == 'ppo.json grpo.json sft.json' ]] || fail "$(<calls)"
}

@test "a cluster that was up before, wholly or partly, is left up, and KEEP=1 keeps one" {
  STATE=up regress
  STATE='partly up' regress
  KEEP=1 regress
  [[ $(calls) != *02* ]] || fail "called: $(calls)"
}

@test "a step that fails ends it with that step's exit code, and the cluster is stopped" {
  FAIL=31=3 regress
  assert_status 3
  assert_stderr_has 'regression stopped by 31_snapshot_verl_code (exit code 3)'
  [[ $(calls) == '12 00 01 01 30 31 02' ]] || fail "called: $(calls)"
}

@test "a job that fails is still verified, and gives the exit code" {
  FAIL=43=1 regress
  assert_status 1
  assert_output 'verdict of --learning --gates job-1'
  assert_stderr_has 'not passed (exit code 1)'
}

@test "a verdict that fails gives the exit code" {
  FAIL=54=1 regress
  assert_status 1
  [[ $(calls) == *'54 56 02' ]] || fail "called: $(calls)"
}

@test "a cluster that cannot be stopped is a failure" {
  FAIL=02=1 regress
  assert_status 1
}

@test "Ctrl-C stops the cluster too" {
  SLOW=43 run --separate-stderr python - <<'PY'
import os, signal, subprocess, time
process = subprocess.Popen(["./scripts/regress.sh", "ppo"], start_new_session=True)
while "43" not in open("calls").read().split() if os.path.exists("calls") else True:
    time.sleep(0.05)
os.killpg(process.pid, signal.SIGINT)
raise SystemExit(process.wait(30))
PY
  assert_status 130
  [[ $(calls) == *'43 02' ]] || fail "called: $(calls)"
}

@test "an unknown workload is bad input" {
  regress pppo
  assert_status 2
  [[ ! -e calls ]] || fail "called: $(calls)"
}

history() { # of something like verl, in ./verl: tag v1, and a commit after it
  mkdir -p verl/verl && touch verl/verl/__init__.py
  git -C verl init --quiet --initial-branch=main
  local -a commit=(git -C verl -c user.name=a -c user.email=a@b commit --quiet --allow-empty --message)
  git -C verl add . && "${commit[@]}" start
  git -C verl tag v1 && "${commit[@]}" next
}

@test "a bisection with a mistake ends in one line before it starts a cluster" {
  history
  run --separate-stderr ./scripts/regress_bisect.sh --source "$PWD/verl" --good v1 --bad mian --spec templates/ppo.json
  assert_status 2
  assert_stderr_has "bad input: $PWD/verl has no tag, branch or commit 'mian' (did you mean 'main'?)"
  run --separate-stderr ./scripts/regress_bisect.sh --source "$PWD/verl" --good v1 --bad main --spec templates/ppo.json --gates gone.yaml
  assert_status 2
  assert_stderr_has 'cannot read the gates gone.yaml'
  run --separate-stderr ./scripts/regress_bisect.sh --good v1 --spec templates/ppo.json
  assert_status 2
  assert_stderr_has '--bad is missing'
  [[ ! -e calls ]] || fail "called: $(calls)"
}

@test "a dry run of a bisection shows the range, the gates and its steps" {
  history
  run --separate-stderr ./scripts/regress_bisect.sh --source "$PWD/verl" --good v1 --bad main --spec templates/ppo.json --gate learning --dry-run
  assert_status 0
  assert_output "would run: */12_install_py_deps.sh*commits of verl in $PWD/verl: 1;*gate learning: median(*state: $FOLDER/private/common/bisect/*"
  [[ ! -e calls && ! -e $FOLDER/private/common/bisect ]] || fail 'a dry run did something'
}
