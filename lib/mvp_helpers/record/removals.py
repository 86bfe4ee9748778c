"""What was removed on request: checkpoints of a job, recorded in its own folder; whole jobs, recorded in ``jobs/.removed``."""

from __future__ import annotations

import contextlib
import getpass
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..base import files
from ..base.documents import Damaged, read_as
from ..base.errors import BadInput
from ..base.paths import JobFolder, SharedRoot
from ..base.shared_storage import held
from ..base.times import now


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint that was removed."""

    step: int
    bytes: int
    problem: str = ""
    """Why it was not whole; "" when it was."""


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """One request to remove checkpoints of a job."""

    removed_at: str
    by: str
    request: str
    checkpoints: list[Gone]


class RemovedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose folder was removed; ``seal`` is the SHA-256 of its seal, None when it had none."""

    submission_id: str
    workload: str
    state: str
    claimed_at: str
    removed_at: str
    by: str
    bytes: int
    seal: str | None = None

    def describe(self) -> str:
        return (
            f"job '{self.submission_id}' was removed on request at {self.removed_at} by {self.by} ({self.workload}, {self.state})"
        )


def who() -> str:
    """Return who asks: the user of this process and its host."""
    return f"{getpass.getuser()}@{os.uname().nodename}"


@contextlib.contextmanager
def locked(shared: SharedRoot) -> Iterator[None]:
    """Let one process of this host, the head's, remove checkpoints and jobs at a time; the lock ends with its process."""
    with held(shared.jobs / ".removals.lock"):
        yield


def check_kept(shared: SharedRoot, name: str, checkpoint: Path) -> None:
    """Raise BadInput when the checkpoint that a job is to resume from was removed; the job folder names it already.

    From now on no removal takes it: one that goes on, and has not seen the job yet, is waited for.
    """
    with locked(shared):
        if not checkpoint.is_dir():
            raise BadInput(
                f"the checkpoint {name} was removed meanwhile: {checkpoint}",
                hint="./scripts/57_checkpoints.sh ID lists those that are left",
            )


def record(folder: JobFolder, request: str, checkpoints: list[Gone]) -> Path:
    """Write into the job folder what is about to be removed; return the new file. Raises OSError."""
    removal = Removal(removed_at=now(), by=who(), request=request, checkpoints=checkpoints)
    folder.check_own(folder.removals)
    folder.removals.mkdir(exist_ok=True)
    path = folder.removals / f"{removal.removed_at.replace(':', '')}.json"
    files.write_bytes(path, msgspec.json.format(msgspec.json.encode(removal), indent=2) + b"\n")
    return path


def of(folder: JobFolder) -> dict[int, str]:
    """Return when and by whom each step's checkpoint was removed; a damaged record is left out."""
    steps: dict[int, str] = {}
    for path in sorted(folder.removals.glob("*.json")):
        with contextlib.suppress(OSError, Damaged):
            removal = read_as(path, Removal)
            steps |= {gone.step: f"removed on request at {removal.removed_at} by {removal.by}" for gone in removal.checkpoints}
    return steps


def record_job(shared: SharedRoot, job: RemovedJob) -> None:
    """Record that a job's folder is about to be removed, for good. Raises OSError."""
    path = shared.removed_job(job.submission_id)
    path.parent.mkdir(exist_ok=True)
    files.write_bytes(path, msgspec.json.format(msgspec.json.encode(job), indent=2) + b"\n")


def find_job(shared: SharedRoot, submission_id: str) -> str:
    """Return what happened to a removed job, for people; "" for a job that was not removed."""
    path = shared.removed_job(submission_id)
    try:
        return read_as(path, RemovedJob).describe()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, Damaged) as error:
        return f"job '{submission_id}' was removed on request ({path} cannot be read: {error})"


def job_ids(shared: SharedRoot) -> frozenset[str]:
    """Return the ids of all removed jobs, from one directory listing."""
    try:
        return frozenset(entry.name.removesuffix(".json") for entry in os.scandir(shared.removed_job("").parent))
    except OSError:
        return frozenset()
