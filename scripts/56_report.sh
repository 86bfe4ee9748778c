#!/usr/bin/env bash
# Write one HTML page about a job, or about several: curves, checks with their evidence, diagnosis, lineage, provenance, the log.
#
# usage: ./scripts/56_report.sh ID [ID...] [--open] [--cluster NAME|FILE] [--dry-run]
#
# The page is one file in the folder of the first job, reports/report-<UTC time>-<word>.html: it refers to no other file and to no
# network, and its path is printed. None is ever written again, and a sealed job's seal states it (docs/evidence.md). All checks of
# 54_verify.sh are made for it. Curves of long runs keep the lowest and the highest value of every interval of steps. The cluster may be down.
#
#   --open   also show it in this machine's browser (xdg-open), where this machine sees the shared root
#
# exit codes: 0 written, 2 unknown ID, 3 the folder cannot be written, or --open finds no browser
#
# examples:
#   ./scripts/56_report.sh ppo-20260131-101500-1a2b --open
#   ./scripts/56_report.sh "$first" "$second"
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--open ID...' "$@"
load_cluster
if [[ -n $DRY_RUN ]] || ! given --open; then
  run helper_on "$HEAD" report "${ARGS[@]}"
  exit
fi
page=$(helper_on "$HEAD" report "${ARGS[@]}") || exit
printf '%s\n' "$page"
[[ -f $page ]] || die 3 "this machine does not see $page" 'copy it here, and open it in a browser'
command -v xdg-open >/dev/null || die 3 'xdg-open is not installed on this machine' "open $page in a browser"
xdg-open "$page"
