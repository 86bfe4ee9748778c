#!/usr/bin/env bash
# Validate a Megatron-Bridge change end to end through verl: every step of the procedure, with a verdict and a summary.
#
# usage: BRIDGE_REPO=PATH VERL_REPO=PATH ./scripts/60_e2e_verl.sh --level N[,N...] [--model ORG/NAME|FOLDER] [--variant NAME]
#            [--override KEY=VALUE]... [--bridge-tests PATH]... [--bridge-evidence LOG] [--test-evidence NAME=LOG]...
#            [--script PATH] [--steps N]
#            [--baseline CHECKOUT|FILE] [--setup COMMAND] [--timeout S] [--stall S]
#            [--via docker|slurm|sbatch|ray] [--image IMAGE:TAG] [--launcher-option OPTION]... [--json] [--plan]
#        … --recommend [--base REF]      print which levels the changed files of BRIDGE_REPO call for, and why
#        … --resume RUN                  continue a run; steps that passed are not run again
#
# levels: 0 LoRA + DDP smoke, 1 save and resume, 2 parallelism stress (variants dense, moe), 3 Megatron-FSDP, 4 feature-specific
# (variants vlm, moe, mtp, qat, each with the overrides that switch it on), 5 learning signal.
#
#   --plan        (= --dry-run) print every step with its exact environment and command, checked against the checkouts; run nothing
#   --override    passed to the wrapper, which would split it at spaces and expand * and ?: these are refused
#   --bridge-evidence  the focused tests' log from an environment that has uv and pytest, in place of running them here; also with --resume
#   --test-evidence NAME=LOG  the same for any list of tests, by its name in --plan
#   --script      for level 4: the verl script, relative to VERL_REPO, that switches the feature on, in place of the maintained wrapper
#   --baseline    for level 5: the unchanged checkout, which is trained first in the same way; or a log or metrics file of such a run
#   --setup       a shell command that prepares the environment, in the same container as the run; the summary names it
#   --timeout     seconds for each start of the wrapper (7200); --stall: seconds without output in its log (1800)
#   --runs-dir    the folder for the runs' folders (.mvp/e2e), which are never overwritten
#   --via         run the whole procedure in a container, under Slurm, or as a Ray job of the cluster (--cluster)
#   --image       the container's image with its exact tag (or VERL_IMAGE); docker needs it, Slurm takes it through pyxis
#   --description another procedure of templates/e2e: verl-cpu-smoke runs the real verl on CPUs (VERL_REPO only)
#
# The wrapper's own variables (MODEL_PATH, RM_MODEL_PATH, TRAIN_FILES, VAL_FILES, NUM_GPUS, USE_DUMMY_MODEL …) are taken from the
# environment. Without a reward model the run uses a rule reward, and the summary says so. See docs/e2e.md.
#
# exit codes: 0 Pass, 1 Fail, 2 bad input, 3 Blocked (no evidence against the change)
#
# examples:
#   BRIDGE_REPO=~/Megatron-Bridge VERL_REPO=~/verl ./scripts/60_e2e_verl.sh --level 0 --model Qwen/Qwen2.5-0.5B
#   BRIDGE_REPO=~/Megatron-Bridge ./scripts/60_e2e_verl.sh --recommend --base origin/main
#   ./scripts/60_e2e_verl.sh --level 1,2 --plan
#   ./scripts/60_e2e_verl.sh --level 5 --steps 50 --baseline ~/Megatron-Bridge.main --via slurm --image verlai/verl:TAG \
#       --setup 'pip install nvidia-modelopt'
export MVP_E2E_PYTHONPATH=${MVP_E2E_PYTHONPATH-${PYTHONPATH-}}
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
source "$SCRIPTS/lib/e2e.sh"
own='--level= --variant= --model= --override= --bridge-tests= --bridge-evidence= --test-evidence= --script= --steps= --baseline= --setup= --timeout= --stall= --runs-dir= --resume= --recommend'
parse_options "$own --base= --via= --image= --launcher-option= --description= --plan --json" "$@"
run_e2e --description=verl
