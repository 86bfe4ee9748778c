"""``57 --all``: how much the checkpoints of each job take. It reads names and sizes only, of thousands of jobs in a second."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..base.errors import BadInput
from ..base.paths import JobFolder, SharedRoot
from ..base.terminal import columns
from ..base.times import moment_of
from ..record import job_folder
from ..trainers import verl_checkpoints
from .sizes import age, measured, shown_size


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """All checkpoints of one job. Nothing is looked into: a total does not say whether they are whole."""

    id: str
    state: str
    checkpoints: int
    newest_step: int
    bytes: int
    saved_at: str


def totals(shared: SharedRoot) -> list[Total]:
    """Return the totals of all jobs that have checkpoints, the largest first. Reads no checkpoint, only names and sizes."""
    found = []
    for entry in _entries(shared.jobs):
        if entry.name.startswith("."):
            continue
        folder = JobFolder(Path(entry.path))
        named = [(verl_checkpoints.step_of(each.name), each.path) for each in _entries(folder.checkpoints)]
        steps = [step for step, _ in named if step is not None]
        if not steps:
            continue
        sizes = [measured(path) for step, path in named if step is not None]
        found.append(
            Total(
                id=entry.name,
                state=_state(folder),
                checkpoints=len(steps),
                newest_step=max(steps),
                bytes=sum(size for size, _ in sizes),
                saved_at=moment_of(max(saved_at for _, saved_at in sizes)),
            )
        )
    return sorted(found, key=lambda total: (-total.bytes, total.id))


def _state(folder: JobFolder) -> str:
    try:
        return job_folder.read(folder).state
    except BadInput:
        return "DAMAGED"


def _entries(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # missing, removed meanwhile, or not a folder
        return []


def table(listed: Sequence[Total], width: int) -> str:
    """Return the totals for people, with their sum at the end."""
    cells = [
        [each.id, each.state, str(each.checkpoints), str(each.newest_step), shown_size(each.bytes), age(each.saved_at)]
        for each in listed
    ]
    count, size = sum(each.checkpoints for each in listed), sum(each.bytes for each in listed)
    cells.append([f"{len(listed)} jobs", "", str(count), "", shown_size(size), ""])
    return "\n".join(columns(["JOB", "STATE", "CHECKPOINTS", "NEWEST", "SIZE", "AGE"], cells, width, colour=False))
