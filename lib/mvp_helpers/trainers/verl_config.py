"""verl's config keys that the toolkit reads: the size of a job, its schedule, what it resumes, who calls its reward function."""

from __future__ import annotations

from typing import Any

import msgspec

from ..base.errors import BadInput
from . import hydra
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
LOGGER, FILE_LOGGER = "trainer.logger", "file"
"""The loggers, and the one that writes the job's ``metrics.jsonl``."""
RUN_NAME = "trainer.experiment_name"

SAVE_WORDS = ("after_each_epoch",)
"""What SFT takes instead of a number."""
MOST, MOST_PROCESSES = 10**9, 10_000
"""Bounds of numbers that the plan computes with, above every real job."""
SHOWN = 80

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
    save_freq = None if select(config, SAVE_FREQ) in SAVE_WORDS else number(config, SAVE_FREQ, origin, least=-1)
    if save_freq == 0:
        raise BadInput(f"{origin}: {SAVE_FREQ} must not be 0", hint="-1 saves nothing")
    return Settings(
        nnodes=number(config, NNODES, origin, most=MOST_PROCESSES),
        processes_per_node=number(config, PROCESSES_PER_NODE, origin, most=MOST_PROCESSES),
        save_freq=save_freq,
        train_batch_size=number(config, TRAIN_BATCH_SIZE, origin),
        total_epochs=number(config, TOTAL_EPOCHS, origin),
        total_training_steps=number(config, TOTAL_TRAINING_STEPS, origin),
    )


def number(config: dict[str, Any], key: str, origin: str, *, least: int = 1, most: int = MOST) -> int | None:
    """Return the whole number at a key of a composed config; None where it has none.

    Raises BadInput, beginning with ``origin``, for anything else: the plan computes with it before the trainer sees it.
    """
    value = select(config, key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        hint = "write the number itself" if isinstance(value, str) and "${" in value else ""
        raise BadInput(f"{origin}: {key} must be a whole number from {least} to {most}, not {_short(value)}", hint=hint)
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def loggers(config: dict[str, Any]) -> list[str] | None:
    """Return the loggers that a composed config names; None where that cannot be known, or verl would not understand them."""
    named = select(config, LOGGER)
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, list) or not all(isinstance(name, str) and "${" not in name for name in names):
        return None
    return names


def with_loggers(names: list[str]) -> str:
    """Return the override that sets these loggers."""
    return hydra.texts({LOGGER: names}, LOGGER)[0]


def training_files(config: dict[str, Any]) -> list[str]:
    """Return the files whose rows verl trains on; none where the config leaves that to a class of the user's."""
    files = select(config, TRAIN_FILES)
    if not files or select(config, CUSTOM_DATASET):
        return []
    return [str(file) for file in (files if isinstance(files, list) else [files])]


def most_rows(config: dict[str, Any], origin: str) -> int | None:
    """Return how many of these rows verl uses at most; None for all. Raises BadInput as ``number``."""
    most = number(config, TRAIN_MAX_SAMPLES, origin, least=-1)
    return most if most and most > 0 else None


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
