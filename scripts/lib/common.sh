# shellcheck shell=bash
# Sourced by every script: strict mode, messages, help, options, the cluster file as shell variables.
#
# Exit codes: docs/reference.md. MVP_DEBUG=1 prints every command with file, line and function.

set -Eeuo pipefail
shopt -s inherit_errexit

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PROJECT=${SCRIPTS%/*}
export PYTHONPATH=$PROJECT/lib
DRY_RUN=''
exec {RESULTS}>&1 # the script's own stdout, also where the output of a function is captured

PS4='+ ${BASH_SOURCE##*/}:${LINENO}: ${FUNCNAME[0]:+${FUNCNAME[0]}(): }'
[[ -z ${MVP_DEBUG:-} ]] || set -x

on_error() { # <exit code> <command> <file> <line>
  # The message of the helper is better than a line number.
  if [[ $2 != *helper_on* && " ${FUNCNAME[*]} " != *' helper_on '* ]]; then
    printf '%s:%s: exit code %s from: %s\n' "${3##*/}" "$4" "$1" "$2" >&2
  fi
  exit "$1"
}
trap 'on_error "$?" "$BASH_COMMAND" "${BASH_SOURCE[0]}" "$LINENO"' ERR
trap 'exit 130' INT
trap 'exit 143' TERM

say() { # <word>...: print one line to stderr
  printf '%s\n' "$*" >&2
}

die() { # <exit code> <what failed, with which value> [<what to try>]
  local labels=([1]='failed' [2]='bad input' [3]='blocked' [4]='timed out')
  printf '%s: %s\n' "${labels[$1]:-failed}" "$2" >&2
  [[ -z ${3:-} ]] || printf '  try: %s\n' "$3" >&2
  exit "$1"
}

seconds_since() { # <an earlier $EPOCHREALTIME>: print the seconds since then, with one decimal
  local ms=$(((${EPOCHREALTIME/[.,]/} - ${1/[.,]/}) / 1000))
  printf '%d.%d' $((ms / 1000)) $((ms % 1000 / 100))
}

show_help() { # the header comment of the script is its help
  local line
  while IFS= read -r line && [[ $line == '#'* ]]; do
    [[ $line != '#!'* && $line != '# shellcheck'* ]] || continue
    line=${line#'#'}
    printf '%s\n' "${line# }"
  done <"$0"
}

bad_usage() { # <problem>
  die 2 "$1" "./scripts/${0##*/} --help"
}

did_you_mean() { # <word> <known word>...: " (did you mean 'x'?)" as the helper says it; nothing where it cannot run
  local code='import sys; from mvp_helpers.base.errors import did_you_mean; print(did_you_mean(sys.argv[1], sys.argv[2:]), end="")'
  (find_python && "$PYTHON" -c "$code" "$@") 2>/dev/null || true
}

parse_options() { # <own options and arguments: "--wait --timeout= SPEC [FILE] ID..."> <argument>...
  # Sets ARGS (positional arguments), OPTS (own options as given, ready to pass on), DRY_RUN and MVP_CLUSTER.
  local own=" $1 " word fewest=0 most=0
  shift
  ARGS=() OPTS=()
  while (($#)); do
    case $1 in
      -h | --help) show_help && exit 0 ;;
      --dry-run) DRY_RUN=1 ;;
      --) ARGS+=("${@:2}") && break ;;
      --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" && continue ;;
      -?*)
        if [[ $own == *" $1 "* ]]; then
          OPTS+=("$1")
        elif [[ $1 == --cluster || $own == *" $1= "* ]]; then
          [[ -n ${2:-} ]] || bad_usage "$1 needs a value"
          # One word, because the value may start with a dash.
          if [[ $1 == --cluster ]]; then MVP_CLUSTER=$2; else OPTS+=("$1=$2"); fi
          shift
        else
          # shellcheck disable=SC2086 # words
          bad_usage "unknown option '$1'$(did_you_mean "$1" ${own//=/} --cluster --dry-run --help)"
        fi
        ;;
      *) ARGS+=("$1") ;;
    esac
    shift
  done
  for word in $own; do
    case $word in
      -*) ;;
      '['*'...]') most=10000 ;;
      '['*) most=$((most + 1)) ;;
      *...) fewest=$((fewest + 1)) most=10000 ;;
      *) fewest=$((fewest + 1)) most=$((most + 1)) ;;
    esac
  done
  ((${#ARGS[@]} >= fewest)) || bad_usage "an argument is missing:${own}"
  ((${#ARGS[@]} <= most)) || bad_usage "unexpected argument '${ARGS[most]}'"
}

given() { # <option>: succeed if the script was called with it
  local word
  for word in "${OPTS[@]}"; do
    [[ $word != "$1" && $word != "$1="* ]] || return 0
  done
  return 1
}

value_of() { # <option>: print its value; nothing when the script was called without it
  local word
  for word in "${OPTS[@]}"; do
    [[ $word != "$1="* ]] || printf '%s' "${word#*=}"
  done
}

confirm() { # <question>: go on if --yes was given or a person says yes, else end the script
  local answer=''
  ! given --yes || return 0
  [[ -t 0 ]] || die 2 "stdin is not a terminal, so nobody can answer: $1" 'the same with --yes'
  read -r -p "$1 [y/N] " answer || true
  [[ $answer == [yY]* ]] || die 1 'nothing was removed: the answer was not yes'
}

run() { # <command>...: run it; with --dry-run print it instead
  if [[ -z $DRY_RUN ]]; then
    "$@"
  else
    printf 'would run:%s\n' "$(printf ' %q' "$@")" >&"$RESULTS"
  fi
}

find_python() { # set PYTHON to the project's own interpreter, or else the machine's
  PYTHON=$PROJECT/.venv/bin/python
  [[ ! -x $PYTHON ]] || return 0
  PYTHON=$(command -v python3) || die 3 'python3 is not installed on this machine' 'install Python 3.10 or newer'
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    die 3 "$PYTHON is older than Python 3.10" 'MVP_PYTHON=/path/to/python3.12 ./scripts/12_install_py_deps.sh'
}

read_cluster_file() { # [--at HOST=IP]...: set CLUSTER_NAME, HOSTS, HOST_IPS … (see Cluster.to_shell)
  local assignments
  assignments=$("$PYTHON" -m mvp_helpers cluster "${MVP_CLUSTER:-local}" ${MVP_HERE:+--here "$MVP_HERE"} "$@") || exit
  eval "$assignments"
}

load_cluster() { # [--unlocated]: set the variables of the cluster file, HEAD and WORKERS, and define the verbs of its host driver
  find_python
  read_cluster_file
  # shellcheck disable=SC2034 # used by the scripts
  HEAD=${HOSTS[0]} WORKERS=("${HOSTS[@]:1}")
  # shellcheck source=scripts/lib/hosts.sh
  source "$SCRIPTS/lib/hosts.sh"
  [[ ${1:-} == --unlocated ]] || locate_hosts # otherwise bring_hosts_up does it, so that a dead host costs its timeout only once
}

load_cluster_here() { # as load_cluster; with --here HOST only for that host, which is this machine
  MVP_HERE=$(value_of --here) ONLY_HERE=1
  [[ -n $MVP_HERE ]] || unset MVP_HERE ONLY_HERE
  load_cluster --unlocated
}
