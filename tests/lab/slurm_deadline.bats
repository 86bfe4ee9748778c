#!/usr/bin/env bats
# long: A job that would train for longer than its Slurm allocation of five minutes lasts: it saves and ends before the limit.

load lab
load slurm_hosts

setup_file() {
  lab_needs namespaces slurm
  make_slurm_lab slurml 10.78.6
  sed -i 's|^slurm:.*|slurm: {sbatch: ["--cpus-per-task=2", "--time=5"], pending_timeout_s: 60}|' "$MVP_CLUSTER"
}

teardown_file() {
  end_slurm_lab
}

of_result() { # <field>
  python -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$LAB_DIR/shared/jobs/longer/result.json" "$1"
}

# bats test_tags=nightly
@test "a job that is longer than its allocation ends saved before the limit" {
  in_lab 01_up.sh
  limit=$(date -d "$(in_lab squeue -h -n mvp-slurml -o %e)" +%s)
  in_lab 30_prepare_data_and_model.sh
  in_lab 31_snapshot_verl_code.sh
  sed -e 's/"trainer.total_epochs": 1/"trainer.total_epochs": 500/' -e '/total_training_steps/d' \
    -e 's/^{/{"submission_id": "longer",/' "$PROJECT/templates/sft.json" >"$LAB_DIR/longer.json"
  in_lab 43_submit_jobspec.sh "$LAB_DIR/longer.json"
  wait_for 320 'its end' grep -q '"state": "STOPPED"' "$LAB_DIR/shared/jobs/longer/result.json"
  ended=$(date -d "$(of_result ended_at)" +%s)
  ((ended <= limit)) || fail "it ended $((ended - limit)) s after the limit"
  step=$(of_result steps_done)
  [[ $(of_result reason) == "stopped before its deadline (the end of Slurm allocation "*"), saved at step $step" ]] ||
    fail "$(of_result reason)"
  [[ -e $LAB_DIR/shared/jobs/longer/checkpoints/global_step_$step/data_0.pt ]] || fail 'no checkpoint'
  echo "# saved step $step, ended $((limit - ended)) s before the limit" >&3
}
