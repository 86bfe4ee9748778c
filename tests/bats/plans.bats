#!/usr/bin/env bats
# Plans of clusters that do not run, on a machine where nothing was prepared.
# shellcheck disable=SC2030,SC2031 # every test has its own

load helpers

setup() {
  cd "$BATS_TEST_TMPDIR" || return
  export MVP_SHARED_ROOT=$PWD/none MVP_SSH_HEAD=127.0.0.1 MVP_SSH_WORKER_0=127.0.0.1 MVP_SSH_WORKER_1=127.0.0.1
  # Without docker, ssh and Slurm, which might know a cluster of the user's own.
  mkdir bin
  find /usr/bin /bin -maxdepth 1 ! -type d ! -name 'docker*' ! -name 'ssh*' ! -name 'srun' ! -name 'squeue' -exec ln -sf -t bin {} +
  PATH=$PROJECT/scripts:$PWD/bin
}

plan_all() { # the plan of every JobSpec template (not of its YAML twin) on every cluster template, two at a time: <name>.{out,err,code}
  local cluster spec
  for cluster in "$PROJECT"/templates/ray/*.yaml; do
    for spec in "$PROJECT"/templates/*.json; do
      [[ $spec != *.schema.json ]] || continue
      printf '%s\0%s\0%s\0' "$(basename "$cluster" .yaml)" "$spec" "$(basename "$cluster" .yaml)-${spec##*/}"
    done
  done | xargs -0 -P 2 -n 3 bash -c '43_submit_jobspec.sh "$1" --cluster "$0" --dry-run >"$2.out" 2>"$2.err"; echo "$?" >"$2.code"'
}

@test "every JobSpec template has a plan on every cluster template, with what is still missing at its end" {
  plan_all
  local file name
  for file in *.code; do
    name=${file%.code} status=$(<"$file") output=$(<"$name.out") stderr=$(<"$name.err")
    assert_status 3
    assert_output "*cluster: ${name%%-[gpsv]*}*submit_cmd: *missing:*'code_path does not exist: */31_snapshot_verl_code.sh)'*"
    assert_stderr_has "this plan cannot be submitted yet: see 'missing' at its end"
    [[ $stderr != *Traceback* && $stderr != *'exit code'* ]] || fail "$name says more than one message"
  done
  [[ $(cat -- *.code | wc -l) == 20 ]] || fail 'not 5 clusters with 4 JobSpecs'
}

@test "--set adds overrides without editing a file, on every script that submits" {
  local script arguments
  for script in 40_submit_ppo_epoch1 41_submit_grpo_epoch1 42_submit_sft_minimal "43_submit_jobspec|$PROJECT/templates/ppo.json" \
    "44_submit_sdk|$PROJECT/templates/ppo.yaml"; do
    IFS='|' read -ra arguments <<<"$script"
    run --separate-stderr "${arguments[0]}.sh" "${arguments[@]:1}" --cluster local --dry-run --set trainer.total_epochs=7 --set=+mine='[a, b=c]'
    assert_status 3
    assert_output '*total_epochs: 7*- trainer.total_epochs=7*- +mine=?a, b=c?*'
    [[ $output != *trainer.total_epochs=1* ]] || fail 'the earlier value is still there'
  done
}

@test "--set refuses another form in one line" {
  local word
  for word in total_epochs =1 'a b=1' '~trainer.total_epochs'; do
    run --separate-stderr 40_submit_ppo_epoch1.sh --cluster local --dry-run --set "$word"
    assert_status 2
    [[ $stderr == "bad input: --set '$word' is not of the form KEY=VALUE"$'\n  try: '* ]] || fail 'another message'
  done
  run --separate-stderr 40_submit_ppo_epoch1.sh --cluster local --dry-run --set
  assert_status 2
  assert_stderr_has '--set needs a value'
}

@test "--set cannot change what keeps a job in its folder" {
  run --separate-stderr 40_submit_ppo_epoch1.sh --cluster local --dry-run --set trainer.resume_mode=auto
  assert_status 2
  assert_stderr_has "'trainer.resume_mode' keeps the job in its own folder and cannot be changed"
}

refused() { # <file> <part of the message>: a submission refuses it in one line and a hint
  run --separate-stderr 43_submit_jobspec.sh "$1" --cluster local --dry-run
  assert_status 2
  assert_stderr_has "$2"
  [[ -z $output && $(wc -l <<<"$stderr") -le 2 ]] || fail 'more than one line and a hint'
}

@test "a JobSpec that would hang or crash the planning is refused in one line" {
  printf 'workload: sft\ntrainer_overrides: %s\n' "$(printf '[%.0s' {1..20000})" >brackets.yaml
  refused brackets.yaml 'has more than 2000 values, or more than 20 levels'
  printf 'workload: sft\nm0: &m0 {x: 1}\n' >merged.yaml
  local n
  for n in {1..8}; do printf 'm%d: &m%d {<<: [*m%d, *m%d, *m%d, *m%d, *m%d, *m%d]}\n' "$n" "$n" $((n - 1)){,,,,,} >>merged.yaml; done
  refused merged.yaml 'has more than 2000 values, or more than 20 levels'
  { printf '{"workload": "sft", "secrets": ["' && head -c 100M /dev/zero | tr '\0' x; } >large.json
  refused large.json 'has more than 256 KiB'
  printf '{"workload": "sft", "stop_wait_s": 1%s}' "$(printf '0%.0s' {1..400})" >number.json
  refused number.json 'stop_wait_s: a number with 401 digits is too large'
}
