"""Script 59: remove the folders of ended jobs. Their ids never come back, and what happened to them stays on record."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..base import files
from ..base.errors import BadInput, Blocked
from ..base.paths import JobFolder, SharedRoot
from ..base.shared_storage import remove_tree
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

    Raises BadInput, naming every reason, when one of them runs, belongs to a chain that goes on, or is what a job that stays has
    resumed from.
    """
    ids = {folder.submission_id for folder in folders}
    reasons = []
    for folder in folders:
        name, chain = folder.submission_id, chains.find(folder.shared, folder.submission_id)
        if is_running(folder):
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
    results = [job_folder.read(folder) for folder in folders]
    return [
        Doomed(
            id=folder.submission_id,
            workload=result.workload,
            state=result.state,
            claimed_at=result.claimed_at,
            bytes=measured(folder.path)[0],
        )
        for folder, result in zip(folders, results, strict=True)
    ]


def remove(doomed: Sequence[Doomed], shared: SharedRoot, cluster: str) -> None:
    """Remove the folders, and what else is kept about these jobs; the record of the removal stays.

    Raises Blocked when the shared root cannot be written.
    """
    for job in doomed:
        try:
            _remove(job, shared, cluster)
        except OSError as error:
            raise Blocked(f"cannot remove {shared.job(job.id).path}: {error}", hint="repair that, then run this again") from None
    for aside in shared.jobs.glob(f"{GONE}*"):  # also what an interrupted removal left
        remove_tree(aside)


def _remove(job: Doomed, shared: SharedRoot, cluster: str) -> None:
    folder = shared.job(job.id)
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
    removals.record_job(shared, about)  # first: nobody may claim the id once the folder is gone
    aside = shared.jobs / f"{GONE}{job.id}"
    remove_tree(aside)
    folder.path.rename(aside)  # at once: nobody sees half a job folder
    seal_request.remove(folder, cluster)
    (shared.job_index / f"{job.claimed_at.replace(':', '')}_{job.id}").unlink(missing_ok=True)
    _forget_empty_chain(shared, job.id)


def _forget_empty_chain(shared: SharedRoot, submission_id: str) -> None:
    """Remove the record of a chain of which no attempt is left."""
    chain = chains.find(shared, submission_id)
    if chain and not any(shared.job(attempt.id).path.exists() for attempt in chain.attempts):
        chains.forget(shared, chain)
