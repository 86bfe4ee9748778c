#!/usr/bin/env bash
# Submit a JobSpec (JSON or YAML) from the head. Prints only the job id.
#
# usage: ./scripts/43_submit_jobspec.sh SPEC [--set KEY=VALUE]... [--wait | --no-wait] [--timeout SECONDS] [--pending-timeout SECONDS]
#                                       [--cluster NAME|FILE] [--dry-run]
#
# Everything is checked before Ray sees the job: the spec, its paths, every trainer override against the Hydra config of the chosen
# snapshot, and whether the cluster is large enough. The job's evidence is in ${SHARED_ROOT}/jobs/<id>/.
#
#   --set KEY=VALUE             add a trainer override to the JobSpec's, without editing its file; may be repeated. The job's folder
#                               records the JobSpec with it (config/job_spec.*)
#   --wait                      follow the job and exit with its outcome
#   --no-wait                   return when Ray has accepted the job (default)
#   --timeout SECONDS           with --wait: stop following after SECONDS (exit code 4); the job continues
#   --pending-timeout SECONDS   with --wait: stop following when Ray has not started the job after SECONDS (default 120)
#   --dry-run                   print the whole plan (ids, folders, runtime_env, command line) and change nothing; also when the
#                               cluster is down. Missing inputs are listed at its end (then exit code 3)
#
# With "retry" in the JobSpec, another attempt follows when something outside of the job ended it; --wait follows all attempts.
#
# exit codes: 0 accepted (with --wait: succeeded), 1 the job failed, 2 bad input, 3 blocked, 4 timed out, 5 something outside of the
# job ended it
#
# examples:
#   ./scripts/43_submit_jobspec.sh templates/ppo.json --wait
#   ./scripts/43_submit_jobspec.sh templates/ppo.json --set trainer.save_freq=5 --set data.train_batch_size=64 --dry-run
#   id=$(./scripts/43_submit_jobspec.sh my.yaml) && ./scripts/50_status.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--set= --wait --no-wait --timeout= --pending-timeout= SPEC' "$@"
load_cluster --unlocated
submit_spec "${ARGS[0]}" "${OPTS[@]}"
