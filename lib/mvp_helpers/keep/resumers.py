"""Which jobs resume from which checkpoints: as plans and provenance record it, one pass over all job folders."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from ..base.documents import Damaged, read_as
from ..base.errors import BadInput
from ..base.paths import JobFolder, SharedRoot
from ..plan import plan
from ..record import job_folder

IsRunning = Callable[[JobFolder], bool]


class Resumer(msgspec.Struct, frozen=True, order=True):
    """A job that began from a checkpoint of another one."""

    id: str
    source: str
    step: int
    running: bool


class _From(msgspec.Struct):
    submission_id: str
    step: int


class _Provenance(msgspec.Struct):
    resumed_from: _From | None = None


def is_running(folder: JobFolder) -> bool:
    """Return whether the job's own folder records no end; nobody is asked."""
    try:
        return not job_folder.read(folder).ended
    except BadInput:
        return False


def every(shared: SharedRoot, is_running: IsRunning = is_running) -> list[Resumer]:
    """Return all jobs that resumed from another one, sorted by id."""
    active = set(job_folder.active_ids(shared))
    # The plan comes before the provenance: what a submission has just chosen counts, too.
    found = {name: resume for name in active if (resume := _planned(shared.job(name)))}
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(shared.jobs):
            if entry.name not in found and (resume := _recorded(JobFolder(Path(entry.path)))):
                found[entry.name] = resume
    return sorted(
        Resumer(name, resume.submission_id, resume.step, name in active and is_running(shared.job(name)))
        for name, resume in found.items()
    )


def _planned(folder: JobFolder) -> _From | None:
    try:
        resume = plan.read(folder).resume
    except BadInput:
        return None
    return _From(resume.submission_id, resume.step) if resume else None


def _recorded(folder: JobFolder) -> _From | None:
    try:
        return read_as(folder.provenance, _Provenance).resumed_from
    except (OSError, Damaged):  # no job folder, one that was just claimed, or a damaged one
        return None
