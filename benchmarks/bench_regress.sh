#!/usr/bin/env bash
# Where the time of a regression on a prepared machine goes: beside its two jobs, bring-up and tear-down. Takes about 5 minutes.
#
# usage: ./benchmarks/bench_regress.sh
#
# Runs the PPO regression twice on a cluster with a shared root, addresses and ports of its own, and measures the second run. Prints
# the seconds of each step; the sum of all but 01, 43 and the tear-down should stay under 5.
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"
parse_options '' "$@"
folder=$(mktemp -d "${TMPDIR:-/tmp}/mvp-bench.XXXXXX")
export MVP_CLUSTER=$folder/bench.yaml MVP_HEAD_PORT=6480 MVP_DASHBOARD_PORT=8380 MVP_CLIENT_PORT=10180 MVP_AGENT_PORT=8480
sed -e "s|^state_dir:.*|state_dir: $folder/state|" -e "s|^shared_root:.*|shared_root: $folder/private|" \
  -e 's/127\.0\.0\.1/127.0.4.1/' "$PROJECT/templates/ray/local.yaml" >"$MVP_CLUSTER"

clean_up() {
  "$SCRIPTS/02_down.sh" 2>/dev/null || true
  chmod -R u+w "$folder"
  rm -rf "$folder"
}
trap clean_up EXIT

stamped() { # the regression's messages, each with the time it came at
  local line
  { "$SCRIPTS/regress.sh" ppo >/dev/null; } 2>&1 | while IFS= read -r line; do printf '%s %s\n' "$EPOCHREALTIME" "$line"; done
}

say "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
stamped >"$folder/first"
began=$EPOCHREALTIME
stamped >"$folder/second"
ended=$EPOCHREALTIME
say "load $(cut -d' ' -f1-3 /proc/loadavg)"
awk -v began="$began" -v ended="$ended" '
  function close_step(at) { if (name != "") { seconds[name] += at - since; order[name] = order[name] ? order[name] : ++count } since = at }
  BEGIN { name = "start"; since = began }
  $2 == "──" { close_step($1); name = $3 }
  /: passed after|passed \(|not passed/ { close_step($1); name = "tear-down" }
  END {
    close_step(ended)
    for (step in order) names[order[step]] = step
    for (at = 1; at <= count; at++) {
      step = names[at]
      printf "%-28s %6.1f s\n", step, seconds[step]
      if (step !~ /^(01_up|43_|tear-down)/) rest += seconds[step]
    }
    printf "outside the two jobs, bring-up and tear-down %.1f s (limit 5): %s\n", rest, rest <= 5 ? "within" : "OVER"
  }' "$folder/second"
