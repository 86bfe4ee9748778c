"""A checkpoint as the toolkit handles it, whichever trainer wrote it. Each trainer's module decides when one is whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec


@dataclass(frozen=True)
class Checkpoint:
    """One step's checkpoint."""

    step: int
    path: Path
    world_size: int = 0
    """Trainer processes that wrote it; 0 when it does not say."""
    problem: str = ""
    """Why it is not whole; "" when it is."""


class CheckpointLayout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a whole checkpoint of a workload contains at least."""

    parts: Annotated[list[str], msgspec.Meta(min_length=1)]
    """Folders with the state of a model, written by every trainer process ("." is the checkpoint's own folder)."""
    files: list[str] = []
    """Other archives of ``torch.save``."""


class Resume(msgspec.Struct, frozen=True, kw_only=True):
    """What a job resumes; ``skipped`` says for each newer checkpoint why it was not taken."""

    submission_id: str
    step: int
    path: str
    world_size: int
    skipped: list[str] = []
