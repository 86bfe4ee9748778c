# shellcheck shell=bash
# Shared by the regressions: steps that are announced and end the regression when they fail, and a cluster that is stopped at the end.

export MVP_CLUSTER=${CLUSTER:-${MVP_CLUSTER:-local}}

step() { # <script> <argument>...
  say "── ${1%.sh} ${*:2}"
  run "$SCRIPTS/$1" "${@:2}" || { code=$? && say "regression stopped by ${1%.sh} (exit code $code)" && exit "$code"; }
}

# shellcheck disable=SC2329 # called by the trap
stop_cluster() { # at exit: stop the cluster that was started here, and keep the exit code
  local code=$?
  trap '' INT TERM
  "$SCRIPTS/02_down.sh" || code=$((code ? code : 1))
  exit "$code"
}

start_regression() { # packages (12), checks (00), cluster (01; stopped at the end when it was down before, unless KEEP=1)
  step 12_install_py_deps.sh
  load_cluster
  step 00_prereq_check.sh >&2
  if [[ -z $DRY_RUN && ${KEEP:-} != 1 && $("$SCRIPTS/01_up.sh" --check || true) == down ]]; then trap stop_cluster EXIT; fi
  step 01_up.sh >&2
}
