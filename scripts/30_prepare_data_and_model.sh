#!/usr/bin/env bash
# Prepare data and model under the shared root: GSM8K-schema parquet for RL (datasets/gsm8k) and SFT (datasets/gsm8k_sft), and a
# model (common/models/<name>, with common/models/default pointing to it).
#
# usage: ./scripts/30_prepare_data_and_model.sh [--cluster NAME|FILE] [--dry-run]
#
# The cluster file's "data" chooses the source: "generated" (seeded word problems, a tokenizer trained on them, a tiny Qwen2 with random
# weights) or "hub" (openai/gsm8k and a real model, from a Hugging Face hub into hf/, or from folders; docs/data.md). A branch is resolved
# to a commit once. After a failure, whole files are kept and the next run continues.
#
# Complete folders are kept ("skip: exists"); missing, truncated or edited ones are made again. Folders that were made elsewhere are
# adopted: checked, hashed, and used as they are. HF_ENDPOINT, HF_HUB_OFFLINE, HF_TOKEN, HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY
# of this machine apply on the head. Prints the paths. --dry-run needs no running head.
#
# examples:
#   ./scripts/30_prepare_data_and_model.sh
#   ./scripts/30_prepare_data_and_model.sh --dry-run       # list the missing parts
#   HF_ENDPOINT=https://hub.example ./scripts/30_prepare_data_and_model.sh --cluster dev
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
parse_options '' "$@"
load_cluster
if [[ -n $DRY_RUN ]]; then plan_on "$HEAD" prepare; else helper_online "$HEAD" prepare; fi
