# shellcheck shell=bash
# Hosts of the loaded cluster. A host driver (scripts/lib/hosts/<driver>.sh) implements five verbs and nothing else:
#
#   hosts_up                          make all hosts reachable (create containers, check ssh …); quick when they are
#   hosts_down                        undo what hosts_up did, and nothing else; does nothing when run again
#   hosts_list                        print the names, one per line, head first
#   host_exec NAME [-i] -- ARGV...    run ARGV on a host: every argument arrives byte for byte, and its exit code is returned;
#                                     stdin only with -i. The environment has MVP_HOST, MVP_HOST_IP, MVP_CLUSTER_JSON, a
#                                     PYTHONPATH with the helper, and no RAY_* variable of the caller
#   host_ip NAME                      print the address that its Ray node announces; exit code 1 while it is unknown, 3 when the
#                                     host certainly does not run (and so no Ray node on it)
#
# Everything below uses only these verbs.

[[ -r $SCRIPTS/lib/hosts/$HOST_DRIVER.sh ]] ||
  die 2 "cluster '$CLUSTER_NAME': unknown host driver '$HOST_DRIVER' (no scripts/lib/hosts/$HOST_DRIVER.sh)" 'a cluster file with host_driver: local'
# shellcheck disable=SC2034 # for 02_down.sh: hosts_down ends every process on the hosts, also when a host itself did not answer
DOWN_ENDS_RAY=''
HOST_STEPS='' STEPS=$PROJECT/.mvp/$CLUSTER_NAME/steps # <host>/{out,log,code,pid} for each step that stays
# shellcheck source=scripts/lib/hosts/local.sh
source "$SCRIPTS/lib/hosts/$HOST_DRIVER.sh"

# On the host: send signal $1 to all processes with the mark $2; those that remain get TERM, then KILL.
# shellcheck disable=SC2016,SC2034 # for drivers that cannot forward Ctrl-C to the host
END_MARKED='marked() { pids=$(grep -ls "MVP_EXEC=$1" /proc/[0-9]*/environ | cut -d/ -f3); [ -n "$pids" ]; }
tries=0
until marked "$2" || [ $tries -ge 3 ]; do sleep 0.1; tries=$((tries + 1)); done # it may not have started
for signal in "$1" TERM KILL; do
  marked "$2" || exit 0
  kill -s "$signal" $pids 2>/dev/null
  tries=0
  while marked "$2" && [ $tries -lt 150 ]; do sleep 0.1; tries=$((tries + 1)); done
done'

NEEDED=("${HOSTS[@]}") # the hosts that this script uses; with --here only this machine
[[ -z ${ONLY_HERE:-} ]] || NEEDED=("$MVP_HERE")

