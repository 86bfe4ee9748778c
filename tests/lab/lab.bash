# shellcheck shell=bash
# What every file of the lab loads: the helpers of all tests, what a test needs of the machine, and namespace hosts with their sshd.

load ../bats/helpers

NETLAB=$PROJECT/tests/lab/netlab.sh

lab_needs() { # <what>...: in setup_file; skips all tests of the file, by name and with the reason, where the machine lacks one
  local what why
  for what in "$@"; do
    why=$("lacks_$what")
    [[ -z $why ]] || skip "$why"
  done
}

# Each prints why this machine lacks something, or nothing.

lacks_root() { ((EUID == 0)) || echo 'not root'; }

lacks_commands() { # <command>...
  local command
  for command in "$@"; do
    command -v "$command" >/dev/null || PATH=/usr/sbin:/sbin command -v "$command" >/dev/null || { echo "$command is not installed" && return; }
  done
}

lacks_namespaces() {
  lacks_root
  lacks_commands ip nsenter unshare
  unshare --net --mount --pid --uts --ipc --fork true 2>/dev/null || echo 'no namespaces can be made here'
}

lacks_sshd() { lacks_commands ssh sshd ssh-keygen; }

make_lab() { # <prefix> <subnet> [<setup file>]: hosts as netlab.sh makes them, for setup_file; LAB_DIR is their folder
  LAB_DIR=${LAB_DIR:-$(mktemp -d "${TMPDIR:-/tmp}/mvp-lab.XXXXXX")}
  export LAB_DIR LAB_PREFIX=$1 LAB_SUBNET=$2 LAB_SETUP=${3:-} LAB_HOSTS=${LAB_HOSTS:-head worker-0 worker-1}
  "$NETLAB" up
}

end_lab() { # for teardown_file
  [[ -n ${LAB_DIR:-} ]] || return 0
  "$NETLAB" down
  rm -rf --one-file-system "$LAB_DIR"
}

closed_to_others() { # <command>...: that runs its arguments as root on a host of ours
  run --separate-stderr "$@" python3 - <"$PROJECT/tests/lab/as_nobody.py"
  assert_status 0
  assert_output '* sockets and 3 folders are closed'
}

on_host() { # <host> <argv>...: as its root, past all host drivers
  "$NETLAB" exec "$@"
}

in_lab() { # <argv>...: here, on the hosts' network
  "$NETLAB" lab "$@"
}
