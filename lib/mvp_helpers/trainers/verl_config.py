"""verl's config keys that the toolkit reads: the size of a job, its schedule, what it resumes, who calls its reward function."""

from __future__ import annotations

from typing import Any

import msgspec

from ..base.errors import BadInput
from .hydra import select

NNODES = "trainer.nnodes"
PROCESSES_PER_NODE = "trainer.n_gpus_per_node"
SAVE_FREQ = "trainer.save_freq"
TOTAL_EPOCHS = "trainer.total_epochs"
TOTAL_TRAINING_STEPS = "trainer.total_training_steps"
TRAIN_BATCH_SIZE = "data.train_batch_size"
TRAIN_FILES = "data.train_files"
TRAIN_MAX_SAMPLES = "data.train_max_samples"
CUSTOM_DATASET = "data.custom_cls.path"

REWARD_MANAGERS = ("reward_model.reward_manager", "reward.reward_manager.name")
"""Keys that name the reward manager; the older one wins."""
REWARD_FUNCTION = "custom_reward_function"
REWARD_MODEL = "reward.reward_model.enable"
REWARD_KWARGS = "reward_kwargs"
"""In the option that names the reward function: further arguments of each call."""
ONE_BY_ONE = frozenset({"naive", "dapo", "gdpo", "rate_limited", "remote"})
"""Reward managers that call the reward function once for each answer. Others (batch, prime, a user's own) call it differently."""

STEP_FOLDER = "global_step_"
"""verl takes the step to resume from the text after it in ``trainer.resume_from_path``."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a composed config says about the size and the schedule of a job; None where it says nothing."""

    nnodes: int | None = None
    processes_per_node: int | None = None
    save_freq: int | None = None
    train_batch_size: int | None = None
    total_epochs: int | None = None
    total_training_steps: int | None = None


def settings(config: dict[str, Any], origin: str) -> Settings:
    """Read the settings of a composed config. Raises BadInput (beginning with ``origin``) for values that verl cannot use."""
    save_freq = select(config, SAVE_FREQ)
    return Settings(
        nnodes=_number(config, NNODES, 1, origin),
        processes_per_node=_number(config, PROCESSES_PER_NODE, 1, origin),
        save_freq=save_freq if _whole(save_freq) else None,  # SFT also takes "after_each_epoch"
        train_batch_size=_number(config, TRAIN_BATCH_SIZE, 1, origin),
        total_epochs=_number(config, TOTAL_EPOCHS, None, origin),
        total_training_steps=_number(config, TOTAL_TRAINING_STEPS, None, origin),
    )


def _number(config: dict[str, Any], key: str, least: int | None, origin: str) -> int | None:
    value = select(config, key)
    if value is None:
        return None
    if not _whole(value) or (least is not None and value < least):
        kind = "a whole number" if least is None else f"a whole number of at least {least}"
        raise BadInput(f"{origin}: {key} must be {kind}, not {value!r}")
    return int(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def training_files(config: dict[str, Any]) -> list[str]:
    """Return the files whose rows verl trains on; none where the config leaves that to a class of the user's."""
    files = select(config, TRAIN_FILES)
    if not files or select(config, CUSTOM_DATASET):
        return []
    return [str(file) for file in (files if isinstance(files, list) else [files])]


def most_rows(config: dict[str, Any]) -> int | None:
    """Return how many of these rows verl uses at most; None for all."""
    most = select(config, TRAIN_MAX_SAMPLES)
    return most if _whole(most) and most > 0 else None


def steps_total(
    total_training_steps: int | None, total_epochs: int | None, train_batch_size: int | None, rows: int | None
) -> int | None:
    """Count the optimiser steps from the first: verl's own limit, or whole batches of the training rows times epochs.

    None where the config leaves it open.
    """
    if total_training_steps:
        return total_training_steps
    if not (train_batch_size and total_epochs) or rows is None:
        return None
    return rows // train_batch_size * total_epochs


def reward_option(path: str, name: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the config that names a reward function, for every version of verl: older ones have the option at the top."""
    option = {REWARD_FUNCTION: {"path": path, "name": name, REWARD_KWARGS: kwargs}}
    return {"reward": option, **option}


def calls_reward_one_by_one(config: dict[str, Any]) -> bool:
    """Tell whether verl calls the reward function once for each answer, with the documented arguments."""
    manager = next((name for key in REWARD_MANAGERS if (name := select(config, key))), None)
    return manager in (None, *ONE_BY_ONE) and not select(config, REWARD_MODEL)


def misreads_step(checkpoint: str) -> bool:
    """Tell whether verl would read the wrong step from the path of a checkpoint: the marker must be in it exactly once."""
    return checkpoint.count(STEP_FOLDER) != 1
