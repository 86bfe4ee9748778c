#!/usr/bin/env bash
# Prepare data and model under the shared root: GSM8K-schema parquet for RL (datasets/gsm8k) and SFT (datasets/gsm8k_sft), and a
# model (common/models/<name>, with common/models/default pointing to it).
#
# usage: ./scripts/30_prepare_data_and_model.sh [--cluster NAME|FILE] [--dry-run]
#
# The cluster file's "data" chooses the source: "generated" (seeded word problems, a tokenizer trained on them, a tiny Qwen2 with random
# weights) or "hub" (openai/gsm8k and a real model at pinned revisions, downloaded into hf/; an interrupted download is resumed).
# Complete files are kept ("skip: exists"); missing, truncated or edited ones are made again. Prints the paths.
#
# examples:
#   ./scripts/30_prepare_data_and_model.sh
#   ./scripts/30_prepare_data_and_model.sh --dry-run       # list what is missing
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '' "$@"
load_cluster
helper_on "$HEAD" prepare ${DRY_RUN:+--dry-run}
