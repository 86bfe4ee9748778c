#!/usr/bin/env bash
# Submit a short supervised fine-tuning run on Ray: 20 steps on all workers, saved every 10 (templates/sft.json). Prints only the job id.
#
# usage: ./scripts/42_submit_sft_minimal.sh [--set KEY=VALUE]... [--wait | --no-wait] [--timeout SECONDS] [--cluster NAME|FILE]
#        [--dry-run]
#
# The same as ./scripts/43_submit_jobspec.sh templates/sft.json: see its --help for the options.
#
# examples:
#   ./scripts/42_submit_sft_minimal.sh --wait
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--set= --wait --no-wait --timeout= --pending-timeout=' "$@"
load_cluster --unlocated
submit_spec "$PROJECT/templates/sft.json" "${OPTS[@]}"
