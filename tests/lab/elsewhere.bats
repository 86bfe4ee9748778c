#!/usr/bin/env bats
# Everything works from any folder: a copy of this project below /tmp, with a space in its path, and hosts that have a /tmp of their own.

load lab
load conformance
load ssh_hosts

setup_file() {
  lab_needs namespaces sshd
  COPY=$(mktemp -d '/tmp/mvp lab.XXXXXX')/mvp
  export COPY
  mkdir "$COPY"
  git -C "$PROJECT" ls-files -z | tar -cC "$PROJECT" --null -T - | tar -xC "$COPY"
  ln -s "$(realpath "$PROJECT/.venv")" "$COPY/.venv"
  from_there
  make_ssh_lab awayt 10.77.9
  in_lab "$PROJECT/tests/lab/verbs.sh" hosts_up
}

teardown_file() {
  from_there
  end_ssh_lab
  rm -rf "${COPY%/mvp}"
}

setup() {
  from_there
}

# shellcheck disable=SC2034 # for lab.bash
from_there() { # all that follows uses the copy
  PROJECT=$COPY NETLAB=$COPY/tests/lab/netlab.sh PATH=$COPY/scripts:$PATH
}

# shellcheck disable=SC2034 # for conformance.bash
WITHIN=(in_lab) CONFORM_HEAD=head CONFORM_HOST=worker-0
bats_test_function --description 'every argument arrives byte for byte on hosts of another folder' -- conform_argv
bats_test_function --description 'a command sees its host, the cluster and the helper of another folder' -- conform_environment

@test "a shared root with a space in its path is refused in one line, and another is taken" {
  run --separate-stderr env -u MVP_SHARED_ROOT 01_up.sh --cluster local --dry-run
  assert_status 2
  assert_stderr_has "shared_root '$COPY/.mvp/private' has a character that a shell or Hydra would split"
  assert_stderr_has 'try: MVP_SHARED_ROOT=/a/plain/path'
  [[ $(wc -l <<<"$stderr") == 2 ]] || fail 'more than a message and its hint'
  MVP_SHARED_ROOT=$LAB_DIR/shared run --separate-stderr 01_up.sh --cluster local --dry-run
  assert_status 0
}
