#!/usr/bin/env bash
# Serve verl's code as a git repository, at git://ADDRESS:PORT/verl, with a tag as its releases have.
#
# usage: tests/lab/git_server.sh FOLDER [ADDRESS [PORT]]
#
# FOLDER receives the repository. Its code is the verl that is installed in .venv; the tag is its version, such as v0.9.1, and the
# branch main is one commit ahead of it. Prints the URL when it answers, and serves until it is ended.
set -Eeuo pipefail
shopt -s inherit_errexit

folder=$1 address=${2:-127.0.0.1} port=${3:-9418}
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
installed=$(echo "$project"/.venv/lib/python3.*/site-packages)
version=$(<"$installed/verl/version/version")
export GIT_AUTHOR_NAME=verl GIT_AUTHOR_EMAIL=verl@example.org GIT_COMMITTER_NAME=verl GIT_COMMITTER_EMAIL=verl@example.org
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'

if [[ ! -d $folder/verl ]]; then
  work=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  git init --quiet --initial-branch=main "$work"
  cp -r "$installed/verl" "$work/verl"
  find "$work/verl" -name __pycache__ -prune -exec rm -rf {} +
  git -C "$work" add --force verl
  git -C "$work" commit --quiet -m "Release $version"
  git -C "$work" tag "v$version"
  echo 'later' >"$work/LATER"
  git -C "$work" add LATER
  git -C "$work" commit --quiet -m 'Work after the release'
  mkdir -p "$folder"
  git clone --quiet --bare "$work" "$folder/verl.new"
  mv "$folder/verl.new" "$folder/verl"
  rm -rf "$work"
  trap - EXIT
fi

git daemon --reuseaddr --export-all --base-path="$folder" --listen="$address" --port="$port" --informative-errors &
server=$!
trap 'kill "$server" 2>/dev/null; wait' EXIT
trap 'exit 143' TERM INT
until git ls-remote "git://$address:$port/verl" >/dev/null 2>&1; do
  kill -0 "$server" || exit 3
  sleep 0.1
done
echo "git://$address:$port/verl"
wait "$server"
