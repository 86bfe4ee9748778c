#!/usr/bin/env bash
# Hosts for tests: each has a network, processes, host name, /tmp, /run, home and shared memory of its own, and all share /private.
# This project stays visible where it is, also below /tmp.
#
# usage: netlab.sh up | down | exec HOST ARGV... | lab ARGV... | cut HOST | heal HOST | address HOST
#
#   exec    run a command on a host, as its root, with this environment
#   lab     run a command here, on the hosts' network: only from there can they be reached (they reach nothing else)
#   cut     take the host's link away; heal gives it back
#
# Variables, so that two labs can be up at once:
#   LAB_DIR      folder of this lab; $LAB_DIR/private is the hosts' /private, $LAB_DIR/<host>/{tmp,run} are theirs; ~ is /run/root
#   LAB_PREFIX   begins the names of its network namespaces
#   LAB_SUBNET   e.g. 10.77.1: hosts are .1, .2 … and "lab" is .254
#   LAB_DATA     e.g. 10.78.1: hosts have a second network, on interface data0; "lab" is not on it
#   LAB_HOSTS    names (default "head worker-0 worker-1"); also in /etc/hosts
#   LAB_SETUP    a file that bash runs on each host, with its name, before the host counts as up
set -Eeuo pipefail
: "${LAB_DIR:?}" "${LAB_PREFIX:?}" "${LAB_SUBNET:?}"
read -ra HOSTS <<<"${LAB_HOSTS:-head worker-0 worker-1}"
PROJECT=$(cd "$(dirname "$0")/../.." && pwd)
PRIVATE=/private

number() { # <host>: its last octet
  local at
  for at in "${!HOSTS[@]}"; do
    [[ ${HOSTS[at]} != "$1" ]] || { echo $((at + 1)) && return; }
  done
  echo "netlab: no host '$1' among ${HOSTS[*]}" >&2 && exit 2
}

