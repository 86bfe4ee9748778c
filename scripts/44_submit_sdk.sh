#!/usr/bin/env bash
# Submit a JobSpec (YAML or JSON) from the head through Ray's Python SDK instead of `ray job submit`. Prints only the job id.
#
# usage: ./scripts/44_submit_sdk.sh SPEC.yaml [--set KEY=VALUE]... [--wait | --no-wait] [--timeout SECONDS]
#                                  [--cluster NAME|FILE] [--dry-run]
#
# Checks, job folder and the request to Ray are the same as with ./scripts/43_submit_jobspec.sh: see its --help for the options, and
# docs/sdk-submission.md for the differences.
#
# examples:
#   ./scripts/44_submit_sdk.sh templates/ppo.yaml --wait
#   ./scripts/44_submit_sdk.sh templates/sft.yaml --cluster templates/ray/local.yaml
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--set= --wait --no-wait --timeout= --pending-timeout= SPEC' "$@"
load_cluster --unlocated
submit_spec "${ARGS[0]}" --via sdk "${OPTS[@]}"
