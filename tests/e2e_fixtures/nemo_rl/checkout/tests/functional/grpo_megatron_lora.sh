#!/bin/bash
# Stands for the script of the same name in NeMo-RL, which needs GPUs.
trap "rm -rf /tmp/mvp-no-such-folder-of-the-fixture" EXIT
SCRIPT_DIR=$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd)
PROJECT_ROOT=$(realpath $SCRIPT_DIR/../..)
git config --global --add safe.directory $PROJECT_ROOT

set -eou pipefail

EXP_NAME=$(basename $0 .sh)
EXP_DIR=$SCRIPT_DIR/$EXP_NAME
LOG_DIR=$EXP_DIR/logs
JSON_METRICS=$EXP_DIR/metrics.json
RUN_LOG=$EXP_DIR/run.log
export PYTHONPATH=${PROJECT_ROOT}:${PYTHONPATH:-}

rm -rf $EXP_DIR $LOG_DIR
mkdir -p $EXP_DIR $LOG_DIR

cd $PROJECT_ROOT
uv run coverage run -a --data-file=$PROJECT_ROOT/tests/.coverage --source=$PROJECT_ROOT/nemo_rl \
    $PROJECT_ROOT/examples/run_grpo.py \
    --config $PROJECT_ROOT/examples/configs/grpo_math_1B_megatron.yaml \
    policy.model_name=Qwen/Qwen2.5-0.5B \
    cluster.gpus_per_node=2 \
    grpo.max_num_steps=3 policy.megatron_cfg.peft.enabled=true policy.megatron_cfg.peft.dim=32 \
    logger.tensorboard_enabled=true \
    logger.log_dir=$LOG_DIR \
    checkpointing.enabled=true checkpointing.save_period=3 checkpointing.checkpoint_dir=/tmp/mvp-no-such-folder-of-the-fixture \
    $@ \
    2>&1 | tee $RUN_LOG

uv run tests/json_dump_tb_logs.py $LOG_DIR --output_path $JSON_METRICS

uv run tests/check_metrics.py $JSON_METRICS \
    'max(data["train/reward"]) > 0.03' \
    'max(data["train/gen_kl_error"]) < 0.001'
