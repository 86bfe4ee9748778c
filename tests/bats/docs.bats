#!/usr/bin/env bats
# The examples of the documentation, as far as they need no cluster.

load helpers

setup_file() {
  # What a reader of any page has done before.
  export MVP_SHARED_ROOT=$BATS_FILE_TMPDIR/private MVP_CLUSTER=local
  30_prepare_data_and_model.sh
  31_snapshot_verl_code.sh
}

setup() {
  export MVP_SHARED_ROOT=$BATS_FILE_TMPDIR/private
  unset MVP_CLUSTER
}

teardown_file() {
  chmod -R u+w "$BATS_FILE_TMPDIR" # snapshots are read-only
}

examples() { # [<folder with pages>]
  PYTHONPATH=$PROJECT/lib:$PROJECT/tests/unit python "$PROJECT/tests/bats/doc_examples.py" "$@"
}

page() { # <text>: a README in a folder of its own
  printf '%s\n' "$1" >"$BATS_TEST_TMPDIR/README.md"
}

@test "every example of the docs that needs no cluster runs" {
  run --separate-stderr examples
  assert_status 0
  assert_output '* 0 failed'
}

@test "an example that cannot run, or that nobody marked, is found" {
  local fence='```'
  page "${fence}sh
./scripts/55_explain.sh tests/unit/logs/none/positive.log
$fence
${fence}console
\$ ./scripts/02_down.sh
cluster 'local': down after 0.4 s
$fence
${fence}sh
./scripts/62_e2e_triage.sh tests/unit/logs/disk-full/positive.log   # exit code 1
$fence
<!-- needs a cluster -->
${fence}sh
./scripts/02_down.sh
$fence
${fence}sh
./scripts/62_e2e_triage.sh tests/unit/logs/disk-full/positive.log   # exit code 3
$fence"
  run --separate-stderr examples "$BATS_TEST_TMPDIR"
  assert_status 1
  assert_output '*README.md:1: exit code 2*no*README.md:4: not run: ./scripts/02_down.sh*README.md:8: exit code 3*4 blocks, 3 failed'
}

@test "every workload of the project can be planned" {
  local file name spec
  for file in "$PROJECT"/templates/workloads/*.yaml; do
    name=$(basename "$file" .yaml)
    spec=$PROJECT/templates/$name.json
    [[ -e $spec ]] || spec=$BATS_TEST_TMPDIR/$name.json
    [[ -e $spec ]] || printf '{"workload": "%s", "code_path": "common/code/verl/current"}' "$name" >"$spec"
    run --separate-stderr 43_submit_jobspec.sh "$spec" --dry-run
    [[ $status == 0 && $output == *"workload"*"$name"* ]] || fail "workload $name has no plan"
  done
}

@test "docs without any example that runs are an error" {
  page 'No example.'
  run --separate-stderr examples "$BATS_TEST_TMPDIR"
  assert_status 1
  assert_output '0 blocks, 0 failed'
}

@test "every command of the helper that the docs name exists" {
  local verb verbs
  verbs=$(grep -ohE 'mvp_helpers [a-z][a-z-]+' "$PROJECT"/*.md "$PROJECT"/docs/*.md | cut -d' ' -f2 | sort -u)
  [[ -n $verbs ]] || fail 'the docs name none'
  for verb in $verbs; do
    PYTHONPATH=$PROJECT/lib run --separate-stderr python -m mvp_helpers "$verb" --help
    [[ $status == 0 && $output == *[Uu]sage:* ]] || fail "the docs name the command $verb"
  done
  PYTHONPATH=$PROJECT/lib run --separate-stderr python -m mvp_helpers no-such-command --help
  assert_status 2
}
