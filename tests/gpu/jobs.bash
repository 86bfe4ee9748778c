# shellcheck shell=bash
# The JobSpecs of the GPU suite, for one worker with GPUS GPUs: gpu.bats runs them, and tests/bats/gpus.bats plans them where no GPU is.

# shellcheck disable=SC2034 # for gpus.bats
GPU_JOBS=(sft again fp32 own grpo ppo oom killed hang long)

gpu_job() { # <id, one of GPU_JOBS>: its JobSpec
  case $1 in
    sft) small sft "$1" && overrides 'trainer.total_training_steps: 4' 'trainer.save_freq: 2' ;;
    again) small sft "$1" 'resume_from: sft' && overrides 'trainer.total_training_steps: 4' 'trainer.save_freq: 2' ;;
    fp32) # beside the same job on CPUs
      small sft "$1"
      overrides 'trainer.total_training_steps: 1' 'engine.model_dtype: fp32' '+engine.mixed_precision.param_dtype: fp32'
      ;;
    own) small sft-own "$1" && overrides 'trainer.total_training_steps: 1' ;;
    grpo) small grpo "$1" && overrides 'reward.custom_reward_function.path: pkg://mvp_verl.digits' 'trainer.total_training_steps: 2' 'trainer.save_freq: -1' ;;
    ppo) small ppo "$1" && overrides 'trainer.total_training_steps: 2' 'trainer.save_freq: 2' ;;
    oom)
      small sft "$1" 'env_vars: {PYTORCH_CUDA_ALLOC_CONF: "per_process_memory_fraction:0.0002"}'
      overrides 'trainer.total_training_steps: 4'
      ;;
    hang) # whoever writes to the pipe of a rank gets its flight recorder
      small sft "$1" 'stall: {after_s: 25}' "env_vars: {TORCH_NCCL_DEBUG_INFO_PIPE_FILE: $FOLDER/rank_}"
      overrides 'trainer.total_epochs: 500' 'trainer.save_freq: 1000'
      ;;
    long | killed) small sft "$1" && overrides 'trainer.total_epochs: 500' 'trainer.save_freq: 1000' ;;
  esac
}

give_inputs() { # the workload of the job own: SFT by verl's own driver
  printf 'extends: sft\nentry: {module: verl.trainer.sft_trainer_ray}\n' >"$WORKLOADS/sft-own.yaml"
}

small() { # <workload> <id> [<line of the JobSpec>...]: a few steps of small batches, every number divisible by the number of GPUs
  local batch=$((8 * GPUS))
  printf 'workload: %s\nsubmission_id: %s\ncode_path: common/code/verl/current\nmodel: common/models/default\n' "$1" "$2"
  (($# < 3)) || printf '%s\n' "${@:3}"
  if [[ $1 == sft* ]]; then
    cat <<YAML
dataset: datasets/gsm8k_sft
trainer_overrides:
  data: {train_batch_size: $batch, micro_batch_size_per_gpu: 4, use_dynamic_bsz: false, max_length: 256}
  optim.lr: 1e-3
  engine: {use_torch_compile: false}
  model.enable_gradient_checkpointing: false
YAML
  else
    cat <<YAML
dataset: datasets/gsm8k
trainer_overrides:
  data: {train_batch_size: $batch, max_prompt_length: 128, max_response_length: 32}
  actor_rollout_ref:
    actor: {ppo_mini_batch_size: $batch, ppo_micro_batch_size_per_gpu: 4, optim: {lr: 1e-4}}
    rollout: {log_prob_micro_batch_size_per_gpu: 4, n: $([[ $1 == ppo ]] && echo 1 || echo 4), agent: {num_workers: 1}, enforce_eager: true}
  critic: {ppo_micro_batch_size_per_gpu: 4}
  reward.num_workers: 1
YAML
  fi
}

overrides() { # <line>...: more trainer_overrides, below those of `small`
  printf '  %s\n' "$@"
}
