"""Which checkpoints are whole: folders laid out as verl leaves them, and every way of being cut short."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from saved_checkpoints import save, save_megatron

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.plan.workloads import load
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result
from mvp_helpers.trainers import verl_checkpoints
from mvp_helpers.trainers.checkpoint import Resume
from mvp_helpers.trainers.verl import Verl
from mvp_helpers.trainers.verl_checkpoints import RL, SFT, TRACKER


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return job_folder.claim(SharedRoot(tmp_path), Result(submission_id="a", workload="ppo", state="CLAIMED"))


def cut(path: Path, to: int = -1) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:to])


def test_the_newest_whole_checkpoint_is_taken(job: JobFolder) -> None:
    for step in (2, 9, 10):
        save(job.checkpoints, step)
    found = verl_checkpoints.last_whole(job, RL)
    assert found == Resume(submission_id="a", step=10, path=str(job.checkpoints / "global_step_10"), world_size=2)


def test_sft_keeps_everything_in_one_folder(job: JobFolder) -> None:
    save(job.checkpoints, 3, (".",), size=1)
    assert (verl_checkpoints.last_whole(job, SFT).step, verl_checkpoints.last_whole(job, SFT).world_size) == (3, 1)


def test_the_shipped_workloads_say_what_a_checkpoint_holds() -> None:
    assert (load("ppo").checkpoint, load("grpo").checkpoint, load("sft").checkpoint) == (RL, RL, SFT)


SHARD = "actor/optim_world_size_2_rank_1.pt"
BROKEN: list[tuple[str, Callable[[Path], Any], str]] = [
    ("killed before the first shard", lambda p: [shutil.rmtree(p), p.mkdir()], "actor/ is missing"),
    ("killed at the first shard", lambda p: [shutil.rmtree(p / "actor"), (p / "actor").mkdir()], "actor/ contains no weights"),
    ("a rank's optimiser missing", lambda p: (p / SHARD).unlink(), f"{SHARD} is missing"),
    ("a whole rank missing", lambda p: [f.unlink() for f in p.glob("*/*rank_1.pt")], "rank_1.pt is missing"),
    ("a shard cut by a byte", lambda p: cut(p / SHARD), f"{SHARD} is cut short or damaged ("),
    ("a shard cut in the middle", lambda p: cut(p / SHARD, 9000), f"{SHARD} is cut short or damaged (9000 bytes)"),
    ("an empty shard", lambda p: (p / SHARD).write_bytes(b""), f"{SHARD} is cut short or damaged (0 bytes)"),
    ("a shard of zeros", lambda p: (p / SHARD).write_bytes(bytes(20_000)), f"{SHARD} is cut short or damaged"),
    ("a folder for a shard", lambda p: [(p / SHARD).unlink(), (p / SHARD).mkdir()], "Is a directory"),
    ("no settings of FSDP", lambda p: (p / "actor/fsdp_config.json").unlink(), "actor/fsdp_config.json is missing"),
    ("half of them", lambda p: cut(p / "actor/fsdp_config.json", 9), "actor/fsdp_config.json is cut short or damaged"),
    ("no model config", lambda p: shutil.rmtree(p / "actor/huggingface"), "actor/huggingface/config.json is missing"),
    ("killed before the critic", lambda p: shutil.rmtree(p / "critic"), "critic/ is missing"),
    ("killed in the critic", lambda p: (p / "critic/extra_state_world_size_2_rank_0.pt").unlink(), "critic/extra_state"),
    ("killed before the data loader's state", lambda p: (p / "data.pt").unlink(), "data.pt is missing"),
    ("killed in it", lambda p: cut(p / "data.pt"), "data.pt is cut short or damaged"),
    (
        "killed before the tracker",
        lambda p: (p.parent / TRACKER).write_text("10"),
        f"{TRACKER}, which verl writes last, names step 10",
    ),
    ("killed in the tracker", lambda p: (p.parent / TRACKER).write_text(""), f"{TRACKER}, which verl writes last, names no step"),
    ("no tracker", lambda p: (p.parent / TRACKER).unlink(), f"{TRACKER}, which verl writes last, names no step or is missing"),
    (
        "shards of two world sizes",
        lambda p: shutil.copy(p / SHARD, p / "actor/optim_world_size_4_rank_3.pt"),
        "actor/ contains shards of 2 world sizes",
    ),
    (
        "settings of another world size",
        lambda p: (p / "actor/fsdp_config.json").write_text('{"world_size": 4}'),
        "actor/fsdp_config.json names 4 processes, but 2 wrote shards",
    ),
]


@pytest.mark.parametrize(("breaks", "why"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_checkpoint_cut_short_is_skipped_with_the_reason(job: JobFolder, breaks: Callable[[Path], Any], why: str) -> None:
    save(job.checkpoints, 10)
    breaks(save(job.checkpoints, 20))
    found = verl_checkpoints.last_whole(job, RL)
    assert found.step == 10
    assert len(found.skipped) == 1 and found.skipped[0].startswith("global_step_20 is not whole: ") and why in found.skipped[0]


def test_parts_of_two_world_sizes_are_no_checkpoint(job: JobFolder) -> None:
    path = save(job.checkpoints, 10, ("actor",))
    save(job.path / "other", 10, ("critic",), size=1)
    shutil.move(job.path / "other/global_step_10/critic", path)
    assert (
        verl_checkpoints.every(job.checkpoints, RL)[0].problem
        == "actor was written by 2 processes, critic was written by 1 processes"
    )


def test_a_job_without_a_critic_needs_none(job: JobFolder) -> None:
    save(job.checkpoints, 10, ("actor",))
    assert verl_checkpoints.last_whole(job, RL).step == 10


def test_without_any_whole_checkpoint_every_reason_is_told(job: JobFolder) -> None:
    with pytest.raises(BadInput, match="has no whole checkpoint to resume: nothing in"):
        verl_checkpoints.last_whole(job, RL)
    for step in (1, 2):
        (save(job.checkpoints, step) / "data.pt").unlink()
    with pytest.raises(BadInput, match=r"global_step_2 is not whole: data.pt is missing; global_step_1 is not whole"):
        verl_checkpoints.last_whole(job, RL)


def test_what_only_looks_like_a_checkpoint_is_none(job: JobFolder) -> None:
    save(job.checkpoints, 5).rename(job.checkpoints / "global_step_5.old")
    (job.checkpoints / "latest_checkpointed_iteration.txt").write_text("5")
    assert verl_checkpoints.every(job.checkpoints, RL) == []


def test_a_file_where_a_checkpoint_should_be_is_none(job: JobFolder) -> None:
    (job.checkpoints / "global_step_3").write_text("")
    assert verl_checkpoints.every(job.checkpoints) == []


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_files_of_torch_are_whole_and_every_cut_of_them_is_noticed(job: JobFolder) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    path = save_megatron(job.checkpoints, 1)
    shards = path / "actor/optimizer/dist_ckpt"
    shutil.rmtree(shards)
    dcp.save({"a": torch.arange(5000.0), "b": {"c": 3}}, checkpoint_id=shards, no_dist=True)
    torch.save({"weight": torch.arange(5000.0)}, path / "data.pt")
    assert verl_checkpoints.problem(job.path, 1) == ""
    for file in (shards / "__0_0.distcp", path / "data.pt"):
        whole = file.read_bytes()
        for length in (0, 100, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:length])
            assert file.name in verl_checkpoints.problem(job.path, 1), (file.name, length)
        file.write_bytes(whole)
    assert verl_checkpoints.problem(job.path, 1) == ""


def test_the_layout_is_recognised_where_nobody_names_it(job: JobFolder, tmp_path: Path) -> None:
    save(job.checkpoints, 3, (".",), size=1)
    assert [(found.world_size, found.problem) for found in verl_checkpoints.every(job.checkpoints)] == [(1, "")]
    (job.checkpoints / "global_step_3/data_0.pt").unlink()
    assert verl_checkpoints.every(job.checkpoints)[0].problem == "data_0.pt is missing"
    rl = tmp_path / "rl"
    (save(rl, 3) / "data.pt").unlink()
    assert verl_checkpoints.every(rl)[0].problem == "data.pt is missing"


# Megatron.


def test_a_checkpoint_of_megatron_is_whole_and_says_how_many_processes_wrote_it(job: JobFolder) -> None:
    save_megatron(job.checkpoints, 2, ("actor", "critic"))
    assert [(found.world_size, found.problem) for found in verl_checkpoints.every(job.checkpoints, RL)] == [(8, "")]


def older(folder: Path) -> Path:
    """Save step 2 as older versions do with Megatron: no manifest, all kinds but Hugging Face's in dist_ckpt/."""
    path = save_megatron(folder, 2)
    (path / "actor/ckpt_contents.json").unlink()
    (path / "actor/optimizer/dist_ckpt").rename(path / "actor/dist_ckpt")
    (path / "actor/model/huggingface").rename(path / "actor/huggingface")
    for name in ("model", "optimizer", "extra"):
        shutil.rmtree(path / "actor" / name)
    return path / "actor"


