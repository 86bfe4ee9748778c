#!/usr/bin/env bash
# Install what the lab needs and this machine lacks (Debian's or Ubuntu's packages). Again is quick.
#
# usage: ./tests/lab/install.sh
#
# Without root or apt it says so and exits with 0: the tests that need what is missing are then skipped by name, with the reason.
set -euo pipefail

packages=(openssh-server iproute2 procps util-linux faketime) # hosts as namespaces, and ssh to them
packages+=(docker.io iptables mmdebstrap docker-compose)      # a docker daemon, an image for it, and compose 1.29
packages+=(slurm-wlm munge)                                   # a Slurm of its own
packages+=(chromium)                                          # a browser, for the pages of 56_report.sh

"$(dirname "$0")/compose-v2.sh" || echo 'lab: no docker compose v2' >&2

missing=()
for package in "${packages[@]}"; do
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0
cannot() { # <reason>
  printf 'lab: %s: not installed: %s\n' "$1" "${missing[*]}" >&2
  exit 0
}
((EUID == 0)) || cannot 'not root'
command -v apt-get >/dev/null || cannot 'no apt-get'

# Daemons are started by the tests, in hosts of their own: never here.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
get() { apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >/dev/null; }
get install -y --no-install-recommends "${missing[@]}" 2>/dev/null ||
  { get update && get install -y --no-install-recommends "${missing[@]}"; } || cannot 'apt-get failed'
printf 'lab: installed %s\n' "${missing[*]}" >&2
