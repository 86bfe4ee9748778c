#!/usr/bin/env bash
# Collect everything about a job from every host into one archive to attach to a report. Prints the path of the archive.
#
# usage: ./scripts/53_debug_bundle.sh ID [--py-spy] [--cluster NAME|FILE] [--dry-run]
#
# It contains Ray's nodes, actors and jobs; from each host memory, disks, GPUs, the job's processes with their environment and the ends of
# their Ray logs; the job's config, result, log and metrics, and the answer of 55_explain.sh. Likely secrets are masked, and the size is
# limited. When Ray or a host does not answer, only its part is missing: missing.txt in the archive names it.
#
#   --py-spy   also record the current stack of each Python process of the job (for a job that hangs)
#
# exit codes: 0 the archive was written, 2 unknown ID
#
# examples:
#   ./scripts/53_debug_bundle.sh ppo-20260131-101500-1a2b --py-spy
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--py-spy ID' "$@"
load_cluster
id=${ARGS[0]}

report_host() { # <host>
  run helper_on "$1" host-report "$1" "$id" "$bundle" "${OPTS[@]}"
}

# Without an answer from Ray the bundle has only the errors.
code=0
bundle=$(run helper_on "$HEAD" debug-bundle "$id" --event on-demand) || code=$?
[[ -z $DRY_RUN ]] || bundle=BUNDLE
[[ -n $bundle ]] || exit "$code"
(on_each report_host "${HOSTS[@]}") || say 'some hosts did not answer: the archive lacks their part'
run helper_on "$HEAD" pack-bundle "$id" "$bundle"
