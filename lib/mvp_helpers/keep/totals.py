"""``57 --all``: how much the checkpoints of each job take. It reads names and sizes only, of thousands of jobs in a second."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..base import documents, files
from ..base.paths import SharedRoot
from ..base.terminal import columns
from ..base.times import moment_of
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
    jobs = f"{shared.jobs}/"
    for entry in _entries(jobs):
        if entry.name.startswith("."):
            continue
        # Strings: a thousand Path objects take as long as a tenth of the files' sizes.
        named = [(verl_checkpoints.step_of(each.name), each.path) for each in _entries(f"{entry.path}/checkpoints")]
        steps = [step for step, _ in named if step is not None]
        if not steps:
            continue
        sizes = [measured(path) for step, path in named if step is not None]
        found.append(
            Total(
                id=entry.name,
                state=_state(f"{entry.path}/result.json"),
                checkpoints=len(steps),
                newest_step=max(steps),
                bytes=sum(size for size, _ in sizes),
                saved_at=moment_of(max(saved_at for _, saved_at in sizes)),
            )
        )
    return sorted(found, key=lambda total: (-total.bytes, total.id))


class _State(msgspec.Struct):
    """What is read of a ``result.json``."""

    state: str


def _state(result: str) -> str:
    try:
        return msgspec.json.decode(files.read(Path(result), documents.MOST_BYTES), type=_State).state
    except (OSError, msgspec.MsgspecError):
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
