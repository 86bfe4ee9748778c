#!/usr/bin/env bats
# Scripts 30 and 31 without a Ray cluster: dry runs of every cluster file, a git server and a hub on loopback, the way of a token. Only a
# proxy that wants a login reaches the hub.

load helpers

setup_file() {
  make_cluster_file prepared 61 610
  cat >>"$MVP_CLUSTER" <<YAML
data: {source: hub}
code: {source: git, path: $FOLDER/private/user/code/verl, repository: "\${MVP_VERL_REPOSITORY:-/nowhere}"}
YAML
  export HF_TOKEN=hf_bats_secret_token
  python "$PROJECT/tests/lab/hub.py" --token "$HF_TOKEN" --login me:unseen-password >"$FOLDER/hub" 3>&- &
  echo "$!" >"$FOLDER/pids"
  "$PROJECT/tests/lab/git_server.sh" "$FOLDER/git" 127.0.0.1 19461 >"$FOLDER/url" 3>&- &
  echo "$!" >>"$FOLDER/pids"
}

teardown_file() {
  local pid
  while read -r pid; do kill "$pid" || true; done <"$FOLDER/pids"
  chmod -R u+w "$FOLDER"
  rm -rf "$FOLDER"
}

@test "the dry runs of every cluster file need no host, docker or allocation, and write nothing" {
  local file script
  mkdir "$BATS_TEST_TMPDIR/bin"
  printf '#!/bin/sh\nexit 1\n' >"$BATS_TEST_TMPDIR/bin/docker"
  chmod +x "$BATS_TEST_TMPDIR/bin/docker"
  for file in "$PROJECT"/templates/ray/*.yaml; do
    for script in 30_prepare_data_and_model.sh 31_snapshot_verl_code.sh; do
      MVP_SHARED_ROOT=$BATS_TEST_TMPDIR/private PATH=$BATS_TEST_TMPDIR/bin:$PATH run --separate-stderr "$script" --cluster "$file" --dry-run
      assert_status 0
      assert_output '/*'
      assert_stderr_has 'would '
    done
  done
  [[ ! -e $BATS_TEST_TMPDIR/private ]] || fail "written: $(find "$BATS_TEST_TMPDIR/private")"
}

@test "30 with the default settings and a token makes data and model from a private hub behind a proxy, and shows no secret" {
  wait_for 60 'the hub' grep -q HF_ENDPOINT "$FOLDER/hub"
  # shellcheck source=/dev/null
  source "$FOLDER/hub"
  export HF_ENDPOINT HTTP_PROXY
  HF_TOKEN='' run --separate-stderr 30_prepare_data_and_model.sh
  assert_status 2
  assert_stderr_has 'has no dataset openai/gsm8k, or it is private (401)'
  MVP_DEBUG=1 run --separate-stderr 30_prepare_data_and_model.sh
  assert_status 0
  [[ $stderr != *"$HF_TOKEN"* && $stderr != *unseen-password* ]] || fail 'a secret is in the trace'
  ! grep -rE "$HF_TOKEN|unseen-password" "$FOLDER/private" || fail 'a secret is on the shared root'
  run --separate-stderr 30_prepare_data_and_model.sh
  assert_status 0
  assert_stderr_has 'skip: exists common/models/Qwen2.5-0.5B-Instruct'
}

@test "30 adopts a copied folder of data and a link into the hub's cache where they are" {
  cp -r "$FOLDER/private/datasets/gsm8k" "$FOLDER/private/datasets/copied"
  snapshot=$(cd "$FOLDER/private/common/models" && echo ../../hf/hub/models--*/snapshots/*)
  ln -s "$snapshot" "$FOLDER/private/common/models/linked"
  run --separate-stderr 30_prepare_data_and_model.sh
  assert_status 0
  assert_stderr_has "adopting $FOLDER/private/datasets/copied: "
  assert_stderr_has "adopting $FOLDER/private/common/models/linked: "
  grep -q "\"commit\": \"${snapshot##*/}\"" "$FOLDER/private/common/models/linked.manifest.json" || fail 'without its commit'
  [[ $(readlink "$FOLDER/private/common/models/linked") == "$snapshot" ]] || fail 'the link was replaced'
}