up() {
  local host at
  [[ $PROJECT/ != @(/run|/dev/shm|"$PRIVATE")/* ]] ||
    { echo "netlab: the hosts have a /run, /dev/shm and $PRIVATE of their own: they cannot see this project in $PROJECT" >&2 && exit 3; }
  trap down ERR
  mkdir -p "$LAB_DIR/private" "$PRIVATE"
  ip netns add "$LAB_PREFIX"
  ip -n "$LAB_PREFIX" link set lo up
  ip -n "$LAB_PREFIX" link add br0 type bridge
  ip -n "$LAB_PREFIX" addr add "$LAB_SUBNET.254/24" dev br0
  ip -n "$LAB_PREFIX" link set br0 up
  if [[ -n ${LAB_DATA:-} ]]; then
    ip -n "$LAB_PREFIX" link add br1 type bridge
    ip -n "$LAB_PREFIX" link set br1 up
  fi
  printf '127.0.0.1 localhost\n%s.254 lab\n' "$LAB_SUBNET" >"$LAB_DIR/hosts"
  for at in "${!HOSTS[@]}"; do echo "$LAB_SUBNET.$((at + 1)) ${HOSTS[at]}"; done >>"$LAB_DIR/hosts"
  sed 's|:/root:|:/run/root:|' /etc/passwd >"$LAB_DIR/passwd"
  for host in "${HOSTS[@]}"; do start_host "$host" & done
  wait
  for host in "${HOSTS[@]}"; do
    [[ -e $LAB_DIR/$host/ready ]] || { echo "netlab: $host did not start: $(cat "$LAB_DIR/$host/init.log")" >&2 && false; }
  done
}

start_host() { # <host>
  local dir=$LAB_DIR/$1 at _
  at=$(number "$1")
  mkdir -p "$dir"/{tmp,run/root}
  ip netns add "$LAB_PREFIX-$1"
  ip -n "$LAB_PREFIX-$1" link set lo up
  connect "$1" "v$at" br0 eth0 "$LAB_SUBNET.$at/24"
  [[ -z ${LAB_DATA:-} ]] || connect "$1" "d$at" br1 data0 "$LAB_DATA.$at/24"
  # A process namespace too: Ray looks through all processes it sees for the node a driver belongs to.
  setsid nsenter --net="/run/netns/$LAB_PREFIX-$1" \
    unshare --mount --pid --uts --ipc --fork --mount-proc --kill-child=KILL \
    bash "$0" be-host "$1" </dev/null &>"$dir/init.log" 3>&- 4>&- &
  echo "$!" >"$dir/unshare.pid"
  for _ in {1..200}; do [[ ! -e $dir/ready ]] || break && sleep 0.05; done
  pgrep -P "$(<"$dir/unshare.pid")" >"$dir/init.pid"
}

connect() { # <host> <link here> <bridge> <interface there> <address>
  ip -n "$LAB_PREFIX" link add "$2" type veth peer name "$4" netns "$LAB_PREFIX-$1"
  ip -n "$LAB_PREFIX" link set "$2" master "$3" up
  ip -n "$LAB_PREFIX-$1" addr add "$5" dev "$4"
  ip -n "$LAB_PREFIX-$1" link set "$4" up
}

be_host() { # <host>: process 1 of its namespace
  local dir=$LAB_DIR/$1 folder
  hostname "$1"
  mount --bind "$LAB_DIR/private" "$PRIVATE"
  mount --bind "$LAB_DIR/hosts" /etc/hosts
  mount --bind "$LAB_DIR/passwd" /etc/passwd
  mount -t tmpfs -o size=2g,mode=1777 tmpfs /dev/shm
  chmod 1777 "$dir/tmp"
  # They stay visible below the host's own /tmp.
  for folder in "$LAB_DIR" "$PROJECT" "$(realpath "$PROJECT/.venv")"; do
    [[ $folder != /tmp/* ]] || { mkdir -p "$dir$folder" && mount --bind "$folder" "$dir$folder"; }
  done
  mount --rbind "$dir/tmp" /tmp
  chmod 755 "$dir/run"
  mount --bind "$dir/run" /run
  [[ -z ${LAB_SETUP:-} ]] || HOME=/run/root bash -euo pipefail "$LAB_SETUP" "$1"
  : >"$dir/ready"
  while :; do
    sleep 3600 &
    wait "$!"
  done
}

down() {
  trap - ERR
  local host
  for host in "${HOSTS[@]}"; do
    # Process 1 of its namespace takes all the others along.
    [[ ! -s $LAB_DIR/$host/init.pid ]] || kill -KILL "$(<"$LAB_DIR/$host/init.pid")" 2>/dev/null || true
    rm -f "$LAB_DIR/$host"/{ready,init.pid,unshare.pid}
    ip netns del "$LAB_PREFIX-$host" 2>/dev/null || true
  done
  ip netns del "$LAB_PREFIX" 2>/dev/null || true
  # Removed while another lab has it mounted, it would vanish there too.
  grep -qs " $PRIVATE " /proc/[0-9]*/mountinfo || rmdir "$PRIVATE" 2>/dev/null || true
}

case ${1:?} in
  up) up ;;
  down) down ;;
  be-host) be_host "$2" ;;
  exec) exec nsenter -t "$(<"$LAB_DIR/$2/init.pid")" --net --mount --pid --uts --ipc --wd=/ env HOME=/run/root "${@:3}" ;;
  lab) exec nsenter --net="/run/netns/$LAB_PREFIX" "${@:2}" ;;
  cut) ip -n "$LAB_PREFIX" link set "v$(number "$2")" down ;;
  heal) ip -n "$LAB_PREFIX" link set "v$(number "$2")" up ;;
  address) echo "$LAB_SUBNET.$(number "$2")" ;;
  *) sed -n '2,/^set /s/^#[ ]\{0,1\}//p' "$0" && exit 2 ;;
esac
