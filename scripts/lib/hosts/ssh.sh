# shellcheck shell=bash
# Host driver "ssh": hosts exist already (containers of a platform, machines) and are reached by ssh; a host with "self" is this machine.
# Connections are shared, and close some minutes after the last command. Keys, host keys and aliases come from the user's ssh config.

ADDRESSES=$PROJECT/.mvp/$CLUSTER_NAME/addresses # a file for each host, written by the last hosts_up
DEPLOYED=$PROJECT/.mvp/$CLUSTER_NAME/tools      # TOOLS_DIR of the last deployment
FILE_IPS=("${HOST_IPS[@]}")
declare -gA NUMBERS=()
for number in "${!HOSTS[@]}"; do NUMBERS[${HOSTS[number]}]=$number; done
# A short path, because it contains sockets; another one for other targets.
CONNECTIONS=$(printf '%s\n' "$CLUSTER_NAME" "${SSH_TARGETS[@]}" | cksum)
CONNECTIONS=/tmp/mvp-ssh-$EUID-${CONNECTIONS%% *}
SSH=(ssh -T -o BatchMode=yes -o "ConnectTimeout=${SSH_CONNECT_TIMEOUT[0]}"
  -o "ServerAliveInterval=$(((SSH_CONNECT_TIMEOUT[0] + 2) / 3))" -o ServerAliveCountMax=2
  -o ControlMaster=auto -o "ControlPath=$CONNECTIONS/%C" -o ControlPersist=300 -o RemoteCommand=none -o LogLevel=ERROR)

