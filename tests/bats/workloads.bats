#!/usr/bin/env bats
# Workloads on one real cluster: reward functions, LoRA, one of a user's own, and the two ways to hand a job to Ray. Whole PPO, GRPO and SFT
# jobs are in stop_saves.bats.

load helpers

setup_file() {
  make_job_cluster workloads 9 60
  # No GPU exists here, but Ray may count one on each worker, and CPUs as a GPU cluster has them: see the driver without a GPU.
  sed -i 's/num_cpus: 8/num_cpus: 24, num_gpus: 1/' "$MVP_CLUSTER"
  01_up.sh && 30_prepare_data_and_model.sh && 31_snapshot_verl_code.sh
}

teardown_file() {
  end_cluster
}

from_template() { # <id> <template> <sed expression>...: a template under that id, changed; prints its path
  local path=$FOLDER/specs/$1.yaml edits=("${@:3}")
  sed "${edits[@]/#/-e}" "$PROJECT/templates/$2.yaml" >"$path"
  printf 'submission_id: %s\n' "$1" >>"$path"
  printf '%s' "$path"
}

reward() { # <job id> <file> <line>...: a GRPO JobSpec whose reward function that file, under user/code, holds
  mkdir -p "$FOLDER/private/user/code"
  printf '%s\n' "${@:3}" >"$FOLDER/private/user/code/$2"
  from_template "$1" grpo "s/^workload: grpo/&\nreward_fn_path: user\/code\/$2/"
}

@test "an error of the user's in a reward function blocks the job, with its line, before anything trains" {
  run --separate-stderr 43_submit_jobspec.sh "$(reward broken broken.py '' 'import no_such_module' 'def compute_score(**kwargs): return 1')" --wait
  assert_status 3
  told="$FOLDER/private/user/code/broken.py:2: ModuleNotFoundError: No module named 'no_such_module'"
  assert_stderr_has "$told"
  grep -qF "$told" "$JOBS/broken/result.json" || fail "$(<"$JOBS/broken/result.json")"
  [[ ! -e $JOBS/broken/metrics.jsonl ]] || fail 'it trained'
}

@test "a reward function that verl could not call is refused at submission, and nothing is claimed" {
  run --separate-stderr 43_submit_jobspec.sh "$(reward uncallable uncallable.py 'def compute_score(answer): return 1')"
  assert_status 2
  assert_stderr_has "uncallable.py:1: compute_score(answer) cannot take verl's call"
  [[ ! -e $JOBS/uncallable ]] || fail 'a job folder was claimed'
}

# bats test_tags=nightly
@test "SFT with LoRA: the adapter is exported apart, and merged on request" {
  run --separate-stderr 43_submit_jobspec.sh "$(from_template lora sft 's/steps: 20/steps: 4/' 's/save_freq: 10/save_freq: 4/' \
    '$a\  model.lora_rank: 4\n  model.lora_alpha: 16\n  model.target_modules: all-linear\n  optim.lr: 0.01')" --wait
  assert_status 0
  run --separate-stderr 57_checkpoints.sh --export lora common/models/lora-apart
  assert_status 0
  assert_stderr_has 'the LoRA adapter is in lora_adapter/, not merged (--merge-lora)'
  run --separate-stderr 57_checkpoints.sh --export lora common/models/lora-merged --merge-lora
  assert_status 0
  python - "$FOLDER/private/common/models" <<'PY'
import json, pathlib, sys
from safetensors.torch import load_file
apart, merged = (pathlib.Path(sys.argv[1]) / f"lora-{name}" for name in ("apart", "merged"))
proofs = [json.loads((each / "mvp_export.json").read_text())["proof"] for each in (apart, merged)]
assert [(proof["adapter"], proof["merged_adapter"]) for proof in proofs] == [("lora_adapter", False), (None, True)], proofs
assert json.loads((apart / "lora_adapter/adapter_config.json").read_text())["lora_alpha"] == 16
assert (apart / "lora_adapter").is_dir() and not (merged / "lora_adapter").exists()
base, trained = (load_file(each / "model.safetensors") for each in (apart, merged))
assert base.keys() == trained.keys()
changed = [name for name in base if not base[name].equal(trained[name])]
assert any("q_proj" in name for name in changed) and not any("norm" in name for name in changed), changed
PY
}

