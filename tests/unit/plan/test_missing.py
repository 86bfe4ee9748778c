"""A plan of what is not there yet: without data, model, code snapshot, or even the shared root."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster import cluster_file
from mvp_helpers.cluster.cluster_file import TEMPLATES, Cluster
from mvp_helpers.job import submit
from mvp_helpers.plan import jobspec, plan
from mvp_helpers.plan.plan import Plan

SPEC = {
    "workload": "toy",
    "code_path": "common/code/verl/current",
    "model": "common/models/tiny",
    "dataset": "datasets/gsm8k",
    "trainer_overrides": {"trainer.total_epochs": 3, "data.train_batch_size": 8},
}
REWARDED = {"reward_fn_path": "user/code/mine.py"}


def preview(cluster: Cluster, **fields: Any) -> tuple[Plan, list[str]]:
    return submit.preview(json.dumps(SPEC | fields).encode(), "job.json", cluster, {})


@pytest.mark.usefixtures("workloads")
def test_nothing_is_missing_from_a_whole_plan(cluster: Cluster) -> None:
    planned, missing = preview(cluster)
    assert missing == [] and planned.code_id == "codeA" and planned.training_rows == 20
    assert "\nmissing:" not in plan.describe(planned)


@pytest.mark.usefixtures("workloads")
@pytest.mark.parametrize(
    ("folder", "field", "script"),
    [
        ("common/code", "code_path", "31_snapshot_verl_code"),
        ("common/models", "model", "30_prepare_data_and_model"),
        ("datasets", "dataset", "30_prepare_data_and_model"),
    ],
)
def test_what_30_or_31_still_has_to_make_is_listed_and_planned(
    cluster: Cluster, shared: SharedRoot, folder: str, field: str, script: str
) -> None:
    whole = preview(cluster, submission_id="a")[0]
    moved = (shared.root / folder).rename(shared.root / "moved")
    planned, (missing,) = preview(cluster, submission_id="a")
    assert (
        missing.startswith(f"{field} does not exist: {shared.root / str(SPEC[field])}") and f"(./scripts/{script}.sh)" in missing
    )
    assert [text for text in planned.overrides if "dir=" not in text] == [text for text in whole.overrides if "dir=" not in text]
    assert (planned.nnodes, planned.train_batch_size, planned.total_epochs) == (2, 8, 3)
    assert missing in plan.describe(planned, missing=[missing])
    shutil.rmtree(moved)


@pytest.mark.usefixtures("workloads")
def test_a_dataset_that_lacks_one_file_is_missing_something(cluster: Cluster, shared: SharedRoot) -> None:
    (shared.root / "datasets" / "gsm8k" / "train.parquet").unlink()
    planned, (missing,) = preview(cluster)
    assert missing.startswith("dataset lacks train.parquet:") and planned.training_rows is None


@pytest.mark.usefixtures("workloads")
def test_a_submission_and_a_mistake_are_refused_all_the_same(cluster: Cluster, shared: SharedRoot) -> None:
    shutil.rmtree(shared.root / "datasets")
    with pytest.raises(BadInput, match="dataset does not exist"):
        submit.prepare(json.dumps(SPEC).encode(), "job.json", cluster, {})
    for fields, message in (
        ({"workload": "tpo"}, "unknown workload"),
        (REWARDED, "reward_fn_path does not exist"),
        ({"resume_from": "none"}, "none"),
        ({"trainer_overrides": {"trainer.devicee": 1}}, "did you mean 'trainer.device'"),
        ({"trainer_overrides": {"data.train_batch_size": 9}}, "must be divisible by world_size"),
        ({"secrets": ["A_TOKEN"]}, "secret A_TOKEN is neither in the environment nor"),
    ):
        with pytest.raises(BadInput, match=message):
            preview(cluster, **fields)


@pytest.mark.usefixtures("workloads")
def test_without_the_shared_root_nothing_on_it_is_looked_for(
    cluster: Cluster, replace: Callable[..., Any], tmp_path: Path
) -> None:
    nowhere = tmp_path / "nowhere"
    planned, missing = preview(
        replace(cluster, shared_root=str(nowhere)), **REWARDED, resume_from="old", secrets=["A_TOKEN"], submission_id="a"
    )
    assert [text.split()[0] for text in missing] == ["code_path", "model", "dataset", "reward_fn_path", "resume_from"]
    assert all(str(nowhere) in text for text in missing) and f"(this machine has no {nowhere})" in missing[0]
    assert planned.env_vars["PYTHONPATH"].startswith(f"{nowhere}/common/code/verl/current:")
    assert planned.overrides[-2:] == [f"trainer.default_local_dir={nowhere}/jobs/a/checkpoints", "trainer.resume_mode=disable"]
    with pytest.raises(BadInput, match="must be divisible by world_size"):
        preview(replace(cluster, shared_root=str(nowhere)), trainer_overrides=["data.train_batch_size=9", "rollout.n=1"])


JOBSPECS = [
    file for file in sorted(TEMPLATES.parent.iterdir()) if file.with_suffix(".json").exists() and "schema" not in file.name
]


@pytest.mark.parametrize("spec", JOBSPECS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("name", sorted(file.stem for file in TEMPLATES.glob("*.yaml")))
def test_every_template_is_planned_for_every_cluster_anywhere(
    name: str, spec: Path, replace: Callable[..., Any], tmp_path: Path
) -> None:
    cluster = replace(cluster_file.load(name), shared_root=str(tmp_path / "none"))
    planned, missing = submit.preview(spec.read_bytes(), spec.name, cluster, {})
    assert planned.env_vars["PYTHONPATH"].endswith(f"{cluster.tools}/lib")
    assert planned.address.startswith(f"http://{cluster.head.ip or cluster.head.name}:")
    assert [text.split()[0] for text in missing] == ["code_path", "model", "dataset"][: 1 if spec.stem == "versions" else 3]
    if spec.stem != "versions":
        world = (2, 4) if cluster.device == "cuda" else (2, 1)
        assert (planned.nnodes, planned.processes_per_node) == world
        assert ("assumed" in planned.shape) == (cluster.device == "cuda") == bool(planned.defaults_suit)


PPO = (PROJECT / "templates" / "ppo.json").read_bytes()


def test_a_submission_assumes_nothing_about_gpus(shared: SharedRoot, replace: Callable[..., Any]) -> None:
    dev = replace(cluster_file.load("dev"), shared_root=str(shared.root))
    for folder in ("common/code", "datasets"):  # a toy's, where ppo needs verl's
        shutil.rmtree(shared.root / folder)
    assert "assumed" in submit.preview(PPO, "ppo.json", dev, {})[0].shape
    one = jobspec.with_overrides(PPO, "ppo.json", ["trainer.nnodes=1"])
    assert submit.preview(one, "ppo.json", dev, {})[0].shape.startswith(
        "1 node with 4 processes, by trainer_overrides; without them: 2 nodes with 4 processes each ("
    )
    with pytest.raises(Blocked, match="the GPUs of mvp-ray-worker-0 are not counted yet"):
        submit.prepare(PPO, "ppo.json", dev, {})


def test_a_cluster_whose_workers_have_no_gpu_has_no_plan(shared: SharedRoot, replace: Callable[..., Any]) -> None:
    dev = replace(cluster_file.load("dev"), shared_root=str(shared.root))
    for worker in dev.workers:
        (dev.state / worker.name).mkdir(parents=True)
        (dev.state / worker.name / "gpus.json").write_text('{"count": 0, "problem": "nvidia-smi not found on this host"}')
    with pytest.raises(Blocked, match="cluster 'dev': no worker has a GPU"):
        submit.preview(PPO, "ppo.json", dev, {})
