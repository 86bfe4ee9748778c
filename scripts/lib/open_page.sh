# shellcheck shell=bash
# Show a page in the browser of the person who runs the script.

bring_page() { # <page on the head>: set PAGE to its path on this machine; copy it where this machine does not see the shared root
  PAGE=$1
  [[ ! -f $PAGE ]] || return 0
  PAGE=$PROJECT/.mvp/reports/$(basename "$(dirname "$(dirname "$1")")")-${1##*/}
  mkdir -p "${PAGE%/*}"
  host_exec "$HEAD" -- cat "$1" >"$PAGE" || die 3 "cannot copy $1 from $HEAD" 'copy it by hand, and open it in a browser'
  say "copied to $PAGE"
}

open_page() { # <page>: with $BROWSER (commands between colons, %s is the page), or with what this system opens files with
  local page=$1 each names=() words host port
  [[ -z ${BROWSER:-} ]] || IFS=: read -ra names <<<"$BROWSER"
  if [[ $OSTYPE == darwin* ]]; then
    names+=(open)
  elif [[ -n ${DISPLAY:-}${WAYLAND_DISPLAY:-} ]]; then
    names+=(xdg-open) # without a display it would start a browser of text
  fi
  names+=(wslview)
  for each in "${names[@]}"; do
    read -ra words <<<"$each"
    command -v "${words[0]:-}" >/dev/null || continue
    if [[ $each == *%s* ]]; then words=("${words[@]//%s/"$page"}"); else words+=("$page"); fi
    ! _starts "${words[@]}" || return 0
  done
  if [[ -n ${SSH_CONNECTION:-} ]]; then
    read -r _ _ host port <<<"$SSH_CONNECTION"
    die 3 "this ssh session has no browser for $page" "on your own machine: scp -P $port $(id -un)@$host:$(printf %q "$page") ."
  fi
  die 3 "this machine has no browser for $page" 'set BROWSER, or copy the page to a machine that has one'
}

_starts() { # <command>...: start it; succeed when it ends well, or still runs after two seconds, as a browser does
  local tick
  "$@" </dev/null &>/dev/null &
  for ((tick = 0; tick < 20; tick++)); do
    kill -0 $! 2>/dev/null || {
      wait $!
      return
    }
    sleep 0.1
  done
}
