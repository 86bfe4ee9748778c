"""Checkpoints that cannot fit are refused before the job starts; those that may not all fit are a warning."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from mvp_helpers.base.errors import Blocked
from mvp_helpers.job import submit
from mvp_helpers.plan import disk
from mvp_helpers.plan.disk import Checkpoints
from mvp_helpers.trainers import verl_checkpoint_size

GIB = 1 << 30
SHAPES = {"model.embed_tokens.weight": [100, 8], "model.norm.weight": [8], "lm_head.weight": [100, 8]}


def write_weights(folder: Path, shapes: dict[str, list[int]] = SHAPES) -> Path:
    """Write a model folder with the headers of these tensors, and no tensors."""
    folder.mkdir(parents=True)
    entries = {name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    header = json.dumps({"__metadata__": {"format": "pt"}, **entries}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return folder


def rl(model: Path, *, critic: bool = True, **trainer: Any) -> dict[str, Any]:
    contents = {"save_contents": ["model", "optimizer", "extra"]}
    return {
        "algorithm": {"adv_estimator": "gae" if critic else "grpo"},
        "actor_rollout_ref": {
            "model": {"path": str(model), "lora_rank": 0},
            "actor": {"strategy": "fsdp", "fsdp_config": {"model_dtype": "fp32"}, "checkpoint": contents},
        },
        "critic": {"model": {"path": str(model)}, "fsdp": {"model_dtype": "fp32"}, "checkpoint": contents},
        "trainer": {"save_freq": 10, **trainer},
    }


def sft(model: Path, **checkpoint: Any) -> dict[str, Any]:
    return {
        "model": {"path": str(model)},
        "engine": {"model_dtype": "fp32"},
        "checkpoint": {"save_contents": ["model", "optimizer", "extra"], **checkpoint},
        "trainer": {"save_freq": 10, "max_ckpt_to_keep": 3},
    }


def estimate(config: dict[str, Any], free: int = 0) -> Checkpoints | None:
    return disk.estimate(config, free, 1, lambda: 100)


def test_a_checkpoint_has_the_model_and_both_states_of_adam_of_actor_and_critic(tmp_path: Path) -> None:
    model = write_weights(tmp_path / "m")
    actor, critic = 12 * 1608, 12 * 808  # the critic has no lm_head
    both = estimate(rl(model))
    assert both is not None and both.bytes_each == actor + critic
    alone = estimate(rl(model, critic=False))
    assert alone is not None and alone.bytes_each == actor
    supervised = estimate(sft(model))
    assert supervised is not None and supervised.bytes_each == actor and supervised.kept == 3


def test_what_is_saved_and_in_which_type_changes_the_size(tmp_path: Path) -> None:
    model = write_weights(tmp_path / "m")
    config = sft(model, save_contents=["model", "hf_model"])
    assert verl_checkpoint_size.bytes_per_parameter(config, "") == 8
    config["engine"]["model_dtype"] = "bf16"
    assert verl_checkpoint_size.bytes_per_parameter(config, "") == 4
    adapters = rl(model, critic=False)
    adapters["actor_rollout_ref"]["model"]["lora_rank"] = 16
    assert verl_checkpoint_size.bytes_per_parameter(adapters, "actor_rollout_ref.actor") == 4
    adapters["actor_rollout_ref"]["model"]["lora_rank"] = 0
    adapters["actor_rollout_ref"]["actor"]["strategy"] = "megatron"
    assert verl_checkpoint_size.bytes_per_parameter(adapters, "actor_rollout_ref.actor") == 14


def test_older_weight_files_count_by_their_size_and_type(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"torch_dtype": "bfloat16"}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"\0" * 2000)
    assert disk.count_parameters(tmp_path) == 1000


@pytest.mark.parametrize(
    ("save_freq", "steps", "first", "saves"),
    [(10, 100, 1, 10), (10, 95, 1, 10), (10, 95, 41, 6), (10, None, 1, None), (-1, 100, 1, 0)],
)
def test_the_last_step_is_saved_too(tmp_path: Path, save_freq: int, steps: int | None, first: int, saves: int) -> None:
    assert verl_checkpoint_size.saves(rl(tmp_path, save_freq=save_freq), steps, first) == saves


def test_a_job_that_saves_nothing_needs_no_space(tmp_path: Path) -> None:
    model = write_weights(tmp_path / "m")
    assert estimate(rl(model, save_freq=-1)) is None
    assert estimate({"trainer": {"save_freq": 10}}) is None, "not a config of verl"
    supervised = sft(model)
    supervised["trainer"]["save_freq"] = -1
    last = estimate(supervised)
    assert last is not None and last.saves == 1, "SFT saves its last step in any case"


def test_steps_are_counted_only_where_their_number_can_matter(tmp_path: Path) -> None:
    model = write_weights(tmp_path / "m")
    counted: list[int] = []

    def steps() -> int:
        counted.append(1)
        return 100

    assert disk.estimate(rl(model), 1 << 40, 1, steps) and not counted, "a thousand checkpoints fit"
    assert disk.estimate(rl(model, max_actor_ckpt_to_keep=3), 0, 1, steps) and not counted, "three are kept"
    every = disk.estimate(rl(model), 0, 1, steps)
    assert every is not None and every.saves == 10 and counted


@pytest.mark.parametrize(("kept", "saves", "at_once"), [(3, 10, 3), (3, 2, 2), (1, 10, 2), (None, 7, 7), (3, None, 3)])
def test_while_one_is_written_the_kept_ones_are_still_there(kept: int | None, saves: int | None, at_once: int) -> None:
    assert Checkpoints(bytes_each=1, saves=saves, kept=kept).at_once == at_once


def test_one_that_does_not_fit_is_refused_with_the_numbers() -> None:
    large = Checkpoints(bytes_each=90 * GIB, saves=10, kept=3)
    disk.check(large, 90 * GIB, "/private")
    disk.check(None, 0, "/private")
    assert disk.free("/no/such/folder") is None
    disk.check(large, None, "/private")
    with pytest.raises(Blocked, match=r"one checkpoint of this job needs about 90\.0 GiB; 40\.0 GiB are free at /private"):
        disk.check(large, 40 * GIB, "/private")


def test_those_that_may_not_all_fit_are_a_warning_with_the_numbers() -> None:
    three = Checkpoints(bytes_each=90 * GIB, saves=10, kept=3)
    assert disk.warning(three, 270 * GIB, "/private") == ""
    assert disk.warning(None, 0, "/private") == disk.warning(three, None, "/private") == ""
    assert disk.warning(three, 269 * GIB, "/private") == (
        "checkpoints may not all fit: about 90.0 GiB each, verl keeps the newest 3; 3 at once need 270.0 GiB; "
        "269.0 GiB are free at /private"
    )
    rare = Checkpoints(bytes_each=1 << 20, saves=None, kept=None)
    assert disk.warning(rare, 1000 << 20, "/private") == "", "a thousand fit"
    endless = Checkpoints(bytes_each=90 * GIB, saves=None, kept=None)
    assert "keeps all of them; their number is not known, 2 fit" in disk.warning(endless, 200 * GIB, "/private")


def test_the_submission_looks_before_it_asks_ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import msgspec
    from toys import plan_of

    planned = msgspec.structs.replace(plan_of("job1", tmp_path), checkpoints=Checkpoints(bytes_each=1 << 60, saves=1, kept=3))
    with pytest.raises(Blocked, match="one checkpoint of this job needs about"):
        submit._examine(planned, None, None)  # type: ignore[arg-type]
