#!/usr/bin/env bash
# The wrapper of the description verl-cpu-smoke: the checkout's real trainer (GRPO) without a GPU, through this project's CPU plugin.
# It reads the variables that upstream's Megatron wrapper reads, shows them in the same way, and is started in the checkout as that is.
set -xeuo pipefail
LIB=${BASH_SOURCE[0]%/templates/*}/lib
export PYTHONPATH="${PYTHONPATH:+${PYTHONPATH}:}$LIB"
export VERL_USE_EXTERNAL_MODULES=verl_cpu VERL_PLATFORM=cpu CUDA_VISIBLE_DEVICES="" OMP_NUM_THREADS=1 TQ_NUM_THREADS=1

NUM_GPUS=${NUM_GPUS:-1} # trainer processes, on CPUs
MODEL_PATH=${MODEL_PATH:-${HOME}/models/tiny-qwen2}
TRAIN_FILES=${TRAIN_FILES:-${HOME}/data/gsm8k/train.parquet}
VAL_FILES=${VAL_FILES:-${HOME}/data/gsm8k/test.parquet}
REWARD_FILE=${REWARD_FILE:-$LIB/mvp_verl/digits.py}
VAL_BEFORE_TRAIN=${VAL_BEFORE_TRAIN:-False}
TEST_FREQ=${TEST_FREQ:--1}
RESUME_MODE=${RESUME_MODE:-disable}
SAVE_FREQ=${SAVE_FREQ:--1}
TOTAL_TRAIN_STEPS=${TOTAL_TRAIN_STEPS:-1}

ray_env=ray_kwargs.ray_init.runtime_env.env_vars
params=(
  algorithm.adv_estimator=grpo
  data.train_files="$TRAIN_FILES" data.val_files="$VAL_FILES"
  data.train_batch_size=8 data.max_prompt_length=128 data.max_response_length=32 data.dataloader_num_workers=0
  actor_rollout_ref.model.path="$MODEL_PATH"
  actor_rollout_ref.model.use_remove_padding=False
  actor_rollout_ref.model.enable_gradient_checkpointing=False
  +actor_rollout_ref.model.override_config.attn_implementation=sdpa
  actor_rollout_ref.actor.optim.lr=2e-3
  actor_rollout_ref.actor.ppo_mini_batch_size=8 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32
  actor_rollout_ref.actor.use_kl_loss=False
  actor_rollout_ref.actor.strategy=fsdp2 actor_rollout_ref.actor.fsdp_config.strategy=fsdp2
  actor_rollout_ref.actor.use_torch_compile=False actor_rollout_ref.actor.fsdp_config.use_torch_compile=False
  +actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp32
  actor_rollout_ref.rollout.name=hf actor_rollout_ref.rollout.dtype=float32 actor_rollout_ref.rollout.n=4
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32
  actor_rollout_ref.rollout.tensor_model_parallel_size=1 actor_rollout_ref.rollout.agent.num_workers=1
  actor_rollout_ref.rollout.free_cache_engine=False
  reward.num_workers=1
  reward.custom_reward_function.path="$REWARD_FILE"
  transfer_queue.backend.SimpleStorage.num_data_storage_units=1
  "++$ray_env.PYTHONPATH=$PYTHONPATH"
  "++$ray_env.VERL_USE_EXTERNAL_MODULES=verl_cpu" "++$ray_env.VERL_PLATFORM=cpu"
  trainer.device=cpu trainer.nnodes=1 trainer.n_gpus_per_node="$NUM_GPUS" trainer.use_v1=False
  trainer.logger=console trainer.project_name=verl-test trainer.experiment_name=cpu-smoke
  trainer.val_before_train="$VAL_BEFORE_TRAIN" trainer.test_freq="$TEST_FREQ"
  trainer.save_freq="$SAVE_FREQ" trainer.resume_mode="$RESUME_MODE"
  trainer.total_epochs=100 trainer.total_training_steps="$TOTAL_TRAIN_STEPS"
)
# What Ray may schedule, not cores; a cluster that is there already has its own.
if [ "${RAY_ADDRESS:-local}" = local ]; then params+=(ray_kwargs.ray_init.num_cpus=8); fi
# shellcheck disable=SC2068 # as unquoted as upstream's: what a run is given must survive that
python3 -m verl.trainer.main_ppo "${params[@]}" $@
