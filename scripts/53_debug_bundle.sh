#!/usr/bin/env bash
# All that can be known about a job, gathered from every host into one archive to attach to a report; its path on stdout.
#
# usage: ./scripts/53_debug_bundle.sh ID [--py-spy] [--cluster NAME|FILE] [--dry-run]
#
# Ray's nodes, actors and jobs; from each host memory, disks, GPUs, the job's processes, their environment and the ends of their Ray
# logs; the job's config, result, log and metrics, and what 55_explain.sh says. What looks like a secret is masked. Size-bounded. Hosts or
# a Ray that do not answer cost their part only: missing.txt in the archive names it.
#
#   --py-spy   also where each of the job's Python processes is just now (a job that hangs)
#
# exit codes: 0 the archive is there, 2 unknown ID
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

# Without Ray's answer there still is a bundle, which says so.
code=0
bundle=$(run helper_on "$HEAD" debug-bundle "$id" --event on-demand) || code=$?
[[ -z $DRY_RUN ]] || bundle=BUNDLE
[[ -n $bundle ]] || exit "$code"
(on_each report_host "${HOSTS[@]}") || say 'the archive is made of what the other hosts told'
run helper_on "$HEAD" pack-bundle "$id" "$bundle"
