#!/usr/bin/env bash
# Write one HTML page about a job, or about several: curves, checks with their evidence, diagnosis, lineage, provenance, the log.
# Two jobs are compared; an attempt of a chain is shown with its whole chain. RUN is the folder or the name of a run of 60 or 61.
#
# usage: ./scripts/56_report.sh ID [ID...] [--open] [--cluster NAME|FILE] [--dry-run]
#        ./scripts/56_report.sh ID ID [--json]
#        ./scripts/56_report.sh ID... [--gates | --against NAME [--any-hardware]] [--definition-of-done]
#        ./scripts/56_report.sh RUN [--open]
#        ./scripts/56_report.sh --baseline NAME [--any-hardware] ID ID ID...
#
# The page is one file in the folder of the first job, reports/report-<UTC time>-<word>.html: it refers to no other file and to no
# network, and its path is printed. None is ever written again, and a sealed job's seal states it (docs/evidence.md). All checks of
# 54_verify.sh are made for it. Curves of long runs keep the lowest and the highest value of every interval. The cluster may be down.
#
# Of two jobs of one workload the page says first what differs: JobSpec, Hydra's whole config (defaults included), plan, code files with
# a diff, packages, data, model, hosts, image, versions. Then whether they are bit-equal, or from which step and metric on not, and for
# each metric the median of its last 5 values, the difference, and whether that is outside what repeated runs of the first job vary:
# jobs of the same toolkit, JobSpec, code, data and model among the newest 100.
#
# The page of an end-to-end run has its criteria with the lines of the logs that prove them, the metrics with the asserted limits, commands,
# limitations and diagnosis. 60 and 61 write it as summary.html at the end of each run; this script writes it again.
#
#   --json   print the comparison of two jobs as one JSON object, with the path of the page
#   --baseline NAME   instead of a page, record the median and the spread of each gate's value (templates/gates/) over at least three equal
#            runs, with hardware and versions, in common/baselines/NAME.json of the shared root; 54_verify.sh --gates compares with it
#   --gates  also judge the gates of the jobs' workloads, as 54_verify.sh --gates does, and draw their limits into the curves
#   --against NAME    the same against that baseline
#   --any-hardware    with --baseline or --against: also where the hardware differs
#   --definition-of-done   also judge each line of the Definition of Done (templates/definition_of_done.yaml)
#   --open   also show it in a browser: $BROWSER, else the one that this system opens pages with. A page on another host is first copied
#            below .mvp/reports/. In an ssh session without a browser it says how to copy the page
#
# exit codes: 0 written, 2 unknown ID or RUN, or jobs that cannot be compared, 3 the folder cannot be written, or --open finds no browser
#
# examples:
#   ./scripts/56_report.sh ppo-20260131-101500-1a2b --open
#   ./scripts/56_report.sh "$first" "$second"
#   ./scripts/56_report.sh .mvp/e2e/verl-20260131T101500.000Z-1a2b
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
source "$SCRIPTS/lib/open_page.sh"
parse_options '--json --baseline= --gates --against= --any-hardware --definition-of-done --open ID...' "$@"
! given --open || ! { given --json || given --baseline; } || bad_usage '--open goes neither with --json nor with --baseline'
options=()
for word in "${OPTS[@]}"; do
  [[ $word == --open ]] || options+=("$word")
done

if [[ ${ARGS[0]} == */* || -f $PROJECT/.mvp/e2e/${ARGS[0]}/run.json ]]; then
  ((${#ARGS[@]} == 1 && ${#options[@]} == 0)) || bad_usage "${ARGS[0]} is an end-to-end run: only --open goes with it"
  find_python
  write=("$PYTHON" -m mvp_helpers e2e-report)
else
  load_cluster
  write=(helper_on "$HEAD" report "${options[@]}")
fi
if [[ -n $DRY_RUN ]] || ! given --open; then
  run "${write[@]}" "${ARGS[@]}" || exit
  exit
fi
page=$("${write[@]}" "${ARGS[@]}") || exit
printf '%s\n' "$page"
bring_page "$page"
open_page "$PAGE"
