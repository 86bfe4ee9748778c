#!/usr/bin/env bats
# Tab completion: the function that bash calls, in a bash without any other command on its PATH.

load helpers

setup() {
  FOLDER=$BATS_TEST_TMPDIR
  cd "$PROJECT" || return
  unset MVP_CLUSTER
}

offered() { # <word>...: what is offered for the last word, into lines
  # shellcheck disable=SC2016 # expanded by that bash
  run --separate-stderr env -i HOME="$HOME" PATH=/nonexistent ${SHARED:+MVP_SHARED_ROOT="$SHARED"} ${CLUSTER_OF_SHELL:+MVP_CLUSTER="$CLUSTER_OF_SHELL"} \
    "$BASH" --norc --noprofile -c 'project=$1 && shift
    dirname() { printf %s "${1%/*}"; } # all that sourcing it needs
    source "$project/scripts/completion.bash"
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _mvp_complete "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf "%s\n" "${COMPREPLY[@]}"' bash "$PROJECT" "$@"
  assert_status 0
  [[ -z $stderr ]] || fail 'it said something'
}

assert_offered() { # <word>...: exactly these, in this order
  [[ $output == "$(printf '%s\n' "$@")" ]] || fail "not offered: $*"
}

make_jobs() { # <id>...: the oldest first, as job folders with their entries in the index
  local id hour=10
  export SHARED=$FOLDER/shared
  for id; do
    mkdir -p "$SHARED/jobs/$id" "$SHARED/jobs/.index"
    : >"$SHARED/jobs/.index/2026-01-31T${hour}0000.000Z_$id"
    hour=$((hour + 1))
  done
}

@test "every numbered script is registered under its name, and its options are those of its parse_options line" {
  local script own word
  run --separate-stderr bash --norc -c 'source scripts/completion.bash && complete -p'
  for script in scripts/[0-9]*.sh; do
    [[ $output == *"_mvp_complete ${script##*/}"* ]] || fail "$script is not registered"
  done
  for script in scripts/[0-9]*.sh; do
    # What the script's own parser is called with, as that very call says it.
    own=$(sed '/^parse_options/q' "$script" | grep -v '^source\|^find_python' | bash -c "parse_options() { printf %s \"\$1\"; }; $(cat)" "$script")
    offered "./$script" --
    for word in $own; do
      [[ $word != --* ]] || grep -qxFe "${word%=}" <<<"$output" || fail "$script: $word"
    done
    grep -qx -- --cluster <<<"$output" || fail "$script: --cluster"
    ! grep -q '=' <<<"$output" || fail "$script: with ="
  done
}

@test "ray.sh offers the commands of Ray that ask, and their subcommands" {
  run --separate-stderr bash --norc -c 'source scripts/completion.bash && complete -p ray.sh'
  assert_status 0
  offered ./scripts/ray.sh st
  assert_offered stack status
  offered ./scripts/ray.sh job l
  assert_offered list logs
  offered ./scripts/ray.sh list n
  assert_offered nodes
}

@test "options: only those that begin so, by any path to the script" {
  local word
  for word in 50_status.sh ./scripts/50_status.sh scripts/50_status.sh "$PROJECT/scripts/50_status.sh"; do
    offered "$word" --w
    assert_offered --watch
  done
  offered 60_e2e_verl.sh --lev
  assert_offered --level
  offered no_such_script.sh --
  assert_offered ''
}

@test "clusters: names and files, as a word of its own and behind =" {
  offered ./scripts/01_up.sh --cluster d
  assert_offered dev-cpu dev
  offered ./scripts/01_up.sh --cluster = lo
  assert_offered local
  offered ./scripts/01_up.sh --cluster =
  assert_offered dev-cpu dev local prod slurm
  offered ./scripts/01_up.sh --cluster=pr
  assert_offered --cluster=prod
  offered ./scripts/01_up.sh --cluster templates/ray/p
  assert_offered templates/ray/prod.yaml
}