def test_an_older_megatron_layout_without_a_manifest_is_whole(job: JobFolder) -> None:
    older(job.checkpoints)
    assert [(found.world_size, found.problem) for found in verl_checkpoints.every(job.checkpoints, RL)] == [(0, "")]


def test_an_older_layout_without_the_weights_is_not_whole_unless_megatron_keeps_them(job: JobFolder) -> None:
    actor = older(job.checkpoints)
    weights = actor / "adapter_checkpoint"
    weights.mkdir()
    for file in (actor / "huggingface").glob("model*"):
        file.rename(weights / file.name)

    def problem(in_dist_ckpt: bool) -> str:
        trained = {
            "checkpoint": {"save_contents": ["model", "optimizer"]},
            "megatron": {"use_dist_checkpointing": in_dist_ckpt},
        }
        return Verl().checkpoint_problem(job.path, 2, {"actor_rollout_ref": {"actor": trained}})

    assert problem(False) == "", "LoRA: the adapters alone"
    shutil.rmtree(weights)
    assert problem(False).endswith("global_step_2 is not whole: actor/huggingface contains no weights")
    assert problem(True) == ""


HF = "actor/model/huggingface"
MEGATRON: list[tuple[str, Callable[[Path], Any], str]] = [
    ("no manifest", lambda p: (p / "actor/ckpt_contents.json").unlink(), "actor/ckpt_contents.json is missing"),
    ("half a manifest", lambda p: cut(p / "actor/ckpt_contents.json", 9), "actor/ckpt_contents.json is cut short"),
    ("a manifest of another shape", lambda p: (p / "actor/ckpt_contents.json").write_text('{"contents": [1]}'), "is damaged"),
    ("no optimiser", lambda p: shutil.rmtree(p / "actor/optimizer"), "actor/optimizer/dist_ckpt is missing"),
    ("a cut common.pt", lambda p: cut(p / "actor/extra/dist_ckpt/common.pt", 100), "common.pt is cut short"),
    ("a cut shard", lambda p: cut(p / "actor/extra/dist_ckpt/__0_0.distcp", 100), "__0_0.distcp is cut short"),
    ("an empty shard", lambda p: cut(p / "actor/extra/dist_ckpt/__0_0.distcp", 0), "__0_0.distcp is empty"),
    (
        "no metadata",
        lambda p: [(p / "actor/extra/dist_ckpt" / name).unlink() for name in ("metadata.json", ".metadata")],
        "actor/extra/dist_ckpt has no metadata",
    ),
    ("a shard missing", lambda p: (p / "actor/extra/dist_ckpt/__0_0.distcp").unlink(), "extra/dist_ckpt/__0_0.distcp is missing"),
    ("cut metadata", lambda p: cut(p / "actor/extra/dist_ckpt/.metadata"), "extra/dist_ckpt/.metadata is cut short"),
    ("no pickled metadata", lambda p: (p / "actor/extra/dist_ckpt/.metadata").unlink(), "dist_ckpt/.metadata is missing"),
    ("no model config", lambda p: (p / HF / "config.json").unlink(), "model/huggingface/config.json is missing"),
    ("cut weights", lambda p: cut(p / HF / "model-1-of-1.safetensors", 100), "model-1-of-1.safetensors is cut short"),
    ("cut header", lambda p: cut(p / HF / "model-1-of-1.safetensors", 20), "model-1-of-1.safetensors is cut short"),
    ("missing weights", lambda p: (p / HF / "model-1-of-1.safetensors").unlink(), "names model-1-of-1.safetensors, which is"),
    (
        "no weights and no index",
        lambda p: [path.unlink() for path in (p / HF).glob("model*")],
        "actor/model/huggingface contains no weights",
    ),
    ("no data", lambda p: (p / "data.pt").unlink(), "data.pt is missing"),
    ("another step", lambda p: (p.parent / TRACKER).write_text("1"), "names step 1"),
]


