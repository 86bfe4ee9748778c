#!/usr/bin/env bash
# Run tests, several files at once, for most of them mostly wait. Each file is one line when it has ended, with the beginning of its
# first failures; all that the failed ones printed follows at the end, then how many tests failed or were skipped, where and why. One file
# alone is shown as it runs.
#
# Up to three failed files are run once more, with nothing beside them: a machine that was too busy is not a defect. The last line names
# those that passed only then.
#
# usage: ./tests/run.sh FILE.bats|FOLDER ...
#
# A folder of .bats files stands for these; any other for pytest. TEST_JOBS says how many run at once (default 3: each may hold a
# Ray cluster, and two leave a tenth of two cores idle), TEST_TAGS which tests run ('!nightly': not the slow and rare ones). A file is
# ended, and has failed, after TEST_FILE_LIMIT_S (default 3600 seconds), all of them after TEST_LIMIT_S (default none), when those that
# had not begun have failed, too. Exit code 1 when something failed, 130 after Ctrl-C, which ends all of them.
set -euo pipefail
shopt -s nullglob
FAILURE='^(not ok|FAILED|ERROR) ' # as bats and pytest begin such a line
PASSED='^(ok |[.s]+ +\[)'         # as they show what passed
BIN=$(cd "$(dirname "$0")/../.venv/bin" && pwd)

start() { # <file or folder> <bats' option>...
  [[ $1 == *.bats ]] || exec "$BIN/pytest" -rfEs --no-fold-skipped ${TEST_TAGS:+-m "${TEST_TAGS/#!/not }"} "$1"
  # Started in the background, bash cannot be interrupted, and tests of Ctrl-C would wait for ever: SIGINT is put back.
  exec "$BIN/python" -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])' \
    "$BIN/bats" --timing ${TEST_TAGS:+--filter-tags "$TEST_TAGS" --allow-empty-suite} "${@:2}" "$1"
}

limited() { # <as start>...: one that hangs is ended
  export -f start
  BIN=$BIN exec timeout --signal=INT --kill-after=60 "${TEST_FILE_LIMIT_S:-3600}" bash -c 'start "$@"' start "$@"
}

items=()
for item in "$@"; do
  files=("$item"/*.bats)
  ((${#files[@]})) || files=("$item")
  items+=("${files[@]}")
done
((${#items[@]} > 1)) || start "${items[0]}" # bats draws it only on a terminal
# The long ones first, or the last of them would run alone: pytest's, those that say so, then by size.
long() {
  printf '99999999999\t%s\n' "${items[@]}" | grep -v '\.bats$' || true
  grep -l -d skip '^# long: ' "${items[@]}" | sed 's/^/9999999999\t/' || true
}
mapfile -t items < <({ long && du -sb "${items[@]}"; } | sort -rn | cut -f2 | awk '!seen[$0]++')

logs=$(mktemp -d)
declare -A running=() since=()
clock='' expired=''
trap 'rm -rf "$logs"; [[ ! $clock ]] || kill "$clock" 2>/dev/null' EXIT
trap stop INT TERM
trap expire USR1
worst=0

# shellcheck disable=SC2329 # by the trap
stop() { # Ctrl-C: all of them, and what they started
  local pids=("${!running[@]}")
  trap '' INT TERM
  [[ ! $clock ]] || kill "$clock" 2>/dev/null || true
  ((${#pids[@]} == 0)) || kill -INT -- "${pids[@]/#/-}" 2>/dev/null || true
  wait
  exit 130
}

# shellcheck disable=SC2329 # by the trap
expire() { # the time of all of them is over, and a minute later that of those which cannot end
  local pids=("${!running[@]}")
  ((${#pids[@]} == 0)) || kill "-${expired:-INT}" -- "${pids[@]/#/-}" 2>/dev/null || true
  expired=KILL
}

forgotten() { # the one that was killed while nothing waited: bash tells of it at once, and no more
  local pid
  for pid in "${!running[@]}"; do
    kill -0 "$pid" 2>/dev/null || printf '%s\n' "$pid"
  done | head -1
}

show() { # the one that has ended
  local pid code=0 name log result=passed
  wait -n -p pid "${!running[@]}" 2>/dev/null || code=$?
  if [[ ! ${pid:-} ]]; then
    pid=$(forgotten)
    [[ $pid ]] || return 0 # woken by the clock
    wait "$pid" 2>/dev/null || code=$?
  fi
  name=${running[$pid]} log=$logs/${running[$pid]//\//_}
  unset "running[$pid]"
  [[ ! $expired ]] || code=1
  if ((code)); then
    worst=1 result=FAILED
    grep -qE "$FAILURE" "$log" || printf 'not ok %s: %s\n' "$name" "${expired:+TEST_LIMIT_S was over }exit code $code" >>"$log"
  fi
  printf '%s %s (%s s)\n' "$result" "$name" $((SECONDS - since[$pid]))
  ((code == 0)) || grep -m 5 -EA7 "$FAILURE" "$log" | cut -c1-240
}

launch() { # <file or folder>: start it, in a process group: none of them is interrupted by a test of another
  local log=$logs/${1//\//_}
  if [[ $expired ]]; then
    printf 'not ok %s: it had not begun when TEST_LIMIT_S was over\n' "$1" >"$log"
    return
  fi
  set -m
  limited "$1" --formatter tap >"$log" 2>&1 </dev/null &
  set +m
  running[$!]=$1 since[$!]=$SECONDS
}

if [[ ${TEST_LIMIT_S:-} ]]; then
  "$BIN/python" - "$TEST_LIMIT_S" <<'PY' &
import os, signal, sys, time
for seconds in float(sys.argv[1]), 60:
    time.sleep(seconds)
    os.kill(os.getppid(), signal.SIGUSR1)
PY
  clock=$!
fi
for item in "${items[@]}"; do
  ((${#running[@]} < ${TEST_JOBS:-3})) || show
  launch "$item"
done
while ((${#running[@]})); do show; done

again=() unsteady=''
for item in "${items[@]}"; do
  ! grep -qE "$FAILURE" "$logs/${item//\//_}" || again+=("$item")
done
if [[ $expired ]]; then
  worst=1
elif ((${#again[@]} > 0 && ${#again[@]} <= 3)); then
  worst=0
  for item in "${again[@]}"; do
    launch "$item"
    show
    grep -qE "$FAILURE" "$logs/${item//\//_}" || unsteady+=" $item"
  done
fi

failed=''
for item in "${items[@]}"; do
  log=$logs/${item//\//_}
  count=$(grep -cE "$FAILURE" "$log") || continue
  failed+=" $item ($count)"
  printf '\n=== %s\n' "$item"
  grep -vE "$PASSED" "$log"
done
skipped=$(sed -n -e 's/^ok .* # skip *\(([^)]*) *\)\?//p' -e 's/^SKIPPED .* - Skipped: //p' "$logs"/* | sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/\1: \2/' | paste -sd';')
printf '\n%s files in %s s. Failed:%s. Skipped: %s.%s\n' "${#items[@]}" "$SECONDS" "${failed:- none}" "${skipped:-none}" \
  "${unsteady:+ Passed only alone:$unsteady.}"
exit "$worst"