@test "job ids: the newest first, none twice, none whose folder is gone" {
  make_jobs ppo-1 sft-2 ppo-3 gone-4
  rmdir "$SHARED/jobs/gone-4"
  offered 54_verify.sh ''
  assert_offered ppo-3 sft-2 ppo-1
  offered 54_verify.sh ppo-3 ppo
  assert_offered ppo-1
  offered 51_logs.sh ''
  assert_offered ppo-3 sft-2 ppo-1
  offered 50_status.sh --follow s
  assert_offered sft-2
  offered 55_explain.sh sf
  [[ ${lines[0]} == sft-2 ]] || fail 'no id'
  offered 02_down.sh ''
  assert_offered ''
  # shellcheck disable=SC2046 # words
  make_jobs $(seq -f many-%g 60)
  offered 52_stop.sh many
  [[ ${#lines[@]} == 50 ]] || fail "${#lines[@]} are offered"
}

@test "job ids are those of the cluster that was chosen" {
  make_jobs of-local
  mkdir -p "$FOLDER/other/jobs/of-other" "$FOLDER/other/jobs/.index"
  : >"$FOLDER/other/jobs/.index/2026-01-31T100000.000Z_of-other"
  printf 'name: other\nhost_driver: local\nshared_root: %s\n' "$FOLDER/other" >"$FOLDER/other.yaml"
  offered 51_logs.sh --cluster "$FOLDER/other.yaml" ''
  assert_offered of-other
  CLUSTER_OF_SHELL=$FOLDER/other.yaml offered 51_logs.sh ''
  assert_offered of-other
  offered 51_logs.sh --cluster = local of
  assert_offered of-local
  offered 51_logs.sh --cluster no-such ''
  assert_offered ''
}

@test "levels, variants, ways and descriptions of the end-to-end procedures" {
  offered 60_e2e_verl.sh --level ''
  assert_offered 0 1 2 3 4 5
  offered 60_e2e_verl.sh --level = 0,
  assert_offered 0,0 0,1 0,2 0,3 0,4 0,5
  offered 60_e2e_verl.sh --description verl-cpu-smoke --level ''
  assert_offered 0 1 5
  offered 60_e2e_verl.sh --variant ''
  assert_offered dense moe vlm moe mtp qat
  offered 61_e2e_nemo_rl.sh --level ''
  assert_offered 0 1 2 3 4 5 6
  offered 61_e2e_nemo_rl.sh --level 1 --variant ''
  assert_offered lora sft-resume
  offered 61_e2e_nemo_rl.sh --variant ''
  assert_offered lora sft-resume non-colocated delta vlm audio moe eagle3 quant
  offered 60_e2e_verl.sh --level 2 --variant ''
  assert_offered dense moe
  offered 60_e2e_verl.sh --via s
  assert_offered slurm sbatch
  offered 60_e2e_verl.sh --description verl-
  assert_offered verl-cpu-smoke
  mkdir -p "$FOLDER/runs/verl-20260131-101500-1a2b" "$FOLDER/runs/verl-20260201-101500-1a2b"
  offered 60_e2e_verl.sh --runs-dir "$FOLDER/runs" --resume v
  assert_offered verl-20260201-101500-1a2b verl-20260131-101500-1a2b
}

@test "JobSpecs: the templates from anywhere, and any JSON or YAML file" {
  offered 43_submit_jobspec.sh ''
  [[ ${lines[0]} == templates/grpo.json && $output == *templates/ppo.yaml* && $output != *schema* && $output != *failure* ]] || fail 'not the templates'
  cd "$FOLDER" || return
  touch mine.json mine.txt
  offered "$PROJECT/scripts/44_submit_sdk.sh" mi
  assert_offered mine.json
  offered regress_bisect.sh --spec mi
  assert_offered mine.json
  offered "$PROJECT/scripts/44_submit_sdk.sh" ''
  [[ $output == *"$PROJECT/templates/ppo.json"* ]] || fail 'no templates from elsewhere'
}
