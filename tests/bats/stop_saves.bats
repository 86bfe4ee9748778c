#!/usr/bin/env bats
# A stop costs no step: verl's own trainers save the step they are in and end; a save without a stop; a trainer that cannot be asked.
# Later tests read what the jobs of earlier ones left: curves, samples, accounts, checkpoints.

# long: real trainers, one after another

load helpers

setup_file() {
  make_job_cluster stopsaves 84 840
  01_up.sh && 30_prepare_data_and_model.sh && 31_snapshot_verl_code.sh
}

teardown_file() {
  end_cluster
}

long_job() { # <workload> <id> <more YAML> [<line of trainer_overrides>...]: its JobSpec; it would train for a long time
  sed -e 's/total_epochs: 1$/total_epochs: 50/' -e '/total_training_steps/d' "$PROJECT/templates/$1.yaml" >"$FOLDER/specs/$2.yaml"
  (($# < 4)) || printf '  %s\n' "${@:4}" >>"$FOLDER/specs/$2.yaml"
  printf 'submission_id: %s\n%s\n' "$2" "$3" >>"$FOLDER/specs/$2.yaml"
}

submit() { # <as long_job>...
  long_job "$@"
  43_submit_jobspec.sh "$FOLDER/specs/$2.yaml"
}

steps() { # <id>: the steps it has trained, as its metrics have them
  python - "$JOBS/$1/metrics.jsonl" <<'PY'
import json, sys
rows = map(json.loads, open(sys.argv[1]))
print(*(row["step"] for row in rows if any(key.startswith(("train/", "training/")) for key in row["data"])))
PY
}

sampled_on_both() { # <id>: and once after a step
  [[ $(grep -o '"host":"worker-[01]"' "$JOBS/$1/resources.jsonl" | sort -u | wc -l) == 2 ]] && grep -q '"step":[1-9]' "$JOBS/$1/resources.jsonl"
}

has_trained() { # <id> <step>
  [[ " $(steps "$1") " == *" $2 "* ]]
}

of_result() { # <id> <field>
  python -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$JOBS/$1/result.json" "$2"
}

last_whole() { # <id> <workload>: the step of the newest whole checkpoint
  PYTHONPATH=$PROJECT/lib python - "$FOLDER/private" "$1" "$2" <<'PY'
import sys
from pathlib import Path
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.plan import workloads
from mvp_helpers.trainers import verl_checkpoints
print(verl_checkpoints.last_whole(SharedRoot(Path(sys.argv[1])).job(sys.argv[2]), workloads.load(sys.argv[3]).checkpoint).step)
PY
}

stopped_and_saved() { # <id> <workload>: no step that it trained is lost; sets STEP
  assert_status 0
  assert_output "$1 STOPPED"
  STEP=$(of_result "$1" steps_done)
  assert_stderr_has "stopped on request, saved at step $STEP"
  [[ $(of_result "$1" exit_code) == 0 ]] || fail "the trainer did not end by itself: $(<"$JOBS/$1/result.json")"
  [[ $(last_whole "$1" "$2") == "$STEP" ]] || fail "step $STEP is not whole: $(ls "$JOBS/$1/checkpoints")"
  [[ $(steps "$1") == "$(seq -s ' ' "$STEP")" ]] || fail "steps: $(steps "$1")"
}

saves_before_its_deadline() { # <id> <workload>: no time is left for another step; sets STEP
  local deadline
  deadline=$(python -c 'import time; print(time.time() + 140)')
  printf '{"at": %s, "source": "the test"}' "$deadline" >"$JOBS/$1/control/deadline.json"
  wait_for 200 'its end' grep -q '"state": "STOPPED"' "$JOBS/$1/result.json"
  python -c 'import sys, time; sys.exit(time.time() > float(sys.argv[1]))' "$deadline" || fail 'too late'
  STEP=$(of_result "$1" steps_done)
  [[ $(of_result "$1" reason) == "stopped before its deadline (the test), saved at step $STEP" ]] || fail "$(of_result "$1" reason)"
  [[ $(last_whole "$1" "$2") == "$STEP" ]] || fail "$(ls "$JOBS/$1/checkpoints")"
}

resumed() { # <workload> <id> <step> <more YAML> [<line of trainer_overrides>...]: two more steps after that one, and nothing else
  submit "$1" "again-$2" "resume_from: $2"$'\n'"$4" "trainer.total_training_steps: $(($3 + 2))" "${@:5}" >/dev/null
  wait_for 400 "the end of again-$2" grep -q '"state": "SUCCEEDED"' "$JOBS/again-$2/result.json"
  [[ $(steps "again-$2") == "$(($3 + 1)) $(($3 + 2))" ]] || fail "it trained $(steps "again-$2")"
}

@test "PPO: a save on request goes on, a stop saves the step it comes in, and a resume continues with the next, beside another job" {
  # Two trackers: one that the JobSpec names, and a logger of the user's own, which stays.
  submit ppo ppo "$(printf 'tracking: mlflow\nenv_vars: {TENSORBOARD_DIR: %s}' "$JOBS/ppo/tracking")" 'trainer.logger: [console, tensorboard]'
  wait_for 400 'its first step' has_trained ppo 1
  run --separate-stderr 52_stop.sh --save-only ppo
  assert_status 0
  assert_output "ppo * $JOBS/ppo/checkpoints/global_step_*"
  [[ $(last_whole ppo ppo) == "$(cut -d' ' -f2 <<<"$output")" && $(state_of ppo) == RUNNING ]] || fail 'not saved, or ended'
  wait_for 100 'samples of both workers, and of a step' sampled_on_both ppo
  wait_for 100 'one more step' has_trained ppo $(($(last_whole ppo ppo) + 1))
  run --separate-stderr 52_stop.sh ppo
  stopped_and_saved ppo ppo
  run --separate-stderr 55_explain.sh ppo
  [[ $output == *"stopped on request, saved at step $STEP"* ]] || fail '55 does not say it'
  run --separate-stderr 54_verify.sh ppo
  [[ $output == *"stopped on request, saved at step $STEP"* ]] || fail '54 does not say it'
  run --separate-stderr 50_status.sh
  [[ $output == *"stopped on request"* ]] || fail '50 does not say it'
  # verl's queue is named for the whole Ray cluster: each job has its own.
  mkdir -p "$FOLDER/private/user/code"
  printf '%s\n' 'from table import SCORE' 'async def compute_score(data_source, solution_str, **kwargs):' '    return SCORE' \
    >"$FOLDER/private/user/code/quarter.py"
  echo 'SCORE = 0.25' >"$FOLDER/private/user/code/table.py"
  submit grpo beside $'tracking: tensorboard\nreward_fn_path: user/code/quarter.py' 'trainer.total_training_steps: 2' \
    'actor_rollout_ref.actor.use_kl_loss: true' >/dev/null
  resumed ppo ppo "$STEP" "$(printf 'tracking: mlflow\nenv_vars: {TENSORBOARD_DIR: %s}' "$JOBS/again-ppo/tracking")" \
    'trainer.logger: [console, tensorboard]'
  wait_for 400 'the end of the job beside it' grep -q '"state": "SUCCEEDED"' "$JOBS/beside/result.json"
  [[ $(steps beside) == '1 2' ]] || fail "the job beside it trained $(steps beside)"
  ! grep -l 'were not found in partition' "$JOBS"/{beside,again-ppo}/logs/driver.log || fail 'one job took samples of the other'
}

@test "PPO: every second of the chain is in one part, every worker was sampled, and what the model said was kept" {
  python - "$JOBS" <<'PY'
import glob, json, sys
first, second = (json.load(open(f"{sys.argv[1]}/{name}/result.json")) for name in ("ppo", "again-ppo"))
for result, attempts in ((first, 1), (second, 2)):
    account = result["wall_time"]
    assert account["attempts"] == attempts and account["last_step"] == result["steps_done"], account
    assert abs(sum(account["percent"].values()) - 100) <= 1, account
    assert abs(sum(account["seconds"].values()) - account["total_s"]) < 0.5, account
    for part in ("queue", "precheck", "generation", "training", "weight_sync", "saving"):
        assert account["seconds"][part] > 0, (part, account)
    assert account["seconds"]["start_up"] + account["seconds"]["stalled"] > 0, account  # on a busy machine the start counts as a stall
    assert account["percent"]["other"] < 40, account
assert second["wall_time"]["total_s"] > first["wall_time"]["total_s"] + 1
samples = [json.loads(line) for line in open(f"{sys.argv[1]}/ppo/resources.jsonl")]
at_work = {sample["host"] for sample in samples if sample["job"]["processes"] and sample["job"]["cpu"]}
assert at_work == {"worker-0", "worker-1"}, samples[-4:]
assert max(sample["step"] for sample in samples) > 0, samples[-4:]
actors = [row["class_name"] for path in glob.glob(f"{sys.argv[1]}/ppo/debug/*-stopped/actors.json") for row in json.load(open(path))]
assert actors and "Host" not in actors, actors
PY
  run --separate-stderr 50_status.sh --json
  [[ $output == *'"wall_time": {"until": '* ]] || fail '50 does not have it'
  run --separate-stderr 58_samples.sh ppo --worst 2
  assert_status 0
  assert_output '── 1/2 ─*step *, answer *: score *── 2/2 ─*'
  (($(find "$JOBS/ppo/rollouts" -name '*.jsonl' | wc -l) <= 20)) || fail 'more than the last 20 steps'
  printf 'def compute_score(data_source, solution_str, **kwargs):\n    return float(bool(data_source))\n' >"$FOLDER/private/user/code/again.py"
  run --separate-stderr 58_samples.sh again-ppo --rescore user/code/again.py
  assert_status 0
  assert_output '*ANSWERS *MEAN WAS*all * 1 *' # the data source was found
  printf 'def compute_score(**kwargs):\n    return 1 / 0\n' >"$FOLDER/private/user/code/again.py"
  run --separate-stderr 58_samples.sh again-ppo --rescore user/code/again.py
  assert_status 2
  assert_stderr_has 'again.py:2: ZeroDivisionError: division by zero (step '
}

@test "PPO: every check of the resumed job passes" {
  run --separate-stderr 54_verify.sh again-ppo
  assert_status 0
  assert_output '*resumed step * of ppo*metrics.jsonl: steps *, as expected*1 job: * 0 Fail*'
  assert_output '*✓ Pass     sealed *after the job'"'"'s end*✓ Pass     as planned *✓ Pass     one account *✓ Pass     times in order *✓ Pass     log *'
  grep -q '^MVP_PRECHECK_MARKER=verl-' "$JOBS/again-ppo/logs/driver.log" || fail 'the driver log lacks the marker'
}

@test "GRPO trains on groups of answers, by the user's reward function, with a KL loss when the JobSpec asks for it" {
  run --separate-stderr 54_verify.sh beside
  assert_status 0
  assert_output '*✓ Pass     trained on this cluster*1 job: * 0 Fail*'
  grep -q 'rollout.n=4' "$JOBS/beside/config/resolved.yaml" || fail 'no groups'
  [[ $(grep -c '"actor/kl_loss"' "$JOBS/beside/metrics.jsonl") == 2 ]] || fail 'no KL loss'
  grep -q '^MVP_PRECHECK_REWARD=.*/quarter.py:compute_score returned 0.25 ' "$JOBS/beside/logs/driver.log" || fail 'not prechecked'
  [[ $(grep -c '"critic/score/mean": *0.25,' "$JOBS/beside/metrics.jsonl") == 2 ]] || fail "$(<"$JOBS/beside/metrics.jsonl")"
  run --separate-stderr 58_samples.sh beside --best 3
  assert_status 0
  assert_output '── 1/3 ─*step 2, answer *: score 0.25*'
}

@test "the actor of a checkpoint is exported: PPO's, and GRPO's" {
  local job
  for job in again-ppo beside; do
    run --separate-stderr 57_checkpoints.sh --export "$job" "common/models/$job-actor"
    assert_status 0
    python -c 'import json, sys; proof = json.load(open(sys.argv[1]))["proof"]; assert proof["generated"], proof' "$output/mvp_export.json"
  done
}

@test "SFT: a stop saves the step it comes in, and a resume continues with the next, and saves and ends before a deadline" {
  local tracked=$'tracking: wandb\nenv_vars: {WANDB_MODE: offline}' first
  submit sft sft "$tracked"
  wait_for 400 'twelve steps' has_trained sft 12
  run --separate-stderr 52_stop.sh sft
  stopped_and_saved sft sft
  [[ -s $JOBS/sft/checkpoints/global_step_$STEP/model_world_size_2_rank_1.pt ]] || fail 'no checkpoint of the second process'
  grep -q '^MVP_SFT_DRIVER: cluster 127.0.84.10:7240 with 3 nodes, own tensors on cpu, workers on cpu$' "$JOBS/sft/logs/driver.log" ||
    fail 'the driver does not say which cluster it joined'
  python - "$JOBS/sft/metrics.jsonl" <<'PY'
import json, sys
losses = [row["data"]["train/loss"] for row in map(json.loads, open(sys.argv[1])) if "train/loss" in row["data"]]
assert losses[9] < losses[0] - 0.2, losses
PY
  first=$((STEP + 1))
  submit sft again-sft "resume_from: sft"$'\n'"$tracked"
  wait_for 400 'two more steps' has_trained again-sft $((first + 1))
  saves_before_its_deadline again-sft sft
  [[ $(steps again-sft) == "$(seq -s ' ' "$first" "$STEP")" ]] || fail "it trained $(steps again-sft)"
}

@test "curves are in TensorBoard, W&B and MLflow as in metrics.jsonl, and a resume goes on with the same run" {
  MLFLOW_ALLOW_FILE_STORE=true python - "$JOBS" <<'PY'
import glob, json, struct, sys
from mlflow import MlflowClient
from pytest import approx
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto import wandb_internal_pb2

def metrics(job, name):
    rows = map(json.loads, open(f"{sys.argv[1]}/{job}/metrics.jsonl"))
    return {row["step"]: row["data"][name] for row in rows if name in row["data"]}

def records(path): # W&B's own form: blocks of 32 KiB with pieces of records, as in LevelDB's log
    data, at, parts = open(path, "rb").read(), 7, b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(parts)
            parts = b""

def wandb_run(job, name):
    (file,) = glob.glob(f"{sys.argv[1]}/{job}/tracking/wandb/offline-run-*/*.wandb")
    ids, values = set(), {}
    for record in records(file):
        if record.HasField("run"):
            ids.add((record.run.run_id, record.run.project, record.run.display_name))
        elif record.HasField("history"):
            row = {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
            if name in row:
                values[row["_step"]] = row[name]
    return ids, values

for job in ("ppo", "again-ppo", "beside"):
    events = EventAccumulator(f"{sys.argv[1]}/{job}/tracking")
    events.Reload()
    shown = {event.step: event.value for event in events.Scalars("actor/pg_loss")}
    assert shown == {step: approx(value, abs=1e-6) for step, value in metrics(job, "actor/pg_loss").items()}, shown
for job in ("sft", "again-sft"):
    ids, values = wandb_run(job, "train/loss")
    assert ids == {("sft", "mvp", "sft")}, ids
    assert values == approx(metrics(job, "train/loss")), values
client = MlflowClient(f"file://{sys.argv[1]}/../outputs/mlflow")
(run,) = client.search_runs([client.get_experiment_by_name("mvp").experiment_id])
history = client.get_metric_history(run.info.run_id, "actor/pg_loss")
shown = [(each.step, approx(each.value, abs=1e-6)) for each in history]
assert shown == sorted((metrics("ppo", "actor/pg_loss") | metrics("again-ppo", "actor/pg_loss")).items()), shown
assert run.info.run_name == "ppo", run.info
PY
  run --separate-stderr 58_samples.sh sft
  assert_status 2
  assert_stderr_has "job 'sft' kept no samples"
  wait_until_sealed
  for id in ppo again-ppo again-sft; do # no tracker wrote after the seal
    run --separate-stderr 54_verify.sh "$id"
    [[ $output == *'✓ Pass     sealed '* ]] || fail "$id"
  done
}

steps_saved() { # <id>: the steps whose checkpoints it has
  find "$JOBS/$1/checkpoints" -name 'global_step_*' -printf '%f\n' | sed 's/global_step_//' | sort -n | paste -sd' '
}

# bats test_tags=nightly
@test "SFT: a chain of attempts keeps the newest checkpoints of all of them, and verl forgets none after its resume" {
  long_job sft kept 'retry: {on: [host]}' 'trainer.max_ckpt_to_keep: 3' 'trainer.total_training_steps: 40'
  sed -i 's|save_freq: .*|save_freq: 2|' "$FOLDER/specs/kept.yaml"
  43_submit_jobspec.sh "$FOLDER/specs/kept.yaml"
  wait_for 400 'nine steps' has_trained kept 9
  kill -9 "$(of_result kept trainer_pid)"
  wait_for 400 'the second attempt' grep -q '"state": "SUCCEEDED"' "$JOBS/kept.2/result.json"
  [[ "$(steps_saved kept) $(steps_saved kept.2)" =~ ^\ *36\ 38\ 40$ ]] || fail "kept: $(steps_saved kept) and $(steps_saved kept.2)"
  grep -q 'MVP_REMOVED: .*/kept/checkpoints/global_step_' "$JOBS"/kept.2/logs/driver.log || fail 'it does not say what it removed'
  run --separate-stderr 54_verify.sh kept.2
  assert_status 0
}

warned_of_memory() { # <id>
  sleep 2
  [[ $(55_explain.sh "$1") =~ worker-[01]:\ host\ memory\ grew\ [0-9.]+\ [GM]iB\ per\ step\ since\ step\ [0-9]+\;\ full\ in\ [0-9dhms]+ ]]
}

# bats test_tags=nightly
@test "PPO: 55 warns of memory that a reward function never frees: host, rate and time, before it runs out" {
  mkdir -p "$FOLDER/private/user/code"
  # Each process that calls it keeps 1.2 GB at most.
  cat >"$FOLDER/private/user/code/leaks.py" <<'PY'
import os
KEPT = []
def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    if len(KEPT) < 200:
        KEPT.append(os.urandom(1 << 20) * 6)
    return float(len(solution_str) % 2)
PY
  submit ppo leaks 'reward_fn_path: user/code/leaks.py'
  wait_for 300 'its first step' has_trained leaks 1
  wait_for 30 'the warning' warned_of_memory leaks
  printf '# %s\n' "${BASH_REMATCH[0]}" >&3
  run --separate-stderr 52_stop.sh --now leaks
  assert_status 0
}

# bats test_tags=nightly
@test "GRPO on the trainer before V1: saves and ends before a deadline" {
  submit grpo grpo '' 'trainer.use_v1: false'
  wait_for 400 'two steps' has_trained grpo 2
  saves_before_its_deadline grpo grpo
}

# bats test_tags=nightly
@test "a verl whose trainer is different cannot be asked: it says what a stop costs, goes on, and --now stops it" {
  mkdir "$FOLDER/other" && cp -r "$(python -c 'import importlib.util as u; print(u.find_spec("verl").submodule_search_locations[0])')" "$FOLDER/other/verl"
  sed -i 's/is_last_step = global_step >= self.total_training_steps/is_last_step = self.total_training_steps <= global_step/' \
    "$FOLDER/other/verl/trainer/sft_trainer_ray.py"
  CODE_ID=other 31_snapshot_verl_code.sh --source "$FOLDER/other"
  long_job sft other ''
  sed -i -e 's|^code_path: .*|code_path: common/code/verl/other|' -e 's/save_freq: .*/save_freq: 1000/' "$FOLDER/specs/other.yaml"
  43_submit_jobspec.sh "$FOLDER/specs/other.yaml"
  wait_for 400 'twelve steps' has_trained other 12
  run --separate-stderr 52_stop.sh --save-only other
  assert_status 4
  assert_stderr_has "cannot be asked to save: verl.trainer.sft_trainer_ray.SFTTrainer.fit of verl 0."
  run --separate-stderr 52_stop.sh other
  assert_status 4
  [[ $stderr =~ 'no checkpoint was saved, '[0-9]+' steps will be lost' ]] || fail 'it does not say what it costs'
  assert_stderr_has './scripts/52_stop.sh --now other'
  [[ $(state_of other) == RUNNING ]] || fail 'it was stopped'
  run --separate-stderr 52_stop.sh --now other
  assert_status 0
  assert_output 'other STOPPED'
  [[ $(of_result other reason) == *'no checkpoint was saved, '*' steps are lost' ]] || fail "$(of_result other reason)"
}
