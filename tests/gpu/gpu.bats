#!/usr/bin/env bats
# The toolkit on real GPUs: one cluster with one worker that has all of this machine's, and verl's trainers on a tiny model.

load ../bats/helpers
load jobs

SEE_GPUS=$BATS_TEST_DIRNAME/../bats/see_gpus.py

lacks_gpus() { # prints why this machine cannot run the suite, or nothing
  command -v nvidia-smi >/dev/null || {
    echo 'no NVIDIA GPU: nvidia-smi is not installed'
    return
  }
  nvidia-smi -L 2>/dev/null | grep -q '^GPU ' || {
    echo "no NVIDIA GPU: $(nvidia-smi -L 2>&1 | head -n 1)"
    return
  }
  python -c 'import ray, verl' &>/dev/null || {
    echo 'Ray or verl is not installed: make deps'
    return
  }
  python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
    echo "torch sees no GPU: $(python -c 'import torch; print(torch.__version__)' 2>&1 | tail -n 1)"
}

setup_file() {
  local why
  why=$(lacks_gpus)
  [[ -z $why ]] || skip "$why"
  GPUS=$(nvidia-smi -L | grep -c '^GPU ')
  USED_BEFORE=$(memory_used)
  export GPUS USED_BEFORE
  make_job_cluster gpu 89 890
  # num_cpus is what Ray may schedule, not cores: verl asks for ten with each GPU.
  sed -i -e 's/device: cpu/device: cuda/' -e '/worker-1/d' -e 's/object_store_mb: .*/object_store_mb: 400/' \
    -e "s/num_cpus: 8/num_cpus: $((12 * GPUS + 16)), num_gpus: $GPUS, trainer_processes: $GPUS/" "$MVP_CLUSTER"
  # Heads of 64 numbers: vLLM's attention has no smaller ones.
  printf 'data: {source: generated, generated: {hidden_size: 256}}\ncode: {source: package}\nstop_wait_s: 120\n' >>"$MVP_CLUSTER"
  printf 'entry: {command: [python3, %s]}\n' "$SEE_GPUS" >"$WORKLOADS/see.yaml"
  give_inputs
}

teardown_file() {
  [[ -z ${FOLDER-} ]] || end_cluster
}

