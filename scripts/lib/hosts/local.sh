# shellcheck shell=bash
# Host driver "local": a host is a process group on this machine with a loopback address of its own. There is nothing to create or undo.

hosts_up() { :; }

hosts_down() { :; }

hosts_list() { printf '%s\n' "${HOSTS[@]}"; }

host_ip() { # <host>
  local at
  for at in "${!HOSTS[@]}"; do
    [[ ${HOSTS[at]} != "$1" ]] || { printf '%s\n' "${HOST_IPS[at]}" && return; }
  done
  die 2 "cluster '$CLUSTER_NAME' has no host '$1'" "one of: ${HOSTS[*]}"
}

host_exec() { # <host> [-i] -- <argv>...
  local host=$1 ip
  ip=$(host_ip "$host")
  shift
  if [[ $1 == -i ]]; then
    shift
    local_command "$host" "$ip" "${@:2}"
  else
    local_command "$host" "$ip" "${@:2}" </dev/null
  fi
}

local_command() ( # <host> <ip> <argv>...
  # Variables of another Ray cluster (RAY_ADDRESS, RAY_NAMESPACE …) would direct the command there.
  for name in "${!RAY_@}"; do unset "$name"; done
  export MVP_HOST=$1 MVP_HOST_IP=$2 PATH=$PROJECT/.venv/bin:$PATH
  exec "${@:3}"
)
