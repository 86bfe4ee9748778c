#!/usr/bin/env bats
# A cluster with device cuda whose GPU is only declared: what each process of a job sees of it, and how far verl's trainers get.

# long: real trainers, one after another

load helpers
load ../gpu/jobs

setup_file() {
  make_job_cluster gpus 88 880
  sed -i -e 's/device: cpu/device: cuda/' -e '/worker-1/d' -e 's/num_cpus: 8/num_cpus: 16, num_gpus: 1/' "$MVP_CLUSTER"
  cat >>"$MVP_CLUSTER" <<'YAML'
data: {source: generated}
code: {source: package}
YAML
  printf 'entry: {command: [python3, %s]}\n' "$BATS_TEST_DIRNAME/see_gpus.py" >"$WORKLOADS/see.yaml"
  export GPUS=1
  give_inputs
  CUDA_VISIBLE_DEVICES='' 01_up.sh 2>"$FOLDER/no_gpu_visible" || echo "exit $?" >>"$FOLDER/no_gpu_visible"
  01_up.sh && 30_prepare_data_and_model.sh && 31_snapshot_verl_code.sh
}

teardown_file() {
  end_cluster
}

setup() {
  ! nvidia-smi -L &>/dev/null || skip 'this machine has a GPU: see make gpu-check'
}

wrong_gpus() { # <id>: processes that see other GPUs than Ray gave them; the number of those that have one
  python - "$JOBS/$1/imports" <<'PY'
import json, pathlib, sys
rows = [json.loads(path.read_bytes()) for path in pathlib.Path(sys.argv[1]).glob("*.json")]
for row in rows:
    if row["gpus_seen"] != ",".join(row.get("gpus_given", [])):
        print(row["role"], "was given", row.get("gpus_given"), "and sees", row["gpus_seen"])
print(sum(bool(row.get("gpus_given")) for row in rows), "with a GPU, the driver sees", {r["gpus_seen"] for r in rows if r["role"] == "driver"})
PY
}

reaches_the_gpu() { # <workload>: everything works up to the first call that needs the GPU, and 55 says which
  gpu_job "$1" >"$FOLDER/specs/$1.yaml"
  run --separate-stderr 43_submit_jobspec.sh "$FOLDER/specs/$1.yaml" --wait --timeout 500
  assert_status 1
  [[ $(state_of "$1") == FAILED ]] || fail "$(<"$JOBS/$1/result.json")"
  rule=no-nccl
  ! python -c 'import sys, torch; sys.exit(not torch.version.cuda)' || rule=nccl-without-gpu
  run --separate-stderr 55_explain.sh "$1"
  [[ $output == Blocked:*"rule     $rule"* ]] || fail "$(tail -n 60 "$JOBS/$1/logs/driver.log")"
  [[ $(wrong_gpus "$1") == "1 with a GPU, the driver sees {''}" ]] || fail "$(wrong_gpus "$1")"
}

@test "a process sees the GPUs that Ray gave it, and without the setting of our nodes all of them" {
  run --separate-stderr 43_submit_jobspec.sh "$(spec '{"workload": "see", "submission_id": "see"}')" --wait --timeout 120
  assert_status 0
  run grep -oE '^SEES .*' "$JOBS/see/logs/driver.log"
  [[ $output == $'SEES driver []\nSEES none []\nSEES none, not hidden [all]\nSEES a third [0]\nSEES one [0]' ]] || fail 'not these GPUs'
}

@test "a worker that sees no GPU is not started, and 01 repairs it where the variable is gone" {
  run cat "$FOLDER/no_gpu_visible"
  assert_output "*blocked: worker-0: worker.num_gpus asks for 1 GPUs, but CUDA_VISIBLE_DEVICES='' leaves 0"*
  [[ $output != *Traceback* && ${lines[-1]} == 'exit 3' ]] || fail "$output"
}

@test "a queue with more storage units than there are CPUs is refused at once, with the number that fits" {
  { gpu_job ppo && overrides 'transfer_queue.backend.SimpleStorage.num_data_storage_units: 30'; } >"$FOLDER/specs/units.yaml"
  run --separate-stderr 43_submit_jobspec.sh "$FOLDER/specs/units.yaml"
  assert_status 2
  assert_stderr_has '30 for 30 TransferQueue storage units'
  assert_stderr_has 'num_data_storage_units=10 instead of 30' # of 16 CPUs: driver, controller, three for the GPU, one free
  [[ ! -e $JOBS/ppo ]] || fail 'a job folder was claimed'
}

@test "every job of the GPU suite has a plan, for one GPU and for eight" {
  local id
  for GPUS in 1 8; do
    sed "s/num_cpus: 16, num_gpus: 1/num_cpus: 128, num_gpus: $GPUS, trainer_processes: $GPUS/" "$MVP_CLUSTER" >"$FOLDER/shape.yaml"
    mkdir "$FOLDER/specs/$GPUS"
    for id in "${GPU_JOBS[@]}"; do # but one that resumes a checkpoint that only a GPU makes
      [[ $id == again ]] || gpu_job "$id" >"$FOLDER/specs/$GPUS/$id.yaml"
    done
    # As 43's dry run, but in one process.
    PYTHONPATH=$PROJECT/lib python - "$FOLDER/shape.yaml" "$FOLDER/specs/$GPUS" "$GPUS" <<'PY'
import sys
from pathlib import Path
from mvp_helpers.cluster import cluster_file
from mvp_helpers.job import submit
from mvp_helpers.plan import plan
cluster, specs, gpus = cluster_file.load(sys.argv[1]), sorted(Path(sys.argv[2]).iterdir()), sys.argv[3]
assert len(specs) == 9, specs
for spec in specs:
    planned, missing = submit.preview(spec.read_bytes(), spec.name, cluster, {})
    assert not missing and f"trainer.n_gpus_per_node={gpus}" in plan.describe(planned), (spec, missing)
PY
  done
}

# bats test_tags=nightly
@test "SFT on a GPU that is not there" {
  reaches_the_gpu sft
}

@test "GRPO without vLLM: the plan says what generates" {
  gpu_job grpo >"$FOLDER/specs/plan.yaml"
  run --separate-stderr 43_submit_jobspec.sh "$FOLDER/specs/plan.yaml" --dry-run
  if ! python -c 'import vllm' &>/dev/null; then
    [[ $output == *'vLLM is not installed: transformers generates'*'VERL_USE_EXTERNAL_MODULES: verl_hf.plugin,mvp_verl.hook'* ||
      $output == *'VERL_USE_EXTERNAL_MODULES: verl_hf.plugin,mvp_verl.hook'*'vLLM is not installed: transformers generates'* ]] ||
      fail 'the plan does not say what generates'
  fi
}

# bats test_tags=nightly
@test "GRPO on a GPU that is not there" {
  reaches_the_gpu grpo
}

# bats test_tags=nightly
@test "PPO on a GPU that is not there" {
  reaches_the_gpu ppo
}
