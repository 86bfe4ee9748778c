#!/usr/bin/env bash
# Build the lab's image without a registry: Debian 12 with its own Python 3.11, kept in a file; this project's packages are mounted.
#
# usage: docker-image.sh TAG          DOCKER_HOST names the daemon
set -euo pipefail
project=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
base=$project/.mvp/lab/debian12.tar

if [[ ! $base -nt $0 || ! $base -nt ${0%/*}/ray_command.py ]]; then
  mkdir -p "${base%/*}"
  mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -1)
  # In memory: dpkg waits for the disk after every package.
  TMPDIR=/dev/shm mmdebstrap --quiet --variant=minbase --include=python3,libpython3.11,procps,git \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook="install -m 755 '$project/tests/lab/ray_command.py' \"\$1/usr/local/bin/ray\"" \
    bookworm "$base.part.tar" "$mirror"
  mv "$base.part.tar" "$base"
fi
# A variable of another Ray cluster, as images carry them: it must not reach what the scripts run.
docker import --change 'ENV RAY_ADDRESS=198.51.100.1:6379' "$base" "$1" >/dev/null
