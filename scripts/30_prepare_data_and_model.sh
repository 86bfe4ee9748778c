#!/usr/bin/env bash
# Prepare data and model under the shared root: GSM8K-schema parquet for RL (datasets/gsm8k) and SFT (datasets/gsm8k_sft), and a
# model (common/models/<name>, with common/models/default pointing to it).
#
# usage: ./scripts/30_prepare_data_and_model.sh [--cluster NAME|FILE] [--dry-run]
#
# The cluster file's "data" says from where: "generated" (seeded word problems, a tokenizer trained on them, a tiny Qwen2 with random
# weights) or "hub" (openai/gsm8k and a real model at pinned revisions, downloaded into hf/ and resumed where it broke off).
# What exists whole is left alone ("skip: exists"); what is missing, truncated or edited is made again. Paths on stdout.
#
# examples:
#   ./scripts/30_prepare_data_and_model.sh
#   ./scripts/30_prepare_data_and_model.sh --dry-run       # what is missing?
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '' "$@"
load_cluster
helper_on "$HEAD" prepare ${DRY_RUN:+--dry-run}