@pytest.mark.parametrize(("breaks", "why"), [case[1:] for case in MEGATRON], ids=[case[0] for case in MEGATRON])
def test_a_checkpoint_of_megatron_cut_short_is_noticed(job: JobFolder, breaks: Callable[[Path], Any], why: str) -> None:
    breaks(save_megatron(job.checkpoints, 2))
    assert why in verl_checkpoints.every(job.checkpoints, RL)[0].problem
    assert why in verl_checkpoints.problem(job.path, 2)


def test_a_critic_cut_short_is_noticed_when_no_other_checkpoint_has_one(job: JobFolder) -> None:
    path = save_megatron(job.checkpoints, 2, ("actor", "critic"))
    (path / "critic/ckpt_contents.json").unlink()
    assert verl_checkpoints.every(job.checkpoints, RL)[0].problem == "critic/ckpt_contents.json is missing"


# One step, wherever it is.


def test_a_step_is_found_below_a_folder_by_its_tracker(tmp_path: Path) -> None:
    save(tmp_path / "verl-test/qwen", 4)
    assert verl_checkpoints.problem(tmp_path, 4) == ""
    assert verl_checkpoints.problem(tmp_path, 5) == f"no checkpoint of step 5: {tmp_path}/verl-test/qwen/{TRACKER} names step 4"
    save(tmp_path / "verl-test/qwen", 5)
    assert "names step 5" in verl_checkpoints.problem(tmp_path, 4), "verl would go on from step 5"
    shutil.rmtree(tmp_path / "verl-test/qwen/global_step_5")
    assert verl_checkpoints.problem(tmp_path, 5).endswith("global_step_5 is missing")
    assert verl_checkpoints.problem(tmp_path / "none", 4) == f"no checkpoint of step 4: no {TRACKER} below {tmp_path}/none"


@pytest.mark.parametrize(
    ("overrides", "kept"),
    [
        ({}, None),
        ({"trainer.max_actor_ckpt_to_keep": "2", "trainer.max_critic_ckpt_to_keep": "1"}, 1),
        ({"trainer.max_actor_ckpt_to_keep": "null"}, None),
        ({"trainer.max_ckpt_to_keep": "0"}, None),
    ],
)
def test_retention_is_read_from_the_overrides(overrides: dict[str, str], kept: int | None) -> None:
    assert verl_checkpoints.kept(overrides) == kept
