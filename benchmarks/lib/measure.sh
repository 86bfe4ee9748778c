# shellcheck shell=bash
# Side-by-side measurements on the running local cluster: commands take turns within one run, medians are compared.
# A benchmark sets ROUNDS and calls `measure` for each command in a loop over them, then `compare`.

source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/common.sh"

ROUNDS=${ROUNDS:-7}
declare -A TIMES=() # label → milliseconds of each round, separated by spaces

start_benchmark() { # <argument>...: options, cluster, Ray's own commands on the PATH, a folder for synthetic jobs
  parse_options '' "$@"
  export MVP_CLUSTER # --cluster is for the scripts that are measured too
  load_cluster
  [[ $HOST_DRIVER == local ]] || die 2 "benchmarks run on a local cluster, not on '$CLUSTER_NAME' ($HOST_DRIVER)"
  BENCH_TMP=$(mktemp -d)
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$BENCH_TMP'" EXIT
  # shellcheck disable=SC2031 # other functions change it in subshells of their own
  export PATH=$PROJECT/.venv/bin:$PATH
  eval "$("$PYTHON" "$PROJECT/benchmarks/lib/synthetic.py" variables)"
  "$PROJECT/scripts/50_status.sh" --json --limit 0 | grep -q '"up": true' || die 3 "cluster '$CLUSTER_NAME' is not up" './scripts/01_up.sh'
  say "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $ROUNDS rounds"
}

synthetic_root() { # <number of finished jobs>: prints a cluster file for the running cluster with that many job folders
  "$PYTHON" "$PROJECT/benchmarks/lib/synthetic.py" root "$BENCH_TMP/$1" "$1"
}

measure() { # <label> <command>...: one run, its output hidden; a failure ends the benchmark
  local label=$1 began=$EPOCHREALTIME
  shift
  "$@" >"$BENCH_TMP/output" 2>&1 || die 1 "$* failed: $(tail -n 3 "$BENCH_TMP/output")"
  TIMES[$label]+=" $(((${EPOCHREALTIME/[.,]/} - ${began/[.,]/}) / 1000))"
}

median() { # <label>: milliseconds
  local sorted
  mapfile -t sorted < <(tr ' ' '\n' <<<"${TIMES[$1]# }" | sort -n)
  printf '%s' "${sorted[${#sorted[@]} / 2]}"
}

compare() { # <label> <label it is compared with> <limit of the ratio>
  local ours theirs
  ours=$(median "$1") theirs=$(median "$2")
  awk -v a="$ours" -v b="$theirs" -v limit="$3" -v one="$1" -v other="$2" 'BEGIN {
    printf "%-44s %6.2f s\n%-44s %6.2f s\nratio %.3f (limit %s): %s\n", one, a / 1000, other, b / 1000, a / b, limit, a / b <= limit ? "within" : "OVER"
  }'
}
