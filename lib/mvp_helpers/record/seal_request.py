"""Requests to seal a job, as empty files ``jobs/.unsealed/<cluster>/<id>``: from the job runner, at its end, to the sealer."""

from __future__ import annotations

import contextlib

from ..base.paths import JobFolder, SharedRoot


def make(job: JobFolder, cluster: str) -> None:
    """Ask for the seal of a job that has ended. Raises OSError."""
    place = job.shared.unsealed(cluster)
    place.mkdir(parents=True, exist_ok=True)
    (place / job.submission_id).touch()


def is_there(job: JobFolder, cluster: str) -> bool:
    return (job.shared.unsealed(cluster) / job.submission_id).exists()


def remove(job: JobFolder, cluster: str) -> None:
    """Forget a request, which is done or has become impossible. Raises OSError."""
    (job.shared.unsealed(cluster) / job.submission_id).unlink(missing_ok=True)


def ids(shared: SharedRoot, cluster: str) -> list[str]:
    """Return the ids of the jobs that are to be sealed, sorted; none while the shared root cannot be read."""
    with contextlib.suppress(OSError):
        return sorted(entry.name for entry in shared.unsealed(cluster).iterdir())
    return []