teardown() { # what a failed test leaves running would keep the GPUs from the next ones
  [[ -z ${BATS_TEST_COMPLETED-} && -n ${JOBS-} ]] || return 0
  grep -LE '"state": "(SUCCEEDED|FAILED|STOPPED)"' "$JOBS"/*/result.json 2>/dev/null | while read -r file; do
    52_stop.sh --now "$(basename "$(dirname "$file")")" </dev/null
  done
}

memory_used() { # MiB on all GPUs
  nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | awk '{ sum += $1 } END { print sum + 0 }'
}

memory_is_free() { # as before the suite, up to what a driver itself may hold
  (($(memory_used) <= USED_BEFORE + 200))
}

submit() { # <id of the suite's> [<43's option>...]
  gpu_job "$1" >"$FOLDER/specs/$1.yaml"
  run --separate-stderr 43_submit_jobspec.sh "$FOLDER/specs/$1.yaml" "${@:2}"
}

metric() { # <id> <key>: its values by step, one a line: "3 0.25"
  python - "$JOBS/$1/metrics.jsonl" "$2" <<'PY'
import json, sys
for row in map(json.loads, open(sys.argv[1])):
    if sys.argv[2] in row["data"]:
        print(row["step"], row["data"][sys.argv[2]])
PY
}

succeeded() { # <id>
  assert_status 0
  [[ $(state_of "$1") == SUCCEEDED ]] || fail "$(tail -n 60 "$JOBS/$1/logs/driver.log")"
}

each_sees_its_own() { # <id>: processes of the job see exactly the GPUs that Ray gave them, the driver none
  run python - "$JOBS/$1/imports" "$GPUS" <<'PY'
import json, pathlib, sys
rows = [json.loads(path.read_bytes()) for path in pathlib.Path(sys.argv[1]).glob("*.json")]
given = [gpu for row in rows for gpu in row.get("gpus_given", [])]
for row in rows:
    # The rollout server has no GPU of its own in Ray's books: it sees that of its trainer.
    if row["gpus_seen"] not in (",".join(row.get("gpus_given", [])), *([] if row["role"] == "driver" else given)):
        print(row["role"], row["pid"], "was given", row.get("gpus_given"), "and sees", row["gpus_seen"])
if sorted(given) != [str(gpu) for gpu in range(int(sys.argv[2]))]:
    print("trainers have the GPUs", given)
if [row["gpus_seen"] for row in rows if row["role"] == "driver"] != [""]:
    print("the driver sees a GPU")
PY
  assert_output ''
}

gpus_were_sampled() { # <id>: every GPU of the worker, with the memory that nvidia-smi says, and somebody's use of it
  run python - "$JOBS/$1/resources.jsonl" "$GPUS" "$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | head -n 1)" <<'PY'
import json, sys
samples = [json.loads(line)["gpus"] for line in open(sys.argv[1])]
if not samples or {len(gpus) for gpus in samples} != {int(sys.argv[2])}:
    print("samples with so many GPUs:", [len(gpus) for gpus in samples])
for gpu in (gpu for gpus in samples for gpu in gpus):
    if not 0 <= gpu["utilisation"] <= 1 or abs(gpu["memory_total"] / (1 << 20) - float(sys.argv[3])) > 1024:
        print("not a sample of this GPU:", gpu)
if max((gpu["memory_used"] for gpus in samples for gpu in gpus), default=0) < 256 << 20:
    print("no memory is used")
PY
  assert_output ''
}

check_of() { # <part of a check's name> <JSON of 00>: its verdict and reason
  python -c 'import json, sys; print(*(f"{c["verdict"]}: {c["reason"]}" for c in json.loads(sys.argv[2]) if sys.argv[1] in c["name"]))' "$@"
}

@test "00 says what nvidia-smi and torch say, and notices GPUs that are missing or hidden" {
  run --separate-stderr 00_prereq_check.sh --json
  [[ $(check_of 'NVIDIA driver' "$output") == "Pass: $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)" ]] || fail driver
  [[ $(check_of "GPUs ($GPUS wanted)" "$output") == "Pass: $GPUS × $(nvidia-smi --query-gpu=name,memory.total --format=csv,noheader | head -n 1)" ]] || fail GPUs
  [[ $(check_of 'GPUs in torch' "$output") == "Pass: torch sees $GPUS "* ]] || fail torch
  sed "s/num_gpus: $GPUS/num_gpus: 99/" "$MVP_CLUSTER" >"$FOLDER/many.yaml"
  run --separate-stderr 00_prereq_check.sh --json --cluster "$FOLDER/many.yaml"
  [[ $(check_of 'GPUs (99 wanted)' "$output") == Blocked:* ]] || fail '99 GPUs'
  CUDA_VISIBLE_DEVICES='' run --separate-stderr 00_prereq_check.sh --json
  [[ $(check_of 'visible GPUs' "$output") == 'Blocked: 0 of '*'by CUDA_VISIBLE_DEVICES=' ]] || fail 'hidden GPUs'
}

@test "an all-reduce runs over all GPUs" {
  run --separate-stderr 00_prereq_check.sh --nccl --json
  if ((GPUS == 1)); then
    [[ $(check_of all-reduce "$output") == *'only one process'* ]] || fail 'all-reduce'
  else
    [[ $(check_of all-reduce "$output") == "Pass: "*"n = $GPUS processes (nccl)"* ]] || fail 'all-reduce'
  fi
}

@test "two workers that share a GPU are noticed by 00, and their all-reduce says why it fails" {
  local worker="  - {name: worker-1, role: worker, ip: 127.0.89.12}"
  sed -e "/name: worker-0/a\\$worker" -e "s/num_gpus: $GPUS/num_gpus: 1/" "$MVP_CLUSTER" >"$FOLDER/shared.yaml"
  run --separate-stderr 00_prereq_check.sh --nccl --json --cluster "$FOLDER/shared.yaml"
  assert_status 3
  [[ $(check_of 'no GPU belongs to two workers' "$output") == 'Blocked: worker-0 and worker-1 share GPU-'* ]] || fail 'not noticed'
  [[ $(check_of all-reduce "$output") == Blocked:*'Duplicate GPU detected'* ]] || fail "$(check_of all-reduce "$output")"
  wait_for 20 'free memory' memory_is_free
}

@test "the cluster comes up with the GPUs, data, model and code, once its worker sees them" {
  CUDA_VISIBLE_DEVICES='' run --separate-stderr 01_up.sh
  assert_status 3
  assert_stderr_has "CUDA_VISIBLE_DEVICES='' leaves 0"
  01_up.sh
  30_prepare_data_and_model.sh && 31_snapshot_verl_code.sh
  run --separate-stderr 50_status.sh
  [[ $output =~ worker-0\ .*alive.*\ $GPUS(\ |$'\n'|$) ]] || fail 'Ray does not have the GPUs'
}

@test "a process sees the GPUs that Ray gave it, and without the setting of our nodes all of them" {
  run --separate-stderr 43_submit_jobspec.sh "$(spec '{"workload": "see", "submission_id": "see"}')" --wait --timeout 120
  succeeded see
  run grep -oE '^SEES .*' "$JOBS/see/logs/driver.log"
  [[ $output == $'SEES driver []\nSEES none []\nSEES none, not hidden [all]\nSEES a third [0]\nSEES one [0]' ]] || fail 'not these GPUs'
}

@test "SFT: the loss falls on the GPU, the trainers are there and the driver is not, every checkpoint is whole" {
  submit sft
  assert_status 0
  wait_for 120 'the first step' grep -q '"step"' "$JOBS/sft/metrics.jsonl"
  nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader >"$FOLDER/apps" # in a container the ids may be others
  run --separate-stderr 53_debug_bundle.sh sft
  assert_status 0
  run --separate-stderr 50_status.sh --follow sft
  succeeded sft
  [[ -s $FOLDER/apps ]] || fail 'nvidia-smi shows no process while it trains'
  python - <(metric sft train/loss) <<'PY'
import sys
losses = [float(line.split()[1]) for line in open(sys.argv[1])]
assert len(losses) == 4 and losses[-1] < losses[0], losses
PY
  metric sft perf/max_memory_allocated_gb | awk '{ exit !($2 > 0) }' || fail 'no GPU memory was used'
  each_sees_its_own sft
}

@test "SFT resumed from a checkpoint repeats the steps that it trained before" {
  wait_for 20 'the seal' test -s "$JOBS/sft/seal.intoto.jsonl"
  mv "$JOBS"/sft/checkpoints/{global_step_4,latest_checkpointed_iteration.txt} "$FOLDER/"
  echo 2 >"$JOBS/sft/checkpoints/latest_checkpointed_iteration.txt"
  submit again --wait --timeout 200
  succeeded again
  mv "$FOLDER"/{global_step_4,latest_checkpointed_iteration.txt} "$JOBS/sft/checkpoints/" # as it was sealed
  python - <(metric sft train/loss) <(metric again train/loss) <<'PY'
import sys
first, again = ({int(step): float(loss) for step, loss in map(str.split, open(file))} for file in sys.argv[1:])
assert set(again) == {3, 4}, again
assert all(abs(again[step] - first[step]) < 1e-2 * first[step] for step in again), (first, again)
PY
}

@test "SFT by verl's own driver needs a GPU in the driver, and 55 says so" {
  submit own --wait --timeout 200
  [[ $(state_of own) == FAILED ]] || fail 'the driver no longer needs a GPU: is mvp_verl.sft_driver still needed?'
  run --separate-stderr 55_explain.sh own
  [[ $output == *'rule     no-gpu'* ]] || fail "$(tail -n 60 "$JOBS/own/logs/driver.log")"
}

@test "GRPO: a gradient, and a rollout with the weights that the trainer has" {
  submit grpo --wait --timeout 300
  succeeded grpo
  engine=hf
  ! python -c 'import vllm' &>/dev/null || engine=vllm
  grep -q "rollout.name=$engine\b" "$JOBS/grpo/config/resolved.yaml" || fail "the answers are not by $engine"
  metric grpo actor/grad_norm | awk '$2 > 0 { found = 1 } END { exit !found }' || fail 'no gradient'
  metric grpo training/rollout_probs_diff_mean | awk '$1 == 2 && $2 < 0.02 { found = 1 } END { exit !found }' ||
    fail "the rollout has other weights: $(metric grpo training/rollout_probs_diff_mean)"
  each_sees_its_own grpo
}

@test "PPO: actor and critic are saved, and 54 proves it and the SFT before it" {
  submit ppo --wait --timeout 300
  succeeded ppo
  each_sees_its_own ppo
  gpus_were_sampled ppo
  [[ -d $JOBS/ppo/checkpoints/global_step_2/actor && -d $JOBS/ppo/checkpoints/global_step_2/critic ]] || fail 'not both were saved'
  run --separate-stderr 54_verify.sh sft ppo
  assert_status 0
  assert_output '*data and model reused*'
}

@test "a real out-of-memory is named as such, and the next job has the memory" {
  submit oom --wait --timeout 200
  [[ $(state_of oom) == FAILED ]] || fail "$(<"$JOBS/oom/result.json")"
  run --separate-stderr 55_explain.sh oom
  [[ $output == *'rule     gpu-memory-'* ]] || fail "$(tail -n 60 "$JOBS/oom/logs/driver.log")"
  wait_for 20 'free memory' memory_is_free
}

last_trainer_of() { # <id>: the pid of its trainer process with the highest rank
  local file
  for file in /proc/[0-9]*/environ; do
    [[ $(tr '\0' '\n' 2>/dev/null <"$file" | grep -cx -e "MVP_JOB_FOLDER=$JOBS/$1" -e "RANK=$((GPUS - 1))") != 2 ]] || echo "${file//[!0-9]/}"
  done
}

