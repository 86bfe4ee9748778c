#!/usr/bin/env bash
# Docker compose v2 for this project's tests only, out of the next Debian's package: Debian 12 has 1.29 alone. Again is quick.
#
# usage: compose-v2.sh          then: DOCKER_CONFIG=.mvp/lab/docker docker compose version
set -euo pipefail
plugin=$(cd "$(dirname "$0")/../.." && pwd)/.mvp/lab/docker/cli-plugins/docker-compose
[[ ! -x $plugin ]] || exit 0
. /etc/os-release
[[ $ID == debian && $VERSION_ID == 12 ]] || { echo "lab: no docker compose v2: this is not Debian 12" >&2 && exit 0; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,cache/archives/partial} "${plugin%/*}"
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$work/sources.list"
get() {
  apt-get -qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$work/lists" \
    -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root "$@" >/dev/null
}
cd "$work"
get update
get download docker-compose
dpkg-deb -x docker-compose_*.deb "$work"
install -m 755 "$(find "$work" -path '*cli-plugins/docker-compose' | head -1)" "$plugin"
