# shellcheck shell=bash
# shellcheck disable=SC2154 # bats sets output and stderr
# What a new user does on a kind of hosts, from a clone to two verified PPO jobs: the commands of a page's first example, typed as
# written. The clone, its packages, the hub and the git server with verl are real; only the sizes are small.

# In CLONE: the tracked files of this project, as a new user has them. What 12 installs is downloaded before, because the hosts' network
# has no package index.
make_clone() {
  export CLONE=$LAB_DIR/mvp PIP_NO_INDEX=1 PIP_FIND_LINKS=$LAB_DIR/wheels
  mkdir "$CLONE"
  git -C "$PROJECT" ls-files -z | tar -C "$PROJECT" --null -cT - | tar -xC "$CLONE"
  # shellcheck disable=SC2046 # words
  PIP_NO_INDEX='' PIP_FIND_LINKS='' python3 -m pip download --quiet --dest "$LAB_DIR/wheels" \
    $(sed -n '/^dependencies = /,/^\]/s/^ *"\([^"]*\)".*/\1/p' "$PROJECT/pyproject.toml") 2>"$LAB_DIR/why" ||
    skip "no package index answers: $(tail -n 1 "$LAB_DIR/why")"
}

shrink() { # <cluster> <sed program>: its file in the clone, for a machine without GPUs and with a few cores
  sed -i -e 's/^device: .*/device: cpu/' -e 's/^worker: .*/worker: {num_cpus: 8, resources: {worker_node: 100}}/' -e "$2" \
    "$CLONE/templates/ray/$1.yaml"
  echo 'ray: {object_store_mb: 100, start_timeout_s: 400}' >>"$CLONE/templates/ray/$1.yaml"
}

# A hub with private repositories, which only a proxy with a login reaches, and verl's repository.
serve() { # <address> [<argv> to put before]...: sets HF_ENDPOINT, HTTP_PROXY, HF_TOKEN, VERL_URL
  local address=$1
  shift
  export HF_TOKEN=hf_lab_secret_token
  HF_HUB_DISABLE_XET=1 "$@" "$PROJECT/.venv/bin/python" "$PROJECT/tests/lab/hub.py" --listen "$address" --rows 32 \
    --token "$HF_TOKEN" --login me:unseen-password >"$LAB_DIR/hub" 3>&- 4>&- &
  echo "$!" >"$LAB_DIR/servers"
  "$@" "$PROJECT/tests/lab/git_server.sh" "$LAB_DIR/git" "$address" >"$LAB_DIR/verl" 3>&- 4>&- &
  echo "$!" >>"$LAB_DIR/servers"
  wait_for 120 'the hub' grep -q HTTP_PROXY "$LAB_DIR/hub"
  wait_for 120 'the git server' test -s "$LAB_DIR/verl"
  # shellcheck source=/dev/null
  source "$LAB_DIR/hub"
  VERL_URL=$(<"$LAB_DIR/verl")
  export HF_ENDPOINT HTTP_PROXY VERL_URL
}

end_servers() {
  local pid
  while read -r pid; do kill "$pid" 2>/dev/null || true; done < <(cat "$LAB_DIR/servers" 2>/dev/null)
}

first_commands() { # <page>: of its first example
  PYTHONPATH=$PROJECT/lib:$PROJECT/tests/unit python -c 'import sys, doc_pages
page = next(page for page in doc_pages.pages() if page.name == sys.argv[1])
print("\n".join(page.blocks[0].commands))' "$1"
}

type_first_commands() { # <page> [<argv> to put before]...: in the clone, by a user whose settings name the hub and a mirror of verl
  local commands
  commands=$(first_commands "$1")
  [[ $(wc -l <<<"$commands") == 3 ]] || fail "not three commands: $commands"
  shift
  # shellcheck disable=SC2031
  run --separate-stderr env -u MVP_CLUSTER -u MVP_SHARED_ROOT -u PYTHONPATH "MVP_VERL_REPOSITORY=$VERL_URL" PATH="${PATH//$PROJECT\/scripts:$PROJECT\/.venv\/bin:/}" \
    "$@" bash -c "cd $CLONE && set -e
$commands"
}

assert_first_hour() { # <shared root, as this machine sees it>
  local part
  assert_status 0
  assert_output '*2 jobs: * 0 Fail*'
  [[ $output$stderr != *"$HF_TOKEN"* && $output$stderr != *unseen-password* ]] || fail 'a secret is printed'
  part=$(grep -rlE "$HF_TOKEN|unseen-password" "$1" "$CLONE/.mvp" 2>/dev/null) || true
  [[ -z $part ]] || fail "a secret is in $part"
  for part in 12_install 00_prereq 01_up 30_prepare 31_snapshot 43_submit 54_verify "regression of 'ppo' on cluster"; do
    assert_stderr_has "$part"
  done
  [[ $stderr == *': down after '* ]] || fail 'the cluster is not stopped'
  [[ $(grep -l '"state": "SUCCEEDED"' "$1"/jobs/ppo-*/result.json | wc -l) == 2 ]] || fail 'not two jobs that succeeded'
  [[ ! -e $(echo "$CLONE"/.venv/lib/python3*/site-packages/torch) && ! -e $(echo "$CLONE"/.venv/lib/python3*/site-packages/ray) ]] ||
    fail 'torch or Ray was installed on the launching machine'
}

assert_nodes_in() { # <shared root> <start of an address>: where Ray had the nodes of every job
  python - "$2" "$1"/jobs/ppo-*/config/provenance.json <<'PY'
import json, sys
for path in sys.argv[2:]:
    with open(path) as file:
        hosts = json.load(file)["hosts"]
    assert len(hosts) == 3 and all(host["ip"].startswith(sys.argv[1]) and host["node_id"] for host in hosts), hosts
PY
}
