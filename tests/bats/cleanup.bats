#!/usr/bin/env bats
# Script 03 with a docker that only pretends.

load helpers

setup() {
  cd "$BATS_TEST_TMPDIR" || return
  mkdir bin
  PATH=$PWD/bin:$PATH
}

docker_says() { # <what docker ps prints>
  printf '%s\n' "$1" >listing
  printf '#!/bin/sh\n[ "$1" != ps ] || exec cat %q\necho "$*" >>%q\n' "$PWD/listing" "$PWD/docker.calls" >bin/docker
  chmod +x bin/docker
}

@test "old containers are listed, then removed" {
  docker_says $'aaa mvp-ray-head (Exited)\nccc mvp-ray-worker-1 (Up 3 days)'
  run --separate-stderr 03_cleanup_v1_legacy.sh --dry-run
  assert_status 0
  assert_output 'would run: docker rm -f aaa ccc'
  [[ ! -e docker.calls ]] || fail "docker was called: $(<docker.calls)"
  run --separate-stderr 03_cleanup_v1_legacy.sh
  assert_status 0
  assert_stderr_has 'old container: mvp-ray-worker-1 (Up 3 days)'
  [[ $(<docker.calls) == 'rm -f aaa ccc' ]] || fail "docker was called: $(<docker.calls)"
}

@test "nothing to do is said, and fine: no containers, no daemon" {
  docker_says ''
  run --separate-stderr 03_cleanup_v1_legacy.sh
  assert_status 0
  assert_stderr_has 'nothing to do: no containers of version 1'
  printf '#!/bin/sh\nexit 1\n' >bin/docker
  run --separate-stderr 03_cleanup_v1_legacy.sh
  assert_status 0
  assert_stderr_has 'nothing to do: the docker daemon does not answer'
}
