# shellcheck shell=bash
# What the end-to-end procedures (60, 61) do with their options: run one here, or start it elsewhere (--via).

run_e2e() { # [option]...: with OPTS of parse_options, which win over these; exit with the verdict
  local commands code=0 job
  OPTS=("$@" "${OPTS[@]}")
  [[ -z $DRY_RUN ]] || OPTS+=(--plan)
  find_python

  if ! given --via || given --plan; then
    "$PYTHON" -m mvp_helpers e2e "${OPTS[@]}" || exit
    exit 0
  fi

  commands=$("$PYTHON" -m mvp_helpers e2e "${OPTS[@]}") || exit
  eval "$commands" # LAUNCH, and LAUNCH_LOG where LAUNCH does not itself print the procedure's output
  export MVP_CLUSTER=${MVP_CLUSTER:-local}
  if ((${#LAUNCH_LOG[@]} == 0)); then
    "${LAUNCH[@]}" || exit
    exit 0
  fi
  job=$("${LAUNCH[@]}" | tee >(cat >&2)) || code=$?
  [[ -n $job || $code == 0 ]] || exit "$code" # it was not even submitted
  "${LAUNCH_LOG[@]}" | "$PYTHON" -m mvp_helpers e2e-summary --exit-code "$code" || exit
}
