#!/usr/bin/env bats
# Three hosts with sshd, each with a network and processes of its own: the same scripts and JobSpecs as everywhere. The order counts.

load lab
load conformance
load ssh_hosts

setup_file() {
  lab_needs namespaces sshd
  make_ssh_lab ssht 10.77.1
  in_lab 01_up.sh >"$LAB_DIR/up.out" 2>"$LAB_DIR/up.err" || { cat "$LAB_DIR/up.err" >&2 && false; }
}

teardown_file() {
  end_ssh_lab
}

# shellcheck disable=SC2034 # for conforms
WITHIN=("$NETLAB" lab)
host_goes_down() { "$NETLAB" cut "$1"; }
host_comes_back() { "$NETLAB" heal "$1"; }
conforms head worker-0