@test "30 finds the token in user/secrets, and refuses one that others may read" {
  # shellcheck source=/dev/null
  source "$FOLDER/hub"
  export HF_ENDPOINT HTTP_PROXY
  mkdir -p "$FOLDER/private/user/secrets"
  printf '%s\n' "$HF_TOKEN" >"$FOLDER/private/user/secrets/HF_TOKEN"
  rm "$FOLDER/private/datasets/gsm8k/train.parquet"
  rm -rf "$FOLDER/private/hf"
  unset HF_TOKEN
  chmod 644 "$FOLDER/private/user/secrets/HF_TOKEN"
  run --separate-stderr 30_prepare_data_and_model.sh
  assert_status 2
  assert_stderr_has 'is open to others (mode 0644)'
  chmod 600 "$FOLDER/private/user/secrets/HF_TOKEN"
  run --separate-stderr 30_prepare_data_and_model.sh
  assert_status 0
  assert_stderr_has 'made datasets/gsm8k '
}

@test "31 clones verl at the default release, and says what a wrong one is" {
  wait_for 60 'the git server' grep -q git:// "$FOLDER/url"
  run --separate-stderr 31_snapshot_verl_code.sh
  assert_status 3
  assert_stderr_has 'blocked: cannot clone /nowhere into '
  MVP_VERL_REPOSITORY=$(<"$FOLDER/url")
  export MVP_VERL_REPOSITORY
  sed 's|repository: |revision: v0.9, &|' "$MVP_CLUSTER" >"$FOLDER/wrong.yaml"
  run --separate-stderr 31_snapshot_verl_code.sh --cluster "$FOLDER/wrong.yaml"
  assert_status 2
  assert_stderr_has "has no tag, branch or commit 'v0.9' (did you mean 'v0.9.1'?)"
  run --separate-stderr 31_snapshot_verl_code.sh
  assert_status 0
  assert_output "$FOLDER/private/common/code/verl/verl-0.9.1-*"
  run --separate-stderr 31_snapshot_verl_code.sh --list
  assert_output '*git *'
}

everything() { # under the shared root: name, inode, size and time of change of every file and folder
  find "$FOLDER/private" -printf '%p %i %s %T@\n' | sort
}

@test "a second regression of a prepared machine downloads, clones and makes nothing: hub and git server are gone by then" {
  # shellcheck source=/dev/null
  source "$FOLDER/hub"
  MVP_VERL_REPOSITORY=$(<"$FOLDER/url")
  export HF_ENDPOINT HTTP_PROXY MVP_VERL_REPOSITORY
  cd "$BATS_TEST_TMPDIR"
  cp -r "$PROJECT/scripts" .
  ln -s "$PROJECT/lib" "$PROJECT/.venv" "$PROJECT/templates" .
  for pretended in scripts/{00,01,02,12,43,54}_*.sh; do # packages, cluster and jobs
    printf '#!/bin/bash\n[[ $1 != --check ]] || echo up\n' >"$pretended"
  done
  sleep 2 # the code's files were written moments ago: until then 31 reads them again
  run --separate-stderr ./scripts/regress.sh ppo
  assert_status 0
  prepared=$(everything)
  while read -r pid; do kill "$pid"; done <"$FOLDER/pids"
  run --separate-stderr ./scripts/regress.sh ppo
  assert_status 0
  assert_stderr_has 'skip: exists datasets/gsm8k '
  assert_stderr_has 'skip: exists common/models/Qwen2.5-0.5B-Instruct '
  [[ $stderr != *'made '* && $stderr != *adopting* ]] || fail 'something was made'
  diff <(echo "$prepared") <(everything) || fail 'something has changed'
}
