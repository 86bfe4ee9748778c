#!/usr/bin/env bash
# 01_up.sh of three local nodes against three `ray start` one after another with the same flags (but --resources); interleaved runs.
#
# usage: ./benchmarks/bench_up.sh [ROUNDS]
#
# 01_up.sh ends when all three nodes are proved alive with their resources, three `ray start` when the last command returns. The ratio
# of the medians goes to stdout; it should stay under 0.6. Runs on addresses, ports and a state folder of its own.
#
# examples:
#   ./benchmarks/bench_up.sh 5
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"
parse_options '[ROUNDS]' "$@"
rounds=${ARGS[0]:-3}
folder=$(mktemp -d "${TMPDIR:-/tmp}/mvp-bench.XXXXXX")
export MVP_CLUSTER=$folder/bench.yaml MVP_HEAD_PORT=6470 MVP_DASHBOARD_PORT=8370 MVP_CLIENT_PORT=10170 MVP_AGENT_PORT=8470
sed -e "s|^state_dir:.*|state_dir: $folder/state|" -e "s|^shared_root:.*|shared_root: $folder/private|" \
  -e 's/127\.0\.0\.1/127.0.3.1/' "$PROJECT/templates/ray/local.yaml" >"$MVP_CLUSTER"

clean_up() {
  "$SCRIPTS/02_down.sh" 2>/dev/null || true
  end_bare
  rm -rf "$folder"
}
trap clean_up EXIT

seconds() { # <command>...: how long it took
  local began=$EPOCHREALTIME
  "$@" >"$folder/out" 2>&1 || { cat "$folder/out" >&2 && exit 1; }
  seconds_since "$began"
}

bare_nodes() { # what a person would type: the recorded commands of 01_up.sh, without --block, in sequence
  local host
  for host in head worker-0 worker-1; do
    grep '^===' "$folder/state/$host/ray_start.log" | tail -n 1 | cut -d' ' -f3- >"$folder/command"
    read -ra words <"$folder/command"
    local at kept=()
    for at in "${!words[@]}"; do
      case ${words[at]} in
        mvp_helpers.cluster.ray_command) kept+=(ray.scripts.scripts) ;;
        --block | --resources=* | '100}') ;;
        --temp-dir=*) kept+=("--temp-dir=$folder/$host") ;;
        *) kept+=("${words[at]}") ;;
      esac
    done
    BENCH_BARE=$folder RAY_AUTH_MODE=disabled "${kept[@]}"
  done
}

end_bare() { # only what bare_nodes started: it carries our folder in its environment, or its parent does (agents overwrite theirs)
  local file found=1
  while [[ -n $found ]]; do
    found=''
    for file in /proc/[0-9]*/environ; do
      grep -qz "^BENCH_BARE=$folder$" "$file" 2>/dev/null || continue
      found=1
      pkill -KILL -P "${file//[!0-9]/}" || true
      kill -KILL "${file//[!0-9]/}" 2>/dev/null || true
    done
  done
}

ups=() bares=()
for ((round = 1; round <= rounds; round++)); do
  ups+=("$(seconds "$SCRIPTS/01_up.sh")")
  "$SCRIPTS/02_down.sh" 2>/dev/null
  bares+=("$(seconds bare_nodes)")
  end_bare
  say "round $round: 01_up.sh ${ups[-1]} s, three ray start ${bares[-1]} s"
done

median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }
up=$(median "${ups[@]}") bare=$(median "${bares[@]}")
awk -v up="$up" -v bare="$bare" 'BEGIN { printf "01_up.sh %s s, three ray start %s s, ratio %.2f (limit 0.60)\n", up, bare, up / bare }'
