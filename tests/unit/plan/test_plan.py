"""The plan: one JobSpec on one cluster, computed without side effects."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from toys import write_parquet

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.times import stamped
from mvp_helpers.cluster.cluster_file import GPU_SELECTORS, Cluster
from mvp_helpers.plan import environment, jobspec, plan, planning, resolve
from mvp_helpers.plan.plan import Plan
from mvp_helpers.plan.workloads import load as load_workload

SPEC = {"workload": "toy", "submission_id": "job1", "code_path": "common/code/verl/current", "model": "common/models/tiny"}
pytestmark = pytest.mark.usefixtures("workloads")


def make(cluster: Cluster, **fields: Any) -> Plan:
    document = SPEC | {"dataset": "datasets/gsm8k"} | fields
    data = json.dumps({name: value for name, value in document.items() if value is not None}).encode()
    return planning.make(data, "job.json", cluster)


def refused(cluster: Cluster, **fields: Any) -> str:
    with pytest.raises(BadInput) as caught:
        make(cluster, **fields)
    return caught.value.what


def files_under(root: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns) for path in root.rglob("*"))


def test_planning_writes_nothing(cluster: Cluster, shared: SharedRoot) -> None:
    before = files_under(shared.root)
    make(cluster)
    assert files_under(shared.root) == before


def test_the_job_runs_in_its_own_folder_and_resumes_nothing(cluster: Cluster, shared: SharedRoot) -> None:
    made = make(cluster)
    assert made.job_folder == str(shared.root / "jobs" / "job1")
    assert f"trainer.default_local_dir={made.job_folder}/checkpoints" in made.overrides
    assert "trainer.resume_mode=disable" in made.overrides


@pytest.mark.parametrize(
    "override", [{"trainer.resume_mode": "auto"}, {"trainer": {"default_local_dir": "/elsewhere"}}, ["trainer.resume_mode=auto"]]
)
def test_what_keeps_a_job_in_its_folder_cannot_be_overridden(cluster: Cluster, override: Any) -> None:
    assert "cannot be changed" in refused(cluster, trainer_overrides=override)


def test_the_current_snapshot_is_resolved_to_a_fixed_one(cluster: Cluster) -> None:
    made = make(cluster)
    assert made.code_id == "codeA"
    assert made.code_path and made.code_path.endswith("/codeA")


def test_pythonpath_begins_with_the_snapshot_and_has_no_empty_entry(cluster: Cluster) -> None:
    made = make(cluster, env_vars={"PYTHONPATH": "/own::$PYTHONPATH:/other:"})
    entries = made.env_vars["PYTHONPATH"].split(":")
    assert entries[0] == made.code_path
    assert entries[-2:] == ["/own", "/other"]
    assert all(entries)
    assert made.env_vars["PYTHONSAFEPATH"] == "1"


def test_a_relative_pythonpath_is_refused(cluster: Cluster) -> None:
    assert "not an absolute path" in refused(cluster, env_vars={"PYTHONPATH": "here"})


def test_device_settings_come_from_the_cluster_and_the_specs_own_win(cluster: Cluster) -> None:
    made = make(cluster)
    assert "trainer.device=cpu" in made.overrides and made.env_vars["DEVICE_IN_USE"] == "cpu"
    own = make(cluster, trainer_overrides={"trainer.device": "tpu"}, env_vars={"DEVICE_IN_USE": "me"})
    assert (
        "trainer.device=tpu" in own.overrides
        and "trainer.device=cpu" not in own.overrides
        and own.env_vars["DEVICE_IN_USE"] == "me"
    )


def test_the_defaults_are_one_epoch_and_a_checkpoint_every_ten_steps(cluster: Cluster) -> None:
    made = make(cluster)
    assert (made.total_epochs, made.save_freq) == (1, 10)
    assert make(cluster, trainer_overrides=["trainer.save_freq=5"]).save_freq == 5


def test_nodes_and_processes_come_from_the_cluster_unless_overridden(cluster: Cluster) -> None:
    assert (make(cluster).nnodes, make(cluster).world_size) == (2, 2)
    assert make(cluster, trainer_overrides={"trainer.nnodes": 1}).nnodes == 1


def test_the_submit_line_is_exact_and_survives_a_shell(cluster: Cluster) -> None:
    nasty = 'it\'s "$(x)"\n`y` ü'
    made = make(cluster, env_vars={"A": nasty}, resources={"entrypoint_num_cpus": 2})
    argv = shlex.split(shlex.join(made.submit_argv()))
    assert argv[:3] == ["ray", "job", "submit"]
    assert made.runtime_env()["env_vars"]["A"] == json.loads(made.job_config())["runtime_env"]["env_vars"]["A"] == nasty
    assert json.loads(argv[argv.index("--entrypoint-resources") + 1]) == {"worker_node": 1}
    assert argv[argv.index("--entrypoint-num-cpus") + 1] == "2"
    assert argv[argv.index("--submission-id") + 1] == "job1"
    start = f"{cluster.tools}/lib/mvp_helpers/isolated.py"
    assert argv[argv.index("--") + 1 :] == ["python3", "-I", "-S", start, "run-job", made.job_folder]
    assert Path(start).is_file()


def test_ray_starts_the_runner_with_the_toolkits_own_variables_alone(cluster: Cluster) -> None:
    theirs = msgspec.structs.replace(cluster, env_vars={"OF_CLUSTER": "1"})
    made = make(theirs, env_vars={"PYTHONPATH": "/own", "LD_LIBRARY_PATH": "/own", "A": "b"}, secrets=["TOKEN"])
    argv = made.submit_argv()
    runners = json.loads(argv[argv.index("--runtime-env-json") + 1])
    assert list(runners) == ["env_vars"] and runners["env_vars"].pop("PYTHONPATH") == f"{cluster.tools}/lib"
    own = {"PYTHONSAFEPATH", "RAY_JOB_STOP_SIGNAL", "RAY_JOB_STOP_WAIT_TIME_S", "MVP_JOB_FOLDER"}
    assert runners["env_vars"].keys() == own
    assert {"OF_CLUSTER", "LD_LIBRARY_PATH", "A", *own} <= made.env_vars.keys()


def test_the_trainers_ray_workers_get_what_ray_gave_the_runner_and_the_jobs_variables(cluster: Cluster) -> None:
    made = make(cluster, env_vars={"A": "ü"}, secrets=["TOKEN"])
    rays = {"metadata": {"name": "x"}, "runtime_env": {"config": {"c": 1}, "env_vars": {"RAY_worker_niceness": "0", "A": "old"}}}
    config = json.loads(made.job_config(json.dumps(rays)))
    assert config["metadata"] == {"name": "x"} and config["runtime_env"]["config"] == {"c": 1}
    assert config["runtime_env"]["env_vars"] == {"RAY_worker_niceness": "0", **made.env_vars} and made.env_vars["A"] == "ü"
    assert config["runtime_env"]["worker_process_setup_hook"] == plan.SETUP_HOOK


def test_a_plan_of_an_earlier_version_is_submitted_as_it_was(cluster: Cluster) -> None:
    made = make(cluster, env_vars={"A": "b"})
    earlier = msgspec.structs.replace(made, runner_env_vars={}).submit_argv()
    assert json.loads(earlier[earlier.index("--runtime-env-json") + 1]) == made.runtime_env()
    before_the_hook = msgspec.structs.replace(made, setup_hook="")
    assert before_the_hook.runtime_env() == {"env_vars": made.env_vars}
    with_secrets = msgspec.structs.replace(before_the_hook, secrets=["TOKEN"])
    assert with_secrets.runtime_env()["worker_process_setup_hook"] == plan.EARLIER_HOOK


@pytest.mark.parametrize(
    ("value", "expanded"),
    [("$A/x", "1/x"), ("${A}/x", "1/x"), ("${NONE}x", "x"), ("$NONE/x", "$NONE/x"), ("$(id) $", "$(id) $")],
)
def test_variables_are_expanded_in_the_trainer_as_ray_does_in_its_workers(value: str, expanded: str) -> None:
    assert environment.as_ray_sets({"A": "1", "B": value}, {"A": "0"}) == {"A": "1", "B": expanded}


@pytest.mark.parametrize("given", ["http://127.0.0.1:8265", "http://localhost:8265/"])
def test_the_heads_own_dashboard_as_the_head_sees_it_is_this_cluster(cluster: Cluster, given: str) -> None:
    ours = msgspec.structs.replace(cluster, ray=msgspec.structs.replace(cluster.ray, dashboard_port=8265))
    assert make(ours, ray={"address": given}).address == ours.dashboard != given.rstrip("/")


@pytest.mark.parametrize(
    "given", ["http://127.0.0.1:9999", "http://evil.example:8265", "http://[::1", "http://127.0.0.1:8265@evil:1"]
)
def test_another_dashboard_would_be_sent_this_clusters_token_and_is_refused(cluster: Cluster, given: str) -> None:
    ours = msgspec.structs.replace(cluster, ray=msgspec.structs.replace(cluster.ray, dashboard_port=8265))
    assert f"ray.address {given!r} is not the dashboard of cluster 'local'" in refused(ours, ray={"address": given})


def test_a_users_value_is_not_searched_for_placeholders(cluster: Cluster) -> None:
    assert "trainer.project_name='{model}'" in make(cluster, trainer_overrides={"trainer.project_name": "{model}"}).argv


def test_the_plan_is_read_back_as_it_was_written(cluster: Cluster, shared: SharedRoot) -> None:
    made = make(cluster, env_vars={"A": "ü\n'\"$(x)"})
    made.folder.config.mkdir(parents=True)
    made.folder.resolved.write_text(plan.to_yaml(made))
    assert plan.read(made.folder) == made
    made.folder.resolved.write_text("nothing: here\n")
    with pytest.raises(BadInput, match="cannot read"):
        plan.read(made.folder)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"workload": "tpo"}, "unknown workload 'tpo' (did you mean 'toy'?)"),
        ({"shared_root": "/private"}, "shared_root is '/private' but cluster 'local' has"),
        ({"code_path": None}, "needs code_path"),
        ({"model": None}, "needs model"),
        ({"dataset": None}, "needs dataset"),
        ({"code_path": "common/models/tiny"}, "has no mvp_marker.py"),
        ({"model": "common/models/none"}, "model does not exist"),
        ({"dataset": "common/models/tiny"}, "lacks train.parquet"),
        ({"reward_fn_path": "user/code/none.py"}, "reward_fn_path does not exist"),
        ({"trainer_overrides": {"trainer.devicee": 1}}, "did you mean 'trainer.device'?"),
        (
            {"trainer_overrides": {"data.train_batch_size": 9}},
            "data.train_batch_size * rollout.n must be divisible by world_size",
        ),
        ({"trainer_overrides": {"data.train_batch_size": 32}}, "the training data have 20 rows, fewer than one batch"),
        ({"trainer_overrides": {"data.train_batch_size": 4}}, "data.train_batch_size must be at least actor.mini_batch_size"),
    ],
)
def test_a_spec_that_cannot_work_is_refused_with_the_reason(cluster: Cluster, fields: dict[str, Any], message: str) -> None:
    assert message in refused(cluster, **fields)


def test_the_rows_are_those_of_the_files_that_the_overrides_name(cluster: Cluster, shared: SharedRoot) -> None:
    assert (make(cluster).training_rows, make(cluster).steps_total()) == (20, 2)
    write_parquet(shared.root / "more.parquet", rows=30)
    both = [str(shared.root / "datasets" / "gsm8k" / "train.parquet"), str(shared.root / "more.parquet")]
    large = {"data.train_files": both, "data.train_batch_size": 40}
    assert make(cluster, trainer_overrides=large).training_rows == 50
    assert "have 16 rows, fewer than one batch" in refused(cluster, trainer_overrides=large | {"+data.train_max_samples": 16})
    # What cannot be counted is left to the trainer.
    for unknown in ({"data.train_files": "/elsewhere/rows.json"}, {"+data.custom_cls.path": "mine.py"}):
        assert make(cluster, trainer_overrides={"data.train_batch_size": 64} | unknown).training_rows is None


def test_a_batch_rule_can_be_lifted_by_its_switch(cluster: Cluster) -> None:
    make(cluster, trainer_overrides={"data.train_batch_size": 9, "actor.use_dynamic_bsz": True})


def test_a_batch_rule_can_hold_for_some_settings_only(cluster: Cluster, workloads: Path) -> None:
    rule = "{product: [data.train_batch_size], divisible_by: [rollout.n], only_if: {trainer.device: tpu}}"
    (workloads / "some.yaml").write_text(f"extends: toy\nbatch_rules: [{rule}]\n")
    make(cluster, workload="some", trainer_overrides={"rollout.n": 3})
    assert "must be divisible by rollout.n" in refused(
        cluster, workload="some", trainer_overrides={"rollout.n": 3, "trainer.device": "tpu"}
    )


def test_both_ways_to_submit_carry_the_same_options(cluster: Cluster) -> None:
    made = make(cluster)
    command, sdk = made.submit_argv(), made.submit_argv("sdk")
    assert (command[:3], sdk[:3]) == (["ray", "job", "submit"], ["python3", "-m", "mvp_helpers.job.sdk_submit"])
    assert command[3:] == sdk[3:]


def test_a_workload_without_settings_for_the_device_is_refused(cluster: Cluster) -> None:
    assert "has no settings for device 'cuda'" in refused(msgspec.structs.replace(cluster, device="cuda"))


CUDA = """
entry: {command: [train]}
devices: {cuda: {env_vars: {OMP_NUM_THREADS: "4"}}}
"""


def test_only_ray_chooses_gpus_on_a_gpu_cluster(cluster: Cluster, workloads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workloads / "cuda.yaml").write_text(CUDA)
    plain: dict[str, Any] = {"workload": "cuda", "code_path": None, "model": None, "dataset": None}
    gpu_cluster = msgspec.structs.replace(cluster, device="cuda")
    for name in GPU_SELECTORS:
        monkeypatch.setenv(name, "3")  # the submitter's own, which must have no effect
    made = make(gpu_cluster, **plain)
    assert set(made.env_vars).isdisjoint(GPU_SELECTORS) and "VISIBLE_DEVICES" not in shlex.join(made.submit_argv())
    for name in GPU_SELECTORS:
        assert f"env_vars.{name} " in refused(gpu_cluster, **plain, env_vars={name: "0,1"})
        assert f"env_vars.{name} " in refused(msgspec.structs.replace(gpu_cluster, env_vars={name: "0"}), **plain)
    assert make(cluster, env_vars={"CUDA_VISIBLE_DEVICES": ""}).env_vars["CUDA_VISIBLE_DEVICES"] == ""


def test_gloo_gets_the_name_of_one_interface_or_none(cluster: Cluster) -> None:
    for value in ("^lo", "eth0,eth1", "=eth0"):
        assert f"env_vars.GLOO_SOCKET_IFNAME '{value}'" in refused(cluster, env_vars={"GLOO_SOCKET_IFNAME": value})
        assert "exactly one" in refused(msgspec.structs.replace(cluster, env_vars={"GLOO_SOCKET_IFNAME": value}))
    own = {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "^lo,docker0"}
    assert own.items() <= make(cluster, env_vars=own).env_vars.items()


@pytest.mark.parametrize("name", ["ppo", "grpo", "sft"])
def test_no_shipped_workload_chooses_gpus_on_a_gpu_cluster(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MVP_WORKLOADS")
    loaded = load_workload(name)
    assert {*loaded.env_vars, *loaded.devices["cuda"].env_vars}.isdisjoint({*GPU_SELECTORS, "VERL_PLATFORM"})
    assert loaded.devices["cpu"].env_vars["CUDA_VISIBLE_DEVICES"] == ""


def test_a_plain_command_needs_neither_code_nor_data(cluster: Cluster) -> None:
    made = make(cluster, workload="echo", code_path=None, model=None, dataset=None)
    assert made.argv == [f"{made.job_folder}/no-such-command"]
    assert made.code_path is None and made.overrides == []


def test_a_deadline_is_kept_as_unix_time_and_refused_once_it_has_passed(cluster: Cluster) -> None:
    assert make(cluster).save_by is None
    assert make(cluster, save_by="2100-01-01T00:00").save_by == 4102444800.0
    assert "save_by '2020-01-01' is in the past" in refused(cluster, save_by="2020-01-01")


def test_ids_of_the_same_second_differ_and_are_valid() -> None:
    ids = {stamped("ppo") for _ in range(50)}
    assert len(ids) > 45
    jobspec.load(json.dumps({"workload": "ppo", "submission_id": ids.pop()}).encode(), "x.json")


@pytest.mark.parametrize(
    ("named", "override"),
    [
        ("wandb", "trainer.logger=[wandb,file]"),
        (["console", "tensorboard"], "trainer.logger=[console,tensorboard,file]"),
        ([], "trainer.logger=[file]"),
        (["file", "console"], "trainer.logger=[file,console]"),
    ],
)
def test_whatever_loggers_the_user_names_the_file_logger_is_among_them(cluster: Cluster, named: Any, override: str) -> None:
    made = make(cluster, trainer_overrides={"trainer.logger": named})
    assert [text for text in made.overrides if text.startswith("trainer.logger=")] == [override]
    said = yaml.safe_load(plan.describe(made))["logger"]
    assert said.startswith("'file' is added to [") if "file" not in named else said == ""


def test_a_workload_that_is_not_told_where_its_metrics_go_gets_no_logger(cluster: Cluster, workloads: Path) -> None:
    (workloads / "toy.yaml").write_text((workloads / "toy.yaml").read_text().replace('{METRICS: "{metrics}"}', "{}"))
    made = make(cluster, trainer_overrides={"trainer.logger": "wandb"})
    assert "trainer.logger=wandb" in made.overrides and made.logger == ""


def test_a_tracker_adds_its_logger_its_variables_and_the_name_of_its_run(cluster: Cluster) -> None:
    made = make(cluster, tracking="tensorboard", submission_id="curves")
    assert "trainer.logger=[console,file,tensorboard]" in made.overrides
    assert "trainer.experiment_name=curves" in made.overrides
    assert made.env_vars["TENSORBOARD_DIR"] == f"{made.job_folder}/tracking"
    assert made.tracking and made.tracking.run == "curves"
    assert made.logger == "'tensorboard' is added to [console, file]: tracking names it"


def test_a_users_own_loggers_stay_beside_the_tracker_and_the_file(cluster: Cluster) -> None:
    own = {"trainer.logger": ["console", "tensorboard"]}
    made = make(cluster, tracking="mlflow", env_vars={"TENSORBOARD_DIR": "/mine"}, trainer_overrides=own)
    assert "trainer.logger=[console,tensorboard,mlflow,file]" in made.overrides
    assert made.env_vars["TENSORBOARD_DIR"] == "/mine" and made.env_vars["MLFLOW_TRACKING_URI"].endswith("/outputs/mlflow")


def test_a_users_own_name_and_variables_of_a_tracker_win(cluster: Cluster) -> None:
    made = make(
        cluster,
        tracking="wandb",
        env_vars={"WANDB_MODE": "offline", "WANDB_DIR": "/mine"},
        trainer_overrides=["+trainer.experiment_name=mine", "trainer.logger=[wandb]"],
    )
    assert [text for text in made.overrides if "experiment_name" in text] == ["+trainer.experiment_name=mine"]
    assert made.env_vars["WANDB_DIR"] == "/mine"
    assert "trainer.logger=[wandb,file]" in made.overrides


def test_the_cluster_file_may_say_for_all_jobs_that_a_tracker_is_offline(cluster: Cluster) -> None:
    offline = msgspec.structs.replace(cluster, env_vars={"WANDB_MODE": "offline"})
    assert make(offline, tracking="wandb").env_vars["WANDB_MODE"] == "offline"
    assert "WANDB_API_KEY is not among secrets" in refused(offline, tracking="wandb", env_vars={"WANDB_MODE": "online"})


def test_a_tracker_without_its_package_its_key_or_loggers_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "WANDB_API_KEY is not among secrets" in refused(cluster, tracking="wandb")
    assert "tracking" in refused(cluster, tracking="wandbb")
    monkeypatch.setattr(resolve, "installed", lambda package: package != "mlflow")
    assert "the package mlflow is not installed" in refused(cluster, tracking="mlflow")
