# shellcheck shell=bash
# Hosts of the loaded cluster. A host driver (scripts/lib/hosts/<driver>.sh) implements five verbs and nothing else:
#
#   hosts_up                          make all hosts reachable (create containers, check ssh …); again is fine and quick
#   hosts_down                        undo what hosts_up made, and only that; again is fine
#   hosts_list                        names, one a line, head first
#   host_exec NAME [-i] -- ARGV...    run ARGV on a host: every argument arrives byte for byte, the exit code comes back;
#                                     stdin only with -i. Its environment has MVP_HOST, MVP_HOST_IP, MVP_CLUSTER_JSON, a
#                                     PYTHONPATH with the helper, and no RAY_* variable of the caller
#   host_ip NAME                      the address its Ray node announces; nothing and exit code 1 while that is not known, 3 when
#                                     the host certainly does not run (and so no Ray node on it)
#
# Everything below is written on top of them.

[[ -r $SCRIPTS/lib/hosts/$HOST_DRIVER.sh ]] ||
  die 2 "cluster '$CLUSTER_NAME': host driver '$HOST_DRIVER' is not supported yet" 'a cluster file with host_driver: local'
# shellcheck source=scripts/lib/hosts/local.sh
source "$SCRIPTS/lib/hosts/$HOST_DRIVER.sh"

locate_hosts() { # the addresses that the cluster file leaves to the hosts: into HOST_IPS and MVP_CLUSTER_JSON
  local at ip words=()
  for at in "${!HOSTS[@]}"; do
    [[ -n ${HOST_IPS[at]} ]] || ! ip=$(host_ip "${HOSTS[at]}") || words+=(--at "${HOSTS[at]}=$ip")
  done
  ((${#words[@]} == 0)) || read_cluster_file "${words[@]}"
}

bring_hosts_up() { # hosts that can be reached, and where they are
  run hosts_up
  [[ -n $DRY_RUN ]] || locate_hosts
}

helper_on() { # <host> [-i] <argument>...: the Python helper, run on a host
  local host=$1 stdin=()
  shift
  [[ ${1:-} != -i ]] || { stdin=(-i) && shift; }
  host_exec "$host" "${stdin[@]}" -- "$CLUSTER_PYTHON" -m mvp_helpers "$@"
}

AT_ONCE=32 # hosts that are worked on at the same time

on_each() { # <command> <host>...: run the command for all hosts, many at once; failures name the hosts
  local command=$1 at code worst=0 failed=() pids=() names=("${@:2}")
  if [[ -n $DRY_RUN ]]; then
    for at in "${!names[@]}"; do "$command" "${names[at]}"; done
    return
  fi
  trap 'kill -TERM "${pids[@]/#/-}" 2>/dev/null; wait; exit 130' INT TERM
  for at in "${!names[@]}"; do
    ((at < AT_ONCE)) || collect $((at - AT_ONCE))
    set -m # a process group each: Ctrl-C and TERM are passed on to all that a host's command started
    "$command" "${names[at]}" &
    pids[at]=$!
    set +m
  done
  for at in "${!pids[@]}"; do collect "$at"; done
  trap 'exit 130' INT
  trap 'exit 143' TERM
  ((worst == 0)) || die "$worst" "$command: ${failed[*]}"
}

collect() { # <at>: on_each's own
  code=0
  wait "${pids[$1]}" || code=$?
  unset "pids[$1]"
  ((code == 0)) || { failed+=("${names[$1]}") && worst=$((code > worst ? code : worst)); }
}

start_worker() { # <host>
  run helper_on "$1" start-node "$1"
}

stop_node() { # <host>
  local code=0
  host_ip "$1" >/dev/null || code=$?
  ((code != 3)) || return 0
  run helper_on "$1" stop-node "$1" >/dev/null
}

submit_spec() { # <JobSpec file> [--wait | --no-wait] [--timeout S] [--pending-timeout S]: see 43_submit_jobspec.sh
  local spec=$1
  shift
  [[ -e $spec ]] || die 2 "no such file: $spec" 'templates/ppo.json is the one to start from'
  [[ -f $spec && -r $spec ]] || die 2 "cannot read $spec as a file"
  # shellcheck disable=SC2094 # the name is only for messages
  if grep -q secrets "$spec"; then # their values are in the environment here, and reach the head through stdin only
    "$PYTHON" -m mvp_helpers pack-spec --spec-name "$spec" <"$spec" |
      helper_on "$HEAD" -i submit --packed --spec-name "$spec" "$@" ${DRY_RUN:+--dry-run}
  else
    helper_on "$HEAD" -i submit --spec-name "$spec" "$@" ${DRY_RUN:+--dry-run} <"$spec"
  fi
}
