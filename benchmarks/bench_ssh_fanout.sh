#!/usr/bin/env bash
# Bringing up 128 ssh hosts beside 16 of them, as 00 and 01 do first: connections, interpreter, tools, addresses. The hosts are loopback addresses with sshd's
# of this script's own. Then one of the 128 is mute: it must be named, and cost no more than the connect timeout.
#
# usage: [ROUNDS=3] [KEX=ALGORITHM] ./benchmarks/bench_ssh_fanout.sh
#
# The key exchange is curve25519-sha256, as many sshd's still offer at best: OpenSSH's newer default (KEX=sntrup761x25519-sha512@openssh.com)
# costs three times as much as all the rest, and here both ends of it share the machine.
KEX=${KEX:-curve25519-sha256}
ROUNDS=${ROUNDS:-3}
source "$(dirname "${BASH_SOURCE[0]}")/lib/measure.sh"
PORT=22922 PER_SSHD=16 MANY=128 FEW=16 TIMEOUT=5
find_python
BENCH_TMP=$(mktemp -d /tmp/mvp-fan.XXXXXX)
PIDS=()

end_all() {
  [[ ! -e $BENCH_TMP/mute.yaml ]] || down mute || true
  kill "${PIDS[@]}" 2>/dev/null || true
  rm -rf "$BENCH_TMP" "$PROJECT"/.mvp/fan-{"$FEW","$MANY",mute}
}
trap end_all EXIT

up() { MVP_CLUSTER=$BENCH_TMP/$1.yaml "$PROJECT/tests/lab/verbs.sh" bring_hosts_up; }

down() { MVP_CLUSTER=$BENCH_TMP/$1.yaml "$PROJECT/tests/lab/verbs.sh" hosts_down; }

address() { # <number>
  printf '127.9.%d.%d' $(($1 / 200)) $(($1 % 200 + 1))
}

start_sshds() { # enough of them for MANY addresses: one listens on 16 at most; no rc files of the user's own
  local first at
  [[ ! -w /run ]] || mkdir -p /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f "$BENCH_TMP/key"
  ssh-keygen -q -t ed25519 -N '' -f "$BENCH_TMP/hostkey"
  for ((first = 0; first < MANY; first += PER_SSHD)); do
    {
      printf '%s\n' "Port $PORT" "HostKey $BENCH_TMP/hostkey" "AuthorizedKeysFile $BENCH_TMP/key.pub" 'StrictModes no' 'UsePAM no' \
        "SetEnv HOME=$BENCH_TMP" 'PidFile none' 'MaxStartups 200' 'PermitRootLogin prohibit-password' 'KbdInteractiveAuthentication no'
      for ((at = first; at < first + PER_SSHD; at++)); do echo "ListenAddress $(address "$at")"; done
    } >"$BENCH_TMP/sshd_config.$first"
    PATH=$PATH:/usr/sbin "$(PATH=$PATH:/usr/sbin type -P sshd)" -D -f "$BENCH_TMP/sshd_config.$first" -E "$BENCH_TMP/sshd.log" &
    PIDS+=("$!")
    until (: >"/dev/tcp/$(address "$first")/$PORT") 2>/dev/null; do sleep 0.05; done
  done
  printf '%s\n' 'Host *' "IdentityFile $BENCH_TMP/key" 'IdentitiesOnly yes' 'StrictHostKeyChecking accept-new' \
    "UserKnownHostsFile $BENCH_TMP/known_hosts" "KexAlgorithms $KEX" >"$BENCH_TMP/config"
  for ((at = 0; at < MANY; at++)); do
    printf '[%s]:%s %s\n' "$(address "$at")" "$PORT" "$(cut -d' ' -f1,2 "$BENCH_TMP/hostkey.pub")"
  done >"$BENCH_TMP/known_hosts"
}

write_cluster() { # <its name> <how many hosts>
  local at role=head
  {
    printf '%s\n' "name: fan-$1" 'host_driver: ssh' "shared_root: $BENCH_TMP/private" "python: $PYTHON" 'device: cpu' 'worker: {num_cpus: 1}' \
      "ssh: {config: $BENCH_TMP/config, port: $PORT, connect_timeout_s: $TIMEOUT}" 'hosts:'
    for ((at = 0; at < $2; at++)); do
      printf '  - {name: host-%d, role: %s, host: %s}\n' "$at" "$role" "$(address "$at")"
      role=worker
    done
  } >"$BENCH_TMP/$1.yaml"
}

plain() { # <how many hosts>: what nothing that connects by ssh can avoid: a connection to each, and `true` there
  local at
  for ((at = 0; at < $1; at++)); do address "$at" && echo; done |
    xargs -P 32 -I{} ssh -T -o BatchMode=yes -F "$BENCH_TMP/config" -p "$PORT" {} true
}

start_sshds
for hosts in "$FEW" "$MANY"; do write_cluster "$hosts" "$hosts"; done
say "$(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $ROUNDS rounds"
up "$FEW" # the tools are deployed now
down "$FEW"
for ((round = 0; round < ROUNDS; round++)); do
  for hosts in "$FEW" "$MANY"; do
    measure "ssh to $hosts hosts" plain "$hosts"
    measure "bring-up of $hosts ssh hosts" up "$hosts"
    measure "again, $hosts ssh hosts" up "$hosts" # over the same connections, as in every later script
    down "$hosts"
  done
done
compare "bring-up of $MANY ssh hosts" "bring-up of $FEW ssh hosts" 4
compare "ssh to $MANY hosts" "ssh to $FEW hosts" 4
compare "again, $MANY ssh hosts" "again, $FEW ssh hosts" 4

# A listening socket that nobody serves: the connection is made, and then nothing comes.
"$PYTHON" -c "import socket, time; s = socket.create_server(('127.9.9.9', $PORT)); time.sleep(600)" &
PIDS+=("$!")
write_cluster mute "$MANY"
sed -i "s/host: $(address 77)}/host: 127.9.9.9}/" "$BENCH_TMP/mute.yaml"
began=$EPOCHREALTIME
output=$(up mute 2>&1) && die 1 'the mute host was not noticed'
[[ $output == *'blocked: host-77: no connection'*'blocked: check host: host-77' ]] || die 1 "the mute host is not named: $output"
printf 'with a mute host among %d: named after %s s (connect timeout %d s)\n' "$MANY" "$(seconds_since "$began")" "$TIMEOUT"
