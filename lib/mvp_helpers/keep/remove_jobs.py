"""Script 59: remove the folders of ended jobs. Their ids never come back, and what happened to them stays on record.

A removal that was interrupted leaves either the job folder, which can be removed again, or ``.gone-<id>`` and the record: asked
for that id again, ``check`` and ``remove`` finish it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..base import files
from ..base.documents import Damaged, read_as
from ..base.errors import BadInput, Blocked
from ..base.paths import JobFolder, SharedRoot
from ..base.shared_storage import remove_tree, remove_whole
from ..base.times import now
from ..record import chain as chains
from ..record import job_folder, removals, seal_request
from ..record.removals import RemovedJob
from .resumers import IsRunning, Resumer
from .sizes import measured

GONE = ".gone-"
"""Prefix of a job folder's name while it is being removed."""


class Doomed(msgspec.Struct, frozen=True, kw_only=True):
    """A job that may be removed."""

    id: str
    workload: str
    state: str
    claimed_at: str
    bytes: int


def check(folders: Sequence[JobFolder], resumers: Sequence[Resumer], is_running: IsRunning) -> list[Doomed]:
    """Return what can be said about the jobs that are to be removed.

    Raises BadInput, naming every reason, when one of them does not exist, runs, belongs to a chain that goes on, or is what a job
    that stays has resumed from.
    """
    doomed = [_examined(folder) for folder in folders]
    ids = {folder.submission_id for folder in folders}
    reasons = []
    for folder in folders:
        name, chain = folder.submission_id, chains.find(folder.shared, folder.submission_id)
        if folder.path.exists() and is_running(folder):
            reasons.append(f"'{name}' has not ended")
        elif chain and not chain.ended_at:
            reasons.append(f"'{name}' is an attempt of chain '{chain.id}', which goes on")
        users = [each for each in resumers if each.source == name and each.id not in ids]
        reasons += [f"'{each.id}' resumed from step {each.step} of '{name}'" for each in users]
    if reasons:
        raise BadInput(
            f"nothing was removed: {'; '.join(reasons)}",
            hint="./scripts/52_stop.sh ends jobs and chains; name the jobs that resumed from it, too, to remove them together",
        )
    return doomed


def _examined(folder: JobFolder) -> Doomed:
    """Read the record of a job, or of one whose removal was interrupted. Raises BadInput as ``job_folder.read``."""
    aside, interrupted = _aside(folder), None
    if not folder.path.exists() and aside.exists():
        with contextlib.suppress(OSError, Damaged):
            interrupted = read_as(folder.shared.removed_job(folder.submission_id), RemovedJob)
    about = interrupted or job_folder.read(folder)
    return Doomed(
        id=folder.submission_id,
        workload=about.workload,
        state=about.state,
        claimed_at=about.claimed_at,
        bytes=measured(folder.path if folder.path.exists() else aside)[0],
    )


def remove(doomed: Sequence[Doomed], shared: SharedRoot, cluster: str) -> None:
    """Remove the folders, and what else is kept about these jobs; the record of the removal stays.

    Raises Blocked when the shared root cannot be written.
    """
    for job in doomed:
        try:
            _remove(job, shared, cluster)
        except OSError as error:
            raise Blocked(f"cannot remove {shared.job(job.id).path}: {error}", hint="repair that, then run this again") from None


def _remove(job: Doomed, shared: SharedRoot, cluster: str) -> None:
    folder = shared.job(job.id)
    if folder.path.exists():
        about = RemovedJob(
            submission_id=job.id,
            workload=job.workload,
            state=job.state,
            claimed_at=job.claimed_at,
            removed_at=now(),
            by=removals.who(),
            bytes=job.bytes,
            seal=files.sha256(folder.seal) if folder.seal.exists() else None,
        )
        removals.record_job(shared, about)  # first: the id must stay taken once the folder is gone
        remove_tree(_aside(folder))
        folder.path.rename(_aside(folder))  # at once: readers see the whole job folder or none
    seal_request.remove(folder, cluster)
    (shared.job_index / f"{job.claimed_at.replace(':', '')}_{job.id}").unlink(missing_ok=True)
    _forget_empty_chain(shared, job.id)
    remove_whole(_aside(folder))  # last: as long as it is there, this can be done again


def _aside(folder: JobFolder) -> Path:
    return folder.shared.jobs / f"{GONE}{folder.submission_id}"


def _forget_empty_chain(shared: SharedRoot, submission_id: str) -> None:
    """Remove the record of a chain of which no attempt is left."""
    chain = chains.find(shared, submission_id)
    if chain and not any(shared.job(attempt.id).path.exists() for attempt in chain.attempts):
        chains.forget(shared, chain)