hosts_up() {
  local host lacking=()
  mkdir -p "$ADDRESSES"
  on_each check_host "${NEEDED[@]}"
  for host in "${NEEDED[@]}"; do [[ -s $ADDRESSES/$host ]] || lacking+=("$host"); done
  if ((${#lacking[@]})); then
    deploy_tools >/dev/null
    on_each check_host_again "${lacking[@]}"
  fi
  [[ -n ${ONLY_HERE:-} ]] || printf '%s' "$TOOLS_DIR" >"$DEPLOYED"
  HOST_IPS=("${FILE_IPS[@]}") # locate_hosts adds the addresses that are known now
}

# On the host: print its address, after anything that its login shell prints; no address while this project is not deployed there.
# The address that the ssh connection used is right, unless a forwarded port hides it.
# shellcheck disable=SC2016
LOOK='[ -x "$2" ] || { echo "blocked: $1: the interpreter $2 does not exist (python in the cluster file)" >&2; exit 3; }
printf "mvp-address "; [ -d "$3" ] || exit 0
ip=$4; [ -n "$ip" ] || ip=${SSH_CONNECTION% *} ip=${ip##* }
case $ip in "" | 127.0.0.1 | *:*) ip=unknown ;; esac
echo "$ip"'

check_host() { # <host>: check that it can be reached and has the interpreter, and record its address
  local answer ip=${FILE_IPS[NUMBERS[$1]]}
  [[ -n $ip || $NETWORK_INTERFACE == auto ]] || ip=unknown # the host knows what address that interface has
  answer=$(reach "$1" /bin/sh -s "$1" "$CLUSTER_PYTHON" "$TOOLS_DIR" ${ip:+"$ip"} <<<"$LOOK") || exit
  [[ $answer == 'mvp-address '* ]] || die 3 "$1: its shell prints text at every command: '${answer%%$'\n'*}'" \
    "at the top of ~/.bashrc on $1: [[ \$- == *i* ]] || return"
  answer=${answer#mvp-address }
  [[ $answer != unknown ]] || answer=$(helper_on "$1" own-address) || exit
  printf '%s' "$answer" >"$ADDRESSES/$1"
}

check_host_again() { # <host>: now that the tools are deployed
  check_host "$1"
  [[ -s $ADDRESSES/$1 ]] || die 3 "$1 does not see $TOOLS_DIR, which is there on ${NEEDED[0]}" \
    "mount the shared root $SHARED_ROOT on $1: one file system on all hosts"
}

fresh_tools() { # deploy this project again when it has changed since hosts_up
  [[ ! -e $DEPLOYED || $(<"$DEPLOYED") == "$TOOLS_DIR" ]] && return
  (
    flock 9
    [[ $(<"$DEPLOYED") == "$TOOLS_DIR" ]] || { deploy_tools >&2 && printf '%s' "$TOOLS_DIR" >"$DEPLOYED"; }
  ) 9>"$DEPLOYED.lock" || true # the command on the host reports the missing version
}

hosts_down() { # close the connections
  local socket
  for socket in "$CONNECTIONS"/*; do
    [[ ! -S $socket ]] || ssh -o ControlPath="$socket" -O exit mvp 2>/dev/null || true
  done
  rm -rf "$CONNECTIONS"
}

hosts_list() { printf '%s\n' "${HOSTS[@]}"; }

host_ip() { # <host>: from the cluster file, or from the host, which is asked once and by every hosts_up
  local ip=${FILE_IPS[NUMBERS[$1]]} host new=()
  if [[ -z $ip && -z $DRY_RUN && ! -e $ADDRESSES/$1 && " ${NEEDED[*]} " == *" $1 "* ]]; then
    for host in "${NEEDED[@]}"; do [[ -e $ADDRESSES/$host ]] || new+=("$host"); done
    mkdir -p "$ADDRESSES"
    touch "${new[@]/#/$ADDRESSES/}" # asked once, whatever the result
    (on_each check_host "${new[@]}") || true
  fi
  [[ -n $ip ]] || { read -r ip || true; } 2>/dev/null <"$ADDRESSES/$1" || return 1 # no process of its own for each of many hosts
  [[ -n $ip ]] && printf '%s\n' "$ip"
}

# On the host, where rc files may have set another PATH and variables of another Ray cluster. $0: the interpreter's folder.
# With SSH_CLIENT set, every bash that the command starts would read ~/.bashrc again; Ray starts a job's driver with bash.
# shellcheck disable=SC2016
HOST_COMMAND='PATH=$0:$PATH; unset SSH_CLIENT SSH2_CLIENT SSH_CONNECTION SSH_TTY $(env | sed -n "s/^\(RAY_[A-Za-z0-9_]*\)=.*/\1/p")
if [ "$2 $3" = "-m mvp_helpers" ] && [ ! -d "$PYTHONPATH" ]; then
  printf "blocked: %s: this version of the tools is not deployed: %s\n  try: ./scripts/13_deploy_tools.sh\n" "$MVP_HOST" "$PYTHONPATH" >&2
  exit 3
fi
exec "$@"'

host_exec() {         # <host> [-i] -- <argv>...
  (exec_on_host "$@") # a subshell, because it sets traps
}

exec_on_host() { # as host_exec; exits the shell it is called in
  local host=$1 mark=mvp-$BASHPID-$EPOCHREALTIME-$RANDOM code=0 reaching
  [[ -n ${NUMBERS[$host]:-} ]] || die 2 "cluster '$CLUSTER_NAME' has no host '$host'" "one of: ${HOSTS[*]}"
  shift
  [[ $* != *' -m mvp_helpers '* ]] || fresh_tools
  if [[ $1 == -i ]]; then shift; else exec </dev/null; fi
  trap 'end_there INT 130' INT
  trap 'end_there TERM 143' TERM
  set -m # a process group of its own: at Ctrl-C ssh would exit at once, and the command on the host would continue
  reach "$host" env "MVP_EXEC=$mark" "MVP_HOST=$host" "MVP_HOST_IP=${HOST_IPS[NUMBERS[$host]]}" "MVP_CLUSTER_JSON=$MVP_CLUSTER_JSON" \
    "PYTHONPATH=$TOOLS_DIR/lib" /bin/sh -c "$HOST_COMMAND" "${CLUSTER_PYTHON%/*}" "${@:2}" <&0 &
  reaching=$!
  set +m
  wait "$reaching" || code=$?
  exit "$code"
}

end_there() { # <signal> <exit code>: trap of exec_on_host; exits when no process of its command is left on the host
  trap '' INT TERM
  reach "$host" /bin/sh -c "$END_MARKED" mvp "$1" "$mark" </dev/null || true
  kill -TERM "-$reaching" 2>/dev/null || true
  wait
  exit "$2"
}

reach() { # <host> <argv>...: run it on the host, byte for byte; return 3 when ssh itself fails
  local target=${SSH_TARGETS[NUMBERS[$1]]} words code=0 log log_text
  if [[ $target == self ]]; then
    "${@:2}"
    return
  fi
  eval "words=($target)"
  [[ -d $CONNECTIONS ]] || mkdir -m 700 "$CONNECTIONS" 2>/dev/null || true
  [[ -O $CONNECTIONS && ! -L $CONNECTIONS ]] || die 3 "$CONNECTIONS belongs to another user, or is a link" "ls -ld $CONNECTIONS"
  log=$CONNECTIONS/log.$BASHPID
  "${SSH[@]}" -E "$log" "${words[@]}" "$(for_login_shell "${@:2}")" || code=$?
  # The command itself may have returned 255: then the connection is still open.
  if ((code == 255)) && ! "${SSH[@]}" -O check "${words[@]}" 2>/dev/null; then
    code=3 log_text=$(grep -v '^ControlSocket' "$log" || true)
    say "blocked: $1: no connection (ssh $target): ${log_text:-it was closed}"
    say "  try: ssh -o ConnectTimeout=${SSH_CONNECT_TIMEOUT[0]} $target true"
  fi
  rm -f "$log"
  return "$code"
}

for_login_shell() { # <argv>...: print one word that any login shell passes on to sh, which runs ARGV byte for byte
  local word words=exec plain=1 LC_ALL=C
  for word in "${@}"; do
    [[ -n $word && $word != *[!A-Za-z0-9_./:,@+-]* ]] || plain=''
    words+=" '${word//\'/\'\\\'\'}'"
  done
  # Means the same to every shell, and costs the host three processes less.
  [[ -z $plain ]] || { printf 'exec %s' "$*" && return; }
  printf "exec /bin/sh -c 'eval \"\$(echo %s | base64 -d)\"'" "$(printf '%s' "$words" | base64 -w0)"
}
