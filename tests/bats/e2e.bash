# shellcheck shell=bash
# Shared by the tests of the end-to-end procedures: fixture checkouts in FIXTURES, and their environment in every test.

setup_file() {
  FIXTURES=$(mktemp -d "${TMPDIR:-/tmp}/mvp-test.XXXXXX")
  export FIXTURES
  make_e2e_fixtures "$FIXTURES"
}

setup() {
  # shellcheck source=/dev/null
  source "$FIXTURES/environment"
}

teardown_file() {
  rm -rf "$FIXTURES"
}
