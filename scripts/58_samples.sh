#!/usr/bin/env bash
# Show what the model said in the last steps of a PPO or GRPO job: prompt, answers and scores, side by side across steps.
#
# usage: ./scripts/58_samples.sh ID [--step N] [--worst N | --best N | --changed] [--full] [--json] [--cluster NAME|FILE] [--dry-run]
#        ./scripts/58_samples.sh ID [--step N] --rescore FILE [--json]
#
# A job keeps the rollouts of its last 20 steps, at most 64 MiB (keep_rollouts in the JobSpec). Without an option: the first five answers
# of the newest step. Beside each are the answers of other kept steps to the same prompt. The cluster need not be up.
#
#   --step N        the answers of step N
#   --worst N       the N answers with the lowest scores
#   --best N        the N answers with the highest scores
#   --changed       the five prompts whose mean score changed most between the first and the last kept step that has them
#   --full          print long prompts and answers whole; otherwise their middle is left out
#   --rescore FILE  score the kept answers again with another reward function and compare the means; FILE is as reward_fn_path of a
#                   JobSpec: file.py or file.py:function under the shared root. Runs on the head, in a process of its own; changes nothing
#   --json          print one JSON object
#
# exit codes: 0 success, 2 unknown ID or step, a job that kept no samples, a reward function that raises or returns no score
#
# examples:
#   ./scripts/58_samples.sh ppo-20260131-101500-1a2b --worst 5
#   ./scripts/58_samples.sh grpo-20260131-101500-1a2b --rescore user/code/reward.py
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '--step= --worst= --best= --changed --rescore= --full --json ID' "$@"
load_cluster
run helper_on "$HEAD" samples "${OPTS[@]}" "${ARGS[0]}"
