"""Keeps a training going whose rollouts cannot be written: verl raises that in the training's own loop, a step later."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from .imports import after_import

TRAINERS = {"verl.trainer.ppo.v1.trainer_base": "PPOTrainer", "verl.trainer.ppo.ray_trainer": "RayPPOTrainer"}
"""The modules whose trainers write rollouts in a thread of their own, and the class."""


def arm() -> None:
    """Hook each trainer as the last part of its import."""
    for module in TRAINERS:
        after_import(module, _hook)


def _hook(module: ModuleType) -> None:
    trainer: Any = getattr(module, TRAINERS[module.__name__], None)
    write = vars(trainer).get("_write_generations") if trainer else None
    if not isinstance(write, staticmethod):  # another version writes them elsewhere
        return

    @functools.wraps(write.__func__)
    def tried(*args: Any, **kwargs: Any) -> None:
        try:
            write.__func__(*args, **kwargs)
        except Exception as error:  # a ground truth that JSON cannot express, a full disk
            what = f"{type(error).__name__}: {error}"
            print(f"MVP_WARNING: the rollouts of a step are not kept: {what}", file=sys.stderr, flush=True)

    trainer._write_generations = staticmethod(tried)