# Two kinds of processes, as on a GPU cluster: workers that hold Ray's GPUs (and compute with the CPU plugin), and a driver whose verl
# takes the machine for one with CUDA, which it does not have.
driver_without_gpu() { # <module>: a workload of that name
  cat >"$WORKLOADS/$1.yaml" <<YAML
extends: sft
entry: {command: [env, VERL_USE_EXTERNAL_MODULES=mvp_verl.hook, VERL_PLATFORM=nvidia, MVP_WORKERS_DEVICE=cuda, python3, -m, $1]}
YAML
  run --separate-stderr 43_submit_jobspec.sh "$(from_template "$2" sft "s/workload: sft/workload: $1/" 's/steps: 20/steps: 2/')" --wait
}

# bats test_tags=nightly
@test "an SFT driver needs no GPU where its workers hold GPUs, one on each node" {
  driver_without_gpu mvp_verl.sft_driver no-gpu
  assert_status 0
  grep -q 'own tensors on cpu, workers on cuda$' "$JOBS/no-gpu/logs/driver.log" || fail 'not the devices asked for'
  python - "$JOBS"/no-gpu/debug/*-succeeded <<'PY'
import json, sys
(record,), groups = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("job", "placement_groups"))
bundles = [bundle for group in groups if group["creator_job_id"] == record["job_id"] for bundle in group["bundles"]]
assert [bundle["unit_resources"]["GPU"] for bundle in bundles] == [1.0, 1.0], bundles
assert len({bundle["node_id"] for bundle in bundles}) == 2, bundles
PY
}

# bats test_tags=nightly
@test "verl's own SFT driver does not survive there: the one above is needed" {
  driver_without_gpu verl.trainer.sft_trainer_ray upstream
  assert_status 1
  grep -q 'CUDA' "$JOBS/upstream/result.json" || fail "$(<"$JOBS/upstream/result.json")"
}

@test "the end-to-end procedure runs as a job: on a worker, with the cluster's Ray, and its verdict is the exit code" {
  local fixtures=$FOLDER/e2e
  mkdir "$fixtures" && make_e2e_fixtures "$fixtures"
  # shellcheck source=/dev/null
  source "$fixtures/environment"
  export MODEL_PATH=$HOME/models/Qwen/Qwen2.5-0.5B TRAIN_FILES=$HOME/data/gsm8k/train.parquet VAL_FILES=$HOME/data/gsm8k/test.parquet
  local -a ask=(60_e2e_verl.sh --description "$fixtures/verl-no-gpu.yaml" --level 0 --runs-dir "$fixtures/runs" --via ray)
  run --separate-stderr "${ask[@]}"
  assert_status 0
  assert_output 'Result: Pass - Level 0*'
  grep -qE '"Ray worker on [^"]+: megatron.bridge = ' "$fixtures"/runs/*/steps/imports/try-1/step.json || fail 'not proven in a Ray worker'
  MODEL_PATH=/no/such run --separate-stderr "${ask[@]}" --json
  assert_status 3
  [[ $(python -c 'import json, sys; print(json.load(sys.stdin)["result"])' <<<"$output") == Blocked ]] || fail 'no JSON summary'
}

@test "a new workload is one YAML file" {
  cat >"$WORKLOADS/hello.yaml" <<'YAML'
entry: {command: [python3, -c, "import sys; print('hello from', sys.argv[1:])", "{job_folder}"]}
overrides: ["on={device}"]
YAML
  echo 'workload: hello' >"$FOLDER/specs/hello.yaml"
  run --separate-stderr 43_submit_jobspec.sh "$FOLDER/specs/hello.yaml" --wait
  assert_status 0
  [[ $(<"$JOBS/$output/logs/driver.log") == "hello from ['$JOBS/$output', 'on=cpu']" ]] || fail "$(<"$JOBS/$output/logs/driver.log")"
}

