#!/usr/bin/env bats
# The host driver "local" does what every host driver has to do. No Ray is started.

load lab
load conformance

setup_file() {
  make_cluster_file conform 7 70
}

teardown_file() {
  rm -rf "$FOLDER"
}

# shellcheck disable=SC2046 # words
conforms head worker-0 $(seq 0 255)
