#!/usr/bin/env bash
# Validate a Megatron-Bridge change end to end through NeMo-RL's own functional tests, ending in an honest verdict and a summary.
#
# usage: BRIDGE_REPO=PATH NEMO_RL_REPO=PATH ./scripts/61_e2e_nemo_rl.sh --level N[,N...] [--variant NAME] [--model ORG/NAME|FOLDER]
#            [--override KEY=VALUE]... [--recipe PATH] [--steps N] [--baseline CHECKOUT|FILE] [--bridge-tests PATH]...
#            [--bridge-evidence LOG] [--test-evidence NAME=LOG]... [--setup COMMAND] [--timeout S] [--stall S]
#            [--via ray.sub|docker|slurm|sbatch] [--image IMAGE:TAG] [--launcher-option OPTION]... [--json] [--plan]
#        … --recommend [--base REF]      which levels the changed files of BRIDGE_REPO require, and why
#        … --resume RUN                  go on with a run: what passed is not run again
#
# levels: 0 Megatron policy GRPO smoke (two steps on 2 GPUs), 1 LoRA and checkpoints (variants lora, sft-resume: both unless one is named),
# 2 non-colocated vLLM refit (non-colocated; delta), 3 Megatron generation, 4 parallelism stress, 5 architecture-specific (vlm, audio, moe,
# eagle3, quant), 6 learning signal.
#
#   --plan        (= --dry-run) every step with its exact environment and command, checked against the checkouts; nothing is run
#   --model       sets policy.model_name and policy.tokenizer.name, for example to the folder of a snapshot
#   --override    handed on to NeMo-RL's script, which splits it at spaces and globs: those are refused, and so is one that hides failures
#   --recipe      for levels 4 and 5 (moe): a config of NeMo-RL, relative to NEMO_RL_REPO; by default one for as many GPUs as are here
#   --baseline    for level 6: the unchanged checkout, which is trained first in the same way; or a metrics file of such a run
#   --bridge-evidence  the log of the Bridge tests from an environment that has uv and pytest, in place of running them here; also with --resume
#   --setup       a shell command that makes the environment ready, in the same container as the run; the summary names it
#   --timeout     seconds for each start of a script (7200); --stall: seconds without a new line in its log (1800)
#   --runs-dir    where runs' folders are made (.mvp/e2e); they are never overwritten
#   --test-evidence NAME=LOG  the same for any list of tests, by its name in --plan
#   --via         the whole procedure elsewhere: through NeMo-RL's own ray.sub (with --launcher-option --account=… and --partition=…; GPUS_PER_NODE,
#                 SETUP_COMMAND and its other variables from the environment), in a container, or with srun on one node
#   --image       the container's image with its exact tag (or NEMO_RL_IMAGE); docker needs it, Slurm takes it through pyxis
#   --description another procedure of NeMo-RL, a YAML file like templates/e2e/nemo-rl.yaml
#
# BRIDGE_REPO comes first on the path. The copy of Bridge inside NEMO_RL_REPO counts only if its commit and changes are the same.
# HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE are handed on. MCORE_REPO names a node-local copy of Megatron-LM, in which
# helpers_cpp is built; E2E_GPUS the number of GPUs that a recipe must fit, in place of this machine's. See docs/e2e.md.
#
# Shown so far: whole runs over fixture checkouts, also through a ray.sub-like job of a real Slurm, and --plan and --recommend on the real
# repositories; no training of the real NeMo-RL.
#
# exit codes: 0 Pass, 1 Fail, 2 bad input, 3 Blocked (no evidence against the change)
#
# examples:
#   BRIDGE_REPO=~/Megatron-Bridge NEMO_RL_REPO=~/nemo-rl ./scripts/61_e2e_nemo_rl.sh --level 0,1
#   BRIDGE_REPO=~/Megatron-Bridge ./scripts/61_e2e_nemo_rl.sh --recommend --base origin/main
#   ./scripts/61_e2e_nemo_rl.sh --level 1 --variant sft-resume --plan
#   ./scripts/61_e2e_nemo_rl.sh --level 0 --via slurm --image nvcr.io/nvidia/nemo-rl:TAG
export MVP_E2E_PYTHONPATH=${MVP_E2E_PYTHONPATH-${PYTHONPATH-}}
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
source "$SCRIPTS/lib/e2e.sh"
own='--level= --variant= --model= --override= --recipe= --steps= --baseline= --bridge-tests= --bridge-evidence= --test-evidence= --setup= --timeout= --stall= --runs-dir= --resume= --recommend'
parse_options "$own --base= --via= --image= --launcher-option= --description= --plan --json" "$@"
run_e2e --description=nemo-rl
