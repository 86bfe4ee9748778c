#!/usr/bin/env bash
# Prove from the evidence in the job folders that jobs ran as they should: a verdict with its evidence for each check.
#
# usage: ./scripts/54_verify.sh ID... [--learning] [--gates [--baseline NAME [--any-hardware]]] [--seal] [--definition-of-done] [--json] [--cluster NAME|FILE] [--dry-run]
#
# Checks: sealed: no file changed, is missing or was added since the job's end (docs/evidence.md); as planned: plan, JobSpec, command line and
# Hydra's record agree; one account: Ray, provenance and the job's processes agree; times in order; succeeded; seen running by Ray; submitted from the head; driver on a worker (by node id and address); trained on this cluster
# and no other (its processes are on the node list); own folder, nothing older in it and nothing resumed except what resume_from names;
# data and model reused (from the second ID on); checkpoints exactly at the save_freq steps, and whole; Ray snapshots at submission,
# start and end; code from code_path in the driver and in Ray workers; metrics of every step, none NaN or infinite; the log's steps
# and values are those of the metrics, and no traceback comes after them; of a job with "retry" also: why this attempt was started, from the newest whole checkpoint, and that the attempts together trained every step.
# A check is Pass, Fail or Skipped (with the reason). The cluster may be down.
#
#   --learning             also check that the job learned: reward rose, or SFT's loss fell (Mann-Kendall test, p < 0.01); Skipped where the
#                          task is not the one of a CPU cluster's defaults, which a tiny model can learn in 20 steps
#   --seal                 first seal the files of ended jobs that are not sealed yet, such as those of a killed job runner
#   --definition-of-done   also print the Definition of Done (templates/definition_of_done.yaml), each line with its evidence
#   --gates                also judge each job's metrics by templates/gates/<workload>.yaml: is every value finite, was enough learnt, fast
#                          enough, with as much memory? Compared with the baseline <device>-<workload> (cpu-ppo), or the shipped one, where the job's task,
#                          versions and, for speed and memory, hardware are the recorded ones; else Skipped, and one line says why
#   --baseline NAME        compare with these recorded runs instead (56_report.sh --baseline), whatever their task and versions; refused
#                          when their hardware is another and a gate depends on it
#   --any-hardware         compare all the same
#   --json                 print the checks with the lines they rest on, as one JSON object (docs/checks.md)
#
# exit codes: 0 nothing failed, 1 a check failed or a job has not ended, 2 unknown ID, gates that do not fit the job, or a baseline of other hardware
#
# examples:
#   ./scripts/54_verify.sh ppo-20260131-101500-1a2b
#   ./scripts/54_verify.sh "$first" "$second" --json
#   ./scripts/54_verify.sh ppo-20260131-101500-1a2b --seal
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--json --definition-of-done --learning --seal --gates --baseline= --any-hardware ID...' "$@"
load_cluster
run helper_on "$HEAD" verify "${OPTS[@]}" "${ARGS[@]}"
