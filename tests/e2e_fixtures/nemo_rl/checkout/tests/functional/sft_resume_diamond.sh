#!/bin/bash
# Stands for the script of the same name in NeMo-RL, which needs GPUs.
SCRIPT_DIR=$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd)
PROJECT_ROOT=$(realpath $SCRIPT_DIR/../..)
git config --global --add safe.directory $PROJECT_ROOT

set -eou pipefail

EXP_NAME=$(basename $0 .sh)
EXP_DIR=$SCRIPT_DIR/$EXP_NAME
CKPT_DIR=$EXP_DIR/ckpts
RUN_LOG=$EXP_DIR/run.log
export PYTHONPATH=${PROJECT_ROOT}:${PYTHONPATH:-}

rm -rf $EXP_DIR
mkdir -p $EXP_DIR

prefix_output() {
  sed "s/^/$1/"
}

train_cmd() {
uv run coverage run -a --data-file=$PROJECT_ROOT/tests/.coverage --source=$PROJECT_ROOT/nemo_rl \
    $PROJECT_ROOT/examples/run_sft.py \
    policy.model_name=Qwen/Qwen3-0.6B \
    cluster.gpus_per_node=1 \
    logger.tensorboard_enabled=true \
    checkpointing.enabled=false \
    checkpointing.save_period=1 \
    $@
}

cd $PROJECT_ROOT
DTENSOR="policy.dtensor_cfg.enabled=true policy.megatron_cfg.enabled=false" MCORE="policy.dtensor_cfg.enabled=false policy.megatron_cfg.enabled=true"
train_cmd logger.log_dir=$LOG_DIR/baseline sft.max_num_steps=2 $DTENSOR $@ 2>&1 | prefix_output "[baseline 2step] " | tee ${RUN_LOG}.2step_baseline
uv run tests/json_dump_tb_logs.py $LOG_DIR/baseline --output_path $EXP_DIR/baseline.json
train_cmd logger.log_dir=$LOG_DIR/dtensor sft.max_num_steps=2 checkpointing.checkpoint_must_save_by=0:0:0:1 checkpointing.enabled=true checkpointing.checkpoint_dir=$CKPT_DIR/dtensor $DTENSOR $@ 2>&1 | prefix_output "[dtensor 1step] " | tee ${RUN_LOG}.dtensor_1step
uv run tests/json_dump_tb_logs.py $LOG_DIR/dtensor --output_path $EXP_DIR/dtensor_1step.json
train_cmd logger.log_dir=$LOG_DIR/dtensor sft.max_num_steps=2 checkpointing.enabled=true checkpointing.checkpoint_dir=$CKPT_DIR/dtensor $DTENSOR $@ 2>&1 | prefix_output "[dtensor 2step] " | tee ${RUN_LOG}.dtensor_2step
uv run tests/json_dump_tb_logs.py $LOG_DIR/dtensor --output_path $EXP_DIR/dtensor_2step.json
train_cmd logger.log_dir=$LOG_DIR/mcore sft.max_num_steps=2 checkpointing.checkpoint_must_save_by=0:0:0:1 checkpointing.enabled=true checkpointing.checkpoint_dir=$CKPT_DIR/mcore $MCORE $@ 2>&1 | prefix_output "[mcore 1step] " | tee ${RUN_LOG}.mcore_1step
uv run tests/json_dump_tb_logs.py $LOG_DIR/mcore --output_path $EXP_DIR/mcore_1step.json
train_cmd logger.log_dir=$LOG_DIR/mcore sft.max_num_steps=2 checkpointing.enabled=true checkpointing.checkpoint_dir=$CKPT_DIR/mcore $MCORE $@ 2>&1 | prefix_output "[mcore 2step] " | tee ${RUN_LOG}.mcore_2step
uv run tests/json_dump_tb_logs.py $LOG_DIR/mcore --output_path $EXP_DIR/mcore_2step.json

uv run python - <<PY $EXP_DIR/baseline.json $EXP_DIR/dtensor_2step.json $EXP_DIR/mcore_2step.json
import json, sys
base, *others = [json.load(open(file))["train/loss"]["2"] for file in sys.argv[1:]]
for other in others:
    assert abs(other - base) <= 0.05 * base, f"['train/loss']['2'] ({other}) != baseline ({base})"
print("✓ train/loss 2 is equal")
PY
