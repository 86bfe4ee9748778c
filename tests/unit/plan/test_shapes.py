"""What verl is told on one, two, four and eight GPUs: composed with its real config and compared with a reviewed file each.

``make plans`` writes the files anew; read the difference before you commit it.
"""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from toys import write_model, write_parquet

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster import cluster_file, shape
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.cluster.gpus import Gpu, GpuFacts
from mvp_helpers.plan import compose, planning, resolve
from mvp_helpers.plan.compose import Composed
from mvp_helpers.plan.plan import Plan
from mvp_helpers.prepare import snapshot
from mvp_helpers.trainers.hydra import key_of, select

REVIEWED = Path(__file__).parent / "shapes"
WORKERS = {1: (1, 0), 2: (1, 1), 4: (2, 2), 8: (4, 4)}
"""GPUs of the two workers of ``dev``, by the GPUs of the machine."""
SIZE = ["trainer.nnodes", "trainer.n_gpus_per_node", "trainer.device", "data.train_batch_size"]
SAFE = ["trainer.logger", "trainer.resume_mode", "trainer.save_freq", "trainer.total_epochs", "trainer.test_freq"]
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
RL = [
    *("data.max_prompt_length", "data.max_response_length", "algorithm.adv_estimator"),
    *(f"{ACTOR}.{key}" for key in ("ppo_mini_batch_size", "ppo_micro_batch_size_per_gpu", "use_dynamic_bsz", "strategy")),
    *(f"{ACTOR}.fsdp_config.{key}" for key in ("param_offload", "optimizer_offload", "model_dtype")),
    *(f"{ROLLOUT}.{key}" for key in ("name", "n", "tensor_model_parallel_size", "gpu_memory_utilization", "free_cache_engine")),
    *(f"{ROLLOUT}.{key}" for key in ("n_gpus_per_node", "nnodes", "log_prob_micro_batch_size_per_gpu")),
    *("actor_rollout_ref.model.enable_gradient_checkpointing", "actor_rollout_ref.model.use_remove_padding"),
]
CRITIC = ["critic.ppo_mini_batch_size", "critic.ppo_micro_batch_size_per_gpu", "critic.strategy", "critic.fsdp.optimizer_offload"]
SFT = ["data.micro_batch_size_per_gpu", "data.use_dynamic_bsz", "data.max_token_len_per_gpu", "data.max_length"]
SFT += ["engine.strategy", "engine.optimizer_offload", "engine.model_dtype", "model.enable_gradient_checkpointing"]
KEYS = {"ppo": [*SIZE, *RL, *CRITIC, *SAFE], "grpo": [*SIZE, *RL, *SAFE], "sft": [*SIZE, *SFT, *SAFE]}

CASES = pytest.mark.parametrize(("workload", "gpus"), [(workload, gpus) for workload in KEYS for gpus in WORKERS])