driver_of() { # <id>: the pid of its driver
  python -c 'import json, sys; print(json.load(open(sys.argv[1]))["trainer_pid"])' "$JOBS/$1/result.json"
}

@test "a run that hangs is explained with stacks, GPUs and a flight recorder, and can be ended" {
  submit hang
  wait_for 120 'steps' grep -q '"step": *3' "$JOBS/hang/metrics.jsonl"
  # A trainer that is alone waits for its driver only.
  pid=$( ((GPUS > 1)) && last_trainer_of hang || driver_of hang)
  kill -STOP "$pid"
  wait_for 60 'the cause of the stall' grep -q '"cause": "[^"]' "$JOBS/hang/result.json" # written when the bundle is complete
  compgen -G "$JOBS/hang/debug/*-stalled/hosts/worker-0/py-spy/*.txt" || fail 'no stacks'
  run --separate-stderr 55_explain.sh hang
  [[ $output == *"pid $pid, is stopped"* ]] || fail '55 does not name it'
  grep -q . "$JOBS"/hang/debug/*-stalled/hosts/worker-0/gpus.txt || fail 'nothing about the GPUs'
  timeout 30 bash -c 'echo 1 >"$1"' bash "$FOLDER/rank_0.pipe"
  wait_for 30 'the flight recorder' test -s "$JOBS/hang/debug/nccl_trace_rank_0"
  run --separate-stderr 53_debug_bundle.sh hang --py-spy
  assert_status 0
  52_stop.sh --now hang
  [[ $(state_of hang) == STOPPED ]] || fail "$(<"$JOBS/hang/result.json")"
  wait_for 20 'free memory' memory_is_free
}

@test "a trainer that is killed leaves no memory behind" {
  submit killed
  wait_for 120 'steps' grep -q '"step": *3' "$JOBS/killed/metrics.jsonl"
  last_trainer_of killed | xargs kill -KILL
  wait_for 60 'the end of the job' grep -q '"state": "FAILED"' "$JOBS/killed/result.json"
  wait_for 20 'free memory' memory_is_free
}

@test "a stop saves the step it comes in" {
  submit long
  wait_for 120 'steps' grep -q '"step": *3' "$JOBS/long/metrics.jsonl"
  run --separate-stderr 52_stop.sh long
  assert_status 0
  assert_output 'long STOPPED'
  assert_stderr_has 'stopped on request, saved at step '
}

@test "SFT in fp32 begins with the loss that it has on CPUs" {
  submit fp32 --wait --timeout 200
  succeeded fp32
  02_down.sh
  sed -i -e 's/device: cuda/device: cpu/' -e "s/num_gpus: $GPUS, //" "$MVP_CLUSTER"
  01_up.sh
  gpu_job fp32 | sed 's/^submission_id: .*/submission_id: fp32-cpu/' >"$FOLDER/specs/fp32-cpu.yaml"
  run --separate-stderr 43_submit_jobspec.sh "$FOLDER/specs/fp32-cpu.yaml" --wait --timeout 300
  succeeded fp32-cpu
  python - <(metric fp32 train/loss) <(metric fp32-cpu train/loss) <<'PY'
import sys
gpu, cpu = (float(open(file).read().split()[1]) for file in sys.argv[1:])
assert abs(gpu - cpu) < 1e-3 * cpu, (gpu, cpu)
PY
}

@test "after 02 no process and no memory of ours is left on a GPU" {
  02_down.sh
  wait_for 20 'free memory' memory_is_free
  [[ -z $(instances gpu) ]] || fail "still there: $(instances gpu)"
}
