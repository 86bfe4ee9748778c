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

open_page() { # <page>: as Python's webbrowser does, which knows $BROWSER and the desktops; without a display it would start a text browser
  local page=$1 host port
  if [[ -n ${BROWSER:-}${DISPLAY:-}${WAYLAND_DISPLAY:-} || $OSTYPE == darwin* ]]; then
    ! "$PYTHON" -c 'import pathlib, sys, webbrowser
sys.exit(not webbrowser.open(pathlib.Path(sys.argv[1]).absolute().as_uri()))' "$page" &>/dev/null || return 0
  fi
  if [[ -n ${SSH_CONNECTION:-} ]]; then
    read -r _ _ host port <<<"$SSH_CONNECTION"
    die 3 "no browser to open $page in this ssh session" "on your own machine: scp -P $port $(id -un)@$host:$(printf %q "$page") ."
  fi
  die 3 "no browser to open $page on this machine" 'set BROWSER, or copy the page to a machine that has one'
}