@test "43 and 44 make the same job folder, apart from ids, times and the command that submitted" {
  printf 'entry: {command: [echo, same]}\n' >"$WORKLOADS/echo.yaml"
  for id in by-cli by-sdk; do
    # One place for both drivers.
    printf 'workload: echo\nsubmission_id: %s\nresources: {entrypoint_resources: {"node:127.0.9.12": 0.001}}\n' "$id" >"$FOLDER/specs/$id.yaml"
  done
  export HTTP_PROXY=http://127.0.9.20:9 # Ray's own commands would go through it
  43_submit_jobspec.sh "$FOLDER/specs/by-cli.yaml" --wait
  44_submit_sdk.sh "$FOLDER/specs/by-sdk.yaml" --wait
  wait_until_sealed
  python - "$JOBS/by-cli" "$JOBS/by-sdk" "$PROJECT" <<'PY'
import pathlib, re, shlex, sys

def normal(text):
    text = re.sub(r"by-(cli|sdk)", "ID", text)
    text = re.sub(r"\d{4}-?\d\d-?\d\dT\d\d:?\d\d:?\d\d\.\d+Z", "TIME", text)
    text = re.sub(r'"wall_time": \{.*?\n  \}(?=,?\n)', '"wall_time": TIMES', text, flags=re.DOTALL)
    return re.sub(r'("(?:trainer_)?pid": )\d+', r"\1PID", text)

def folder(path):
    files = {}
    for file in sorted(path.rglob("*")):
        name = normal(str(file.relative_to(path)))
        # Of a bundle only the names: what Ray says of itself changes from second to second. driver.times holds nothing but times,
        # resources.jsonl what the machine did, and the seal the checksums of files that differ by them.
        changing = ("logs/driver.times", "resources.jsonl", "seal.intoto.jsonl")
        told = file.is_file() and not name.startswith("debug/") and name not in changing
        files[name] = normal(file.read_text()) if told else None
    return files

cli, sdk = (folder(pathlib.Path(path)) for path in sys.argv[1:3])
assert cli.keys() == sdk.keys(), cli.keys() ^ sdk.keys()
assert len([name for name in cli if name.startswith("debug/TIME-")]) > 10, list(cli)
differ = [name for name in cli if cli[name] != sdk[name]]
assert differ == ["config/submit_cmd.txt"], [(name, cli[name], sdk[name]) for name in differ]
*exports, by_cli = cli["config/submit_cmd.txt"].splitlines()
*more_exports, by_sdk = sdk["config/submit_cmd.txt"].splitlines()
assert by_cli.replace("ray job submit", "python3 -m mvp_helpers.job.sdk_submit") == by_sdk
assert set(more_exports) - set(exports) == {f"export PYTHONPATH={shlex.quote(sys.argv[3] + '/lib')}"}
PY
  run --separate-stderr 54_verify.sh by-sdk
  assert_status 0
  assert_output '*submit_cmd.txt: python3*-m mvp_helpers.job.sdk_submit*' # folded to the width
}

@test "the SDK shows the cluster's token, and is refused without it" {
  run bash "$JOBS/by-sdk/config/submit_cmd.txt"
  [[ $status == 1 && $output == *'already exists'* ]] || fail 'the recorded command does not reach Ray'
  run env RAY_AUTH_MODE=disabled PYTHONPATH="$PROJECT/lib" bash -c "$(tail -n 1 "$JOBS/by-sdk/config/submit_cmd.txt")"
  [[ $status == 1 && $output == *[Aa]uthenti* ]] || fail 'Ray took it without a token'
}

@test "the helper's verbs alone will do, as docs/sdk-submission.md says" {
  cd "$PROJECT"
  run --separate-stderr bash -euo pipefail <<SH
export PYTHONPATH=lib
eval "\$(python3 -m mvp_helpers cluster "$MVP_CLUSTER")"
export MVP_HOST=head
python3 -m mvp_helpers submit --via sdk --spec-name hello.yaml --wait <"$FOLDER/specs/hello.yaml"
python3 -m mvp_helpers list --limit 2
SH
  assert_status 0
  [[ ${lines[1]} == "${lines[0]}"$'\tSUCCEEDED\thello\t'20* && ${lines[2]} == by-sdk$'\tSUCCEEDED\techo\t'20* ]] || fail "$output"
}
