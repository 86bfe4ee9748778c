#!/usr/bin/env bash
# Start one training of NeMo-RL from one of its own configs, as its functional tests do, and dump its metrics.
#
# usage: EXAMPLE=examples/run_grpo.py CONFIG=examples/configs/NAME.yaml OUTPUT=FOLDER nemo_rl_training.sh [OVERRIDE]...
#
# For 61_e2e_nemo_rl.sh where NeMo-RL has no functional test of its own. It is started in NeMo-RL's checkout and writes only into
# OUTPUT, which it empties first: the dump would merge the events of an earlier start.
set -euo pipefail

rm -rf "$OUTPUT"
mkdir -p "$OUTPUT/logs"
uv run "$EXAMPLE" --config "$CONFIG" logger.tensorboard_enabled=true logger.wandb_enabled=false logger.log_dir="$OUTPUT/logs" \
  checkpointing.enabled=false "$@" 2>&1 | tee "$OUTPUT/run.log"
uv run tests/json_dump_tb_logs.py "$OUTPUT/logs" --output_path "$OUTPUT/metrics.json"
