#!/usr/bin/env bash
# The verbs of a cluster's host driver, for tests. usage: MVP_CLUSTER=… ./tests/lab/verbs.sh host_exec worker-0 -- hostname
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/common.sh"
if [[ ${1:-} == *hosts_up ]]; then load_cluster --unlocated; else load_cluster; fi

codes_of() { # <host> <exit code>...: the exit codes that come back from commands that end with these
  local code got
  for code in "${@:2}"; do
    got=0
    host_exec "$1" -- /bin/sh -c "exit $code" || got=$?
    printf '%s\n' "$got"
  done
}

at_once() { # <host> <how many>: commands at the same time, each of which prints its number
  local count
  for ((count = 0; count < $2; count++)); do host_exec "$1" -- echo "$count" & done
  wait
}

"$@" || exit
