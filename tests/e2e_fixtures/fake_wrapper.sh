#!/usr/bin/env bash
# Stands for the Megatron PPO wrapper of a verl checkout, which needs GPUs: it reads the same variables, shows them in the same way, starts
# a trainer with Hydra overrides, and hands its arguments on as unquoted as the real one does. fake_* say how the fake trainer goes wrong.
set -xeuo pipefail
if [ -n "${fake_shadow:-}" ]; then export PYTHONPATH="${fake_shadow}${PYTHONPATH:+:${PYTHONPATH}}"; fi
NUM_GPUS=${NUM_GPUS:-8}
ENGINE=${ENGINE:-"vllm"}
LAUNCH=(python3)
if [ "${VERL_USE_UV:-1}" != 0 ] && [ "${fake_uv:-0}" = 1 ]; then LAUNCH=(uv run --frozen python3); fi
MODEL_ID=${MODEL_ID:-Qwen/Qwen2.5-0.5B}
MODEL_PATH=${MODEL_PATH:-${HOME}/models/${MODEL_ID}}
USE_DUMMY_MODEL=${USE_DUMMY_MODEL:-False}
DUMMY_MODEL_PATH=${DUMMY_MODEL_PATH:-${HOME}/dummy_models/${MODEL_ID}}
if [ "$USE_DUMMY_MODEL" = "True" ]; then
  "${LAUNCH[@]}" scripts/init_random_model.py --hf_model_path "${MODEL_PATH}" --new_config_path "${DUMMY_MODEL_CONFIG_PATH}" \
    --output_path "${DUMMY_MODEL_PATH}"
  MODEL_PATH="${DUMMY_MODEL_PATH}"
fi
RM_MODEL_PATH=${RM_MODEL_PATH:-${HOME}/models/rm}
TRAIN_FILES=${TRAIN_FILES:-${HOME}/data/gsm8k/train.parquet}
VAL_FILES=${VAL_FILES:-${HOME}/data/gsm8k/test.parquet}
VAL_BEFORE_TRAIN=${VAL_BEFORE_TRAIN:-False}
TEST_FREQ=${TEST_FREQ:--1}
RESUME_MODE=${RESUME_MODE:-disable}
SAVE_FREQ=${SAVE_FREQ:--1}
TOTAL_TRAIN_STEPS=${TOTAL_TRAIN_STEPS:-1}
USE_DIST_CKPT=${USE_DIST_CKPT:-False}
DIST_CKPT_PATH=${DIST_CKPT_PATH:-${HOME}/dist_ckpt/${MODEL_ID}}
LORA_RANK=${LORA_RANK:-0}
CRITIC_LORA_RANK=${CRITIC_LORA_RANK:-$LORA_RANK}
REF_TP=${REF_TP:-${COMMON_TP:-2}}
MAX_PROMPT_LENGTH=${MAX_PROMPT_LENGTH:-512}
COMMON_PP=${COMMON_PP:-2} COMMON_VPP=${COMMON_VPP:-2} COMMON_CP=${COMMON_CP:-2} COMMON_TP=${COMMON_TP:-2}
COMMON_EP=${COMMON_EP:-1} COMMON_ETP=${COMMON_ETP:-1} INFER_TP=${INFER_TP:-$COMMON_TP}
ALL_OFFLOAD=${ALL_OFFLOAD:-True}
USE_MBRIDGE=${USE_MBRIDGE:-True}
VANILLA_MBRIDGE=${VANILLA_MBRIDGE:-False}
VALUE_VANILLA_MBRIDGE=${VALUE_VANILLA_MBRIDGE:-$VANILLA_MBRIDGE}
USE_MEGATRON_FSDP=${USE_MEGATRON_FSDP:-False}
ROUTING_REPLAY_MODE=${ROUTING_REPLAY_MODE:-disabled}
: "$VALUE_VANILLA_MBRIDGE" "$COMMON_VPP" "$COMMON_ETP" "$ALL_OFFLOAD" "$VAL_BEFORE_TRAIN" "$TEST_FREQ" "$ENGINE"
# shellcheck disable=SC2068 # as the real one
"${LAUNCH[@]}" -m verl.trainer.main_ppo --config-path=config --config-name='ppo_megatron_trainer.yaml' \
  actor_rollout_ref.model.path="${MODEL_PATH}" \
  actor_rollout_ref.model.lora.rank="${LORA_RANK}" critic.model.lora.rank="${CRITIC_LORA_RANK}" \
  actor_rollout_ref.actor.megatron.use_mbridge="${USE_MBRIDGE}" \
  actor_rollout_ref.ref.megatron.use_mbridge="${USE_MBRIDGE}" critic.megatron.use_mbridge="${USE_MBRIDGE}" \
  actor_rollout_ref.actor.megatron.vanilla_mbridge="${VANILLA_MBRIDGE}" \
  actor_rollout_ref.ref.megatron.vanilla_mbridge="${VANILLA_MBRIDGE}" \
  critic.megatron.vanilla_mbridge="${VALUE_VANILLA_MBRIDGE}" \
  actor_rollout_ref.actor.megatron.use_megatron_fsdp="${USE_MEGATRON_FSDP}" \
  actor_rollout_ref.ref.megatron.use_megatron_fsdp="${USE_MEGATRON_FSDP}" critic.megatron.use_megatron_fsdp="${USE_MEGATRON_FSDP}" \
  actor_rollout_ref.ref.megatron.tensor_model_parallel_size="${REF_TP}" data.max_prompt_length="${MAX_PROMPT_LENGTH}" \
  actor_rollout_ref.actor.megatron.tensor_model_parallel_size="${COMMON_TP}" \
  actor_rollout_ref.actor.megatron.pipeline_model_parallel_size="${COMMON_PP}" \
  actor_rollout_ref.actor.megatron.context_parallel_size="${COMMON_CP}" \
  actor_rollout_ref.actor.megatron.expert_model_parallel_size="${COMMON_EP}" \
  actor_rollout_ref.rollout.tensor_model_parallel_size="${INFER_TP}" \
  actor_rollout_ref.actor.megatron.router_replay.mode="${ROUTING_REPLAY_MODE}" \
  actor_rollout_ref.actor.megatron.use_dist_checkpointing="${USE_DIST_CKPT}" \
  actor_rollout_ref.actor.megatron.dist_checkpointing_path="${DIST_CKPT_PATH}" \
  data.train_files="${TRAIN_FILES}" data.val_files="${VAL_FILES}" \
  reward.reward_model.enable=True reward.reward_model.model_path="${RM_MODEL_PATH}" \
  trainer.n_gpus_per_node="${NUM_GPUS}" \
  trainer.resume_mode="${RESUME_MODE}" \
  trainer.save_freq="${SAVE_FREQ}" \
  trainer.total_training_steps="${TOTAL_TRAIN_STEPS}" \
  $@