@pytest.fixture
def dev(shared: SharedRoot, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster ``dev`` over a shared root with verl's real config, data that fill a batch, and a model; with vLLM."""
    monkeypatch.setattr(resolve, "installed", lambda package: True)
    verl = Path(find_spec("verl").submodule_search_locations[0])  # type: ignore[union-attr,index]
    source = shared.root.parent / "verl-config"
    shutil.copytree(verl / "trainer" / "config", source / "verl" / "trainer" / "config", ignore=shutil.ignore_patterns("*.py*"))
    (source / "verl" / "__init__.py").write_text("")
    snapshot.snapshot(snapshot.Source(path=source), shared, "verl-config")
    for name, val in (("gsm8k", "test"), ("gsm8k_sft", "val")):
        (shared.root / "datasets" / name).mkdir(exist_ok=True)
        write_parquet(shared.root / "datasets" / name / "train.parquet", rows=7473)
        write_parquet(shared.root / "datasets" / name / f"{val}.parquet", rows=20)
    write_model(shared.root / "common" / "models" / "default")
    located = cluster_file.load("dev", {"mvp-ray-head": "172.18.0.2"})
    return msgspec.structs.replace(located, shared_root=str(shared.root))


@pytest.fixture
def planned(dev: Cluster, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Plan, Composed]]:
    """Plan a template on a machine with so many GPUs, as 00 or 01 counted them; return the plan and what it composed."""
    made: list[Composed] = []
    real = compose.compose

    def recording(*arguments: Any, **options: Any) -> Composed:
        made.append(real(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(compose, "compose", recording)

    def plan(workload: str, gpus: int) -> tuple[Plan, Composed]:
        for worker, count in zip(dev.workers, WORKERS[gpus], strict=True):
            cards = [Gpu(str(index), f"GPU-{index}", "NVIDIA L4", "23034 MiB") for index in range(count)]
            shape.record(dev, worker.name, GpuFacts(gpus=cards))
        spec = PROJECT / "templates" / f"{workload}.json"
        return planning.make(spec.read_bytes(), spec.name, dev), made[-1]

    return plan


def per_gpu(workload: str, config: dict[str, Any], world: int) -> dict[str, float]:
    """Return the arithmetic of one step on each GPU; whole numbers where nothing is left over."""
    if workload == "sft":
        return {"conversations": config["data"]["train_batch_size"] / world}
    answers = select(config, f"{ROLLOUT}.n") / world
    mini, micro = (select(config, f"{ACTOR}.{key}") for key in ("ppo_mini_batch_size", "ppo_micro_batch_size_per_gpu"))
    numbers = {
        "answers": config["data"]["train_batch_size"] * answers,
        "answers of a mini batch": mini * answers,
        "micro batches of a mini batch": mini * answers / micro,
        "micro batches of log_prob": config["data"]["train_batch_size"]
        * answers
        / select(config, f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu"),
    }
    if workload == "ppo":
        numbers["micro batches of the critic's mini batch"] = (
            select(config, "critic.ppo_mini_batch_size") * answers / select(config, "critic.ppo_micro_batch_size_per_gpu")
        )
    return numbers


@CASES
def test_what_verl_is_told_on_so_many_gpus_is_what_was_reviewed(
    planned: Callable[..., tuple[Plan, Composed]], workload: str, gpus: int, request: pytest.FixtureRequest
) -> None:
    plan, composed = planned(workload, gpus)
    config = composed.config
    shares = {name: int(number) if number == int(number) else number for name, number in per_gpu(workload, config, gpus).items()}
    document = {
        "shape": plan.shape,
        "nnodes": plan.nnodes,
        "processes_per_node": plan.processes_per_node,
        "cpus_per_process": plan.cpus_per_process,
        "steps": plan.steps_total(),
        "argv": [*plan.argv[:3], "..."],
        "checkpoints": next(text for text in plan.overrides if key_of(text) == "trainer.default_local_dir"),
        "config": {key: select(config, key) for key in KEYS[workload]},
        "per GPU and step": shares,
    }
    text = yaml.dump(document, sort_keys=False, width=130).replace(plan.job_folder, "JOB_FOLDER")
    file = REVIEWED / f"{workload}-{gpus}.yaml"
    if request.config.getoption("--write-plans"):
        file.write_text(text)
    difference = difflib.unified_diff(file.read_text().splitlines(), text.splitlines(), str(file), "this plan", lineterm="")
    assert file.read_text() == text, "\n".join([*difference, "make plans writes the reviewed files anew"])


@CASES
def test_a_plan_keeps_what_holds_on_any_number_of_gpus(
    planned: Callable[..., tuple[Plan, Composed]], workload: str, gpus: int
) -> None:
    plan, composed = planned(workload, gpus)
    config = composed.config
    assert plan.world_size == gpus == config["trainer"]["nnodes"] * config["trainer"]["n_gpus_per_node"]
    assert all(number == int(number) > 0 for number in per_gpu(workload, config, gpus).values())
    assert config["trainer"]["logger"] == ["console", "file"] and not any("wandb" in text for text in plan.argv)
    assert config["trainer"]["resume_mode"] == "disable" and plan.resume is None
    assert f"trainer.default_local_dir={plan.job_folder}/checkpoints" in plan.overrides
    assert config["trainer"]["device"] == ("cpu" if workload == "sft" else "cuda")
    assert "on 1, 2, 4 or 8 GPUs of 24, 40 or 80 GB" in plan.defaults_suit
    if workload != "sft":
        assert 0 < select(config, f"{ROLLOUT}.gpu_memory_utilization") <= 0.4
        assert gpus % select(config, f"{ROLLOUT}.tensor_model_parallel_size") == 0


def test_there_is_one_reviewed_file_for_each_case() -> None:
    assert {file.stem for file in REVIEWED.iterdir()} == {f"{workload}-{gpus}" for workload in KEYS for gpus in WORKERS}
