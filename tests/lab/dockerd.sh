#!/usr/bin/env bash
# A docker daemon of the test's own, in a network namespace of its own: nothing of it reaches this machine's network or firewall.
#
# usage: dockerd.sh up DIR | down DIR | network DIR (its namespace)        then: DOCKER_HOST=unix://DIR/docker.sock DOCKER_CONFIG=DIR/client
#
# Root without CAP_SYS_RESOURCE, as in many CI containers, cannot raise ulimits: what stands as "runc" on the daemon's PATH clamps them
# to what is allowed and hands on to the real one. No systemd, no registry: the image comes from docker-image.sh.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
action=$1 dir=$2
namespace=mvp-dk-$(cksum <<<"$dir" | cut -d' ' -f1) # two daemons may run at once

up() {
  mkdir -p "$dir"/{root,exec,bin,client}
  ln -sf "$here/runc_clamped.py" "$dir/bin/runc"
  echo '{}' >"$dir/daemon.json"
  ip netns add "$namespace"
  ip -n "$namespace" link set lo up
  # nsenter, not `ip netns exec`: that mounts /sys anew, and the daemon finds no cgroups.
  PATH=$dir/bin:$PATH setsid nsenter --net="/run/netns/$namespace" dockerd --config-file "$dir/daemon.json" \
    --data-root "$dir/root" --exec-root "$dir/exec" --pidfile "$dir/pid" -H "unix://$dir/docker.sock" --default-address-pool base=10.79.0.0/16,size=24 --bip 10.79.255.1/24 \
    &>"$dir/log" </dev/null 3>&- 4>&- &
  for _ in {1..240}; do
    ! docker --host "unix://$dir/docker.sock" info &>/dev/null || return 0
    sleep 0.25
  done
  tail -20 "$dir/log" >&2
  return 1
}

down() {
  local pid
  if pid=$(cat "$dir/pid" 2>/dev/null); then
    docker --host "unix://$dir/docker.sock" ps -aq | xargs -r docker --host "unix://$dir/docker.sock" rm -f >/dev/null
    kill "$pid"
    for _ in {1..200}; do kill -0 "$pid" 2>/dev/null || break && sleep 0.1; done
  fi
  ! ip netns list | grep -q "^$namespace\b" || ip netns del "$namespace"
  rm -rf "$dir"
}

network() { printf '/run/netns/%s\n' "$namespace"; }

"$action"
