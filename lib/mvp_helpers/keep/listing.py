"""Script 57: the checkpoints of a job or of its chain, each with what is known about it; and the totals of all jobs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..base.errors import BadInput
from ..base.paths import JobFolder, SharedRoot
from ..base.terminal import columns
from ..base.times import clock, moment_of, seconds_of
from ..plan import plan, workloads
from ..record import chain as chains
from ..record import job_folder
from ..trainers import verl_checkpoints
from ..trainers.checkpoint import CheckpointLayout
from .resumers import Resumer


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint."""

    id: str
    step: int
    path: str
    whole: bool
    problem: str
    """Why it is not whole; "" when it is."""
    bytes: int
    saved_at: str
    resumed_by: list[str]

    @property
    def name(self) -> str:
        return f"{self.id}:{self.step}"


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """All checkpoints of one job. Nothing is looked into: a total does not say whether they are whole."""

    id: str
    state: str
    checkpoints: int
    newest_step: int
    bytes: int
    saved_at: str


def attempts(folder: JobFolder) -> list[JobFolder]:
    """Return the folders of the job's chain that are still there, oldest first; the job alone when it belongs to none."""
    chain = chains.find(folder.shared, folder.submission_id)
    folders = [folder.shared.job(attempt.id) for attempt in chain.attempts] if chain else [folder]
    return [each for each in folders if each.path.is_dir()]


def rows(folders: Sequence[JobFolder], resumers: Sequence[Resumer]) -> list[Row]:
    """Return the checkpoints of these jobs: a job after the other, the oldest first."""
    found = []
    for folder in folders:
        for checkpoint in reversed(verl_checkpoints.every(folder.checkpoints, _layout(folder))):
            size, saved_at = _size(checkpoint.path)
            origin = (folder.submission_id, checkpoint.step)
            found.append(
                Row(
                    id=folder.submission_id,
                    step=checkpoint.step,
                    path=str(checkpoint.path),
                    whole=not checkpoint.problem,
                    problem=checkpoint.problem,
                    bytes=size,
                    saved_at=moment_of(saved_at),
                    resumed_by=[each.id for each in resumers if (each.source, each.step) == origin],
                )
            )
    return found


def _layout(folder: JobFolder) -> CheckpointLayout | None:
    try:
        return workloads.load(plan.read(folder).workload).checkpoint
    except BadInput:  # a workload of the user's own that this host does not know, or a damaged plan
        return None


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
        sizes = [_size(path) for step, path in named if step is not None]
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


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return _size(folder)[0]


def _size(folder: str | Path) -> tuple[int, float]:
    """Return the bytes of all files in a folder, and the Unix time at which the newest of them was written."""
    total, newest = 0, 0.0
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            size, written = _size(entry.path)
        else:
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            size, written = facts.st_size, facts.st_mtime
        total, newest = total + size, max(newest, written)
    return total, newest


def table(listed: Sequence[Row], width: int) -> str:
    """Return the checkpoints for people, in lines of at most ``width`` columns."""
    cells = [
        [row.name, shown_size(row.bytes), age(row.saved_at), ", ".join(row.resumed_by) or "-", row.problem or "yes"]
        for row in listed
    ]
    return "\n".join(columns(["CHECKPOINT", "SIZE", "AGE", "RESUMED BY", "WHOLE"], cells, width, colour=False))


def table_of_totals(listed: Sequence[Total], width: int) -> str:
    """Return the totals for people, with the total of totals at the end."""
    cells = [
        [each.id, each.state, str(each.checkpoints), str(each.newest_step), shown_size(each.bytes), age(each.saved_at)]
        for each in listed
    ]
    count, size = sum(each.checkpoints for each in listed), sum(each.bytes for each in listed)
    cells.append([f"{len(listed)} jobs", "", str(count), "", shown_size(size), ""])
    return "\n".join(columns(["JOB", "STATE", "CHECKPOINTS", "NEWEST", "SIZE", "AGE"], cells, width, colour=False))


def shown_size(size: int) -> str:
    """Return ``12 kB``, ``1.2 GB``."""
    number, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 999.5 or unit == "TB":
            break
        number /= 1000
    return f"{number:.1f} {unit}" if number < 9.95 and unit != "B" else f"{number:.0f} {unit}"


def age(moment: str) -> str:
    """Return how long ago that was: ``42s``, ``2h05m``, ``12 days``."""
    seconds = max(0.0, time.time() - seconds_of(moment))
    return clock(seconds) if seconds < 2 * 86_400 else f"{seconds / 86_400:.0f} days"