locate_hosts() { # ask the hosts for the addresses that the cluster file lacks: into HOST_IPS and MVP_CLUSTER_JSON
  local at ip words=()
  for at in "${!HOSTS[@]}"; do
    [[ -n ${HOST_IPS[at]} ]] || ! ip=$(host_ip "${HOSTS[at]}") || words+=(--at "${HOSTS[at]}=$ip")
  done
  ((${#words[@]} == 0)) || read_cluster_file "${words[@]}"
}

bring_hosts_up() { # make the hosts reachable, and find their addresses
  if [[ -n $HOST_STEPS ]]; then hosts_up; else run hosts_up; fi
  [[ -n $DRY_RUN ]] || locate_hosts
}

take_hosts_down() {
  if [[ -n $HOST_STEPS ]]; then hosts_down; else run hosts_down; fi
}

helper_on() { # <host> [-i] <argument>...: run the Python helper on a host
  local host=$1 stdin=()
  shift
  [[ ${1:-} != -i ]] || { stdin=(-i) && shift; }
  host_exec "$host" "${stdin[@]}" -- "$CLUSTER_PYTHON" -m mvp_helpers "$@"
}

helper_online() { # <host> <argument>...: as helper_on, with this machine's proxies and hub; some are secret, so they go through stdin
  "$PYTHON" -m mvp_helpers pack-network | helper_on "$1" -i "${@:2}" --network
}

answers() { # <host>: whether a command can be run on it now
  (locate_hosts && host_exec "$1" -- true) &>/dev/null </dev/null
}

plan_on() { # <host> <argument>...: a dry run of the helper on a host; on this machine when the host does not answer, as if it had no files
  if answers "$1"; then
    helper_online "$@" --dry-run
  else
    say "$1 does not answer: this is the plan for an empty shared root"
    "$PYTHON" -m mvp_helpers "${@:2}" --dry-run --away
  fi
}

deploy_tools() { # copy this project to TOOLS_DIR, on one host when all share it; print the result for each host
  local targets=("${NEEDED[@]}")
  [[ $TOOLS_DIR != "$SHARED_ROOT"/* ]] || targets=("${NEEDED[0]}")
  on_each put_tools "${targets[@]}"
}

# On the host: a folder appears complete or not at all, and is never changed.
# shellcheck disable=SC2016
UNPACK='if [ -d "$1" ]; then cat >/dev/null; echo "$MVP_HOST: already there"; exit; fi
umask 022 && mkdir -p "${1%/*}" && new=$(mktemp -d "$1.XXXXXX") && tar -xC "$new" && chmod 755 "$new" && mv -T "$new" "$1" &&
  echo "$MVP_HOST: deployed"'

put_tools() { # <host>
  run send_tools "$1"
}

send_tools() { # <host>
  "$PYTHON" -m mvp_helpers tool-files | tar -cC "$PROJECT" --null -T - --owner=0 --group=0 |
    host_exec "$1" -i -- /bin/sh -c "$UNPACK" mvp "$TOOLS_DIR"
}

AT_ONCE=32 # hosts that on_each handles at the same time

on_each() { # <command> <host>...: run the command for all hosts, AT_ONCE at a time; a failure names the hosts
  local command=$1 at code worst=0 failed=() pids=() names=("${@:2}")
  if [[ -n $DRY_RUN ]]; then
    for at in "${!names[@]}"; do "$command" "${names[at]}"; done
    return
  fi
  trap 'kill -TERM "${pids[@]/#/-}" 2>/dev/null; wait; exit 130' INT TERM
  for at in "${!names[@]}"; do
    ((at < AT_ONCE)) || collect $((at - AT_ONCE))
    set -m # a process group for each host: Ctrl-C and TERM reach everything that its command started
    { trap 'exit 143' TERM && "$command" "${names[at]}"; } &
    pids[at]=$!
    set +m
  done
  for at in "${!pids[@]}"; do collect "$at"; done
  trap 'exit 130' INT
  trap 'exit 143' TERM
  ((worst == 0)) || die "$worst" "${command//_/ }: ${failed[*]}"
}

collect() { # <index>: wait for one host of on_each
  code=0
  wait "${pids[$1]}" || code=$?
  unset "pids[$1]"
  ((code == 0)) || { failed+=("${names[$1]}") && worst=$((code > worst ? code : worst)); }
}

start_node() { # <host> [--early]: print "started", "repaired" or "already running"
  if [[ -z $HOST_STEPS ]]; then
    run helper_on "$1" start-node "$@"
  elif [[ -n $DRY_RUN ]]; then
    WOULD=1 helper_on "$1" start-node "$@" --stay
  else
    start_in_step "$@"
  fi
}

start_in_step() ( # <host> [--early]: as start_node, with a command that outlives this script and ends with the node
  step=$STEPS/$1 new=$STEPS/.$1.$BASHPID
  mkdir -p "$new"
  KEEP=$new helper_on "$1" start-node "$@" --stay
  trap 'interrupt_step "$new" 130' INT
  trap 'interrupt_step "$new" 143' TERM
  until [[ -s $new/out || -e $new/code ]]; do sleep 0.1; done
  cat "$new/log" >&2
  started=$(<"$new/out")
  if [[ $started == 'already running' ]]; then
    rm -rf "$new" "$step/code" # the step may run although the launching machine lost contact with it
  else
    rm -rf "$step" && mv "$new" "$step"
    [[ -n $started ]] || exit "$(<"$step/code")"
  fi
  printf '%s\n' "$started"
)

interrupt_step() { # <its folder> <exit code>: send Ctrl-C to the step, wait until it has cleaned up, and exit
  trap '' INT TERM
  until [[ -s $1/pid ]]; do sleep 0.1; done
  kill -INT -- "-$(<"$1/pid")"
  until [[ -e $1/code ]]; do sleep 0.1; done
  cat "$1/log" >&2
  rm -rf "$1"
  exit "$2"
}

report_ended_steps() { # one message for each step whose Ray node has ended
  local step code
  for step in "$STEPS"/*/; do
    step=${step%/}
    [[ -e $step/code ]] || continue
    code=$(<"$step/code")
    say "${step##*/}: its Ray node's step ended $(date -r "$step/code" +%T) with exit code $code ($step/log); ./scripts/01_up.sh repairs"
    tail -n 8 "$step/log" | sed 's/^/    /' >&2
  done
}

helper_if_up() { # <host> <verb> [argument]...: does nothing on a host that certainly does not run
  local code=0
  host_ip "$1" >/dev/null || code=$?
  ((code == 3)) || run helper_on "$@"
}

stop_node() { # <host>
  helper_if_up "$1" stop-node "$1" >/dev/null
}

helper_for_plan() { # [-i] <argument>...: as helper_on "$HEAD"; for a plan also on this machine, when the head does not answer
  if [[ -n $DRY_RUN ]] && ! answers "$HEAD"; then
    say "$HEAD does not answer: planned on this machine"
    [[ $1 != -i ]] || shift
    "$PYTHON" -m mvp_helpers "$@" || exit
  else
    locate_hosts
    helper_on "$HEAD" "$@"
  fi
}

submit_spec() { # <JobSpec file> [--set=KEY=VALUE]... [--wait | --no-wait] [--timeout S] [--pending-timeout S]: see 43_submit_jobspec.sh
  local spec=$1 file
  shift
  find_spec "$spec"
  if grep -q secrets "$file"; then # their values are in this environment, and reach the head only through stdin
    "$PYTHON" -m mvp_helpers pack-spec --spec-name "$spec" <"$file" |
      helper_for_plan -i submit --packed --spec-name "$spec" "$@" ${DRY_RUN:+--dry-run} || exit # the message was printed in the pipe
  else
    helper_for_plan -i submit --spec-name "$spec" "$@" ${DRY_RUN:+--dry-run} <"$file"
  fi
}

find_spec() { # <JobSpec file>: set file to a path that this machine can read; an absolute path may be one of the hosts
  local copy code=0
  file=$1
  [[ -e $file || $file != "$TOOLS_DIR"/* ]] || file=$PROJECT/${file#"$TOOLS_DIR"/}
  if [[ ! -e $file && $file == "$SHARED_ROOT"/* ]]; then
    host_exec "$HEAD" -- test -f "$file" || code=$?
    ((code < 2)) || exit "$code"
    if ((code == 0)); then
      copy=$(mktemp)
      exec {SPEC}<>"$copy" && rm "$copy" # nothing is left, however this script ends
      host_exec "$HEAD" -- cat "$file" >"/dev/fd/$SPEC" || exit
      file=/dev/fd/$SPEC
      return
    fi
  fi
  [[ -e $file ]] || die 2 "no such file: $1" 'a copy of templates/ppo.json'
  [[ -f $file && -r $file ]] || die 2 "cannot read $1: not a readable file" "ls -l $1"
}

[[ -z $HOST_STEPS ]] || report_ended_steps
