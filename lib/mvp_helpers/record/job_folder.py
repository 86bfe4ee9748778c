"""Claim a job folder; read and write the job's state, ``result.json``.

One process writes at a time: the submitter until the job runner starts, then the runner until it ends. A reader that finds the
runner gone (see ``reconcile.py``) writes the final state.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..base import documents, files
from ..base.documents import Damaged
from ..base.errors import BadInput, Blocked
from ..base.paths import JobFolder, SharedRoot
from ..base.times import now, seconds_of
from . import removals
from .stall import Stall
from .wall_time import WallTime

State = Literal["CLAIMED", "NOT_SUBMITTED", "SUBMITTED", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED", "BLOCKED"]
TERMINAL = frozenset({"NOT_SUBMITTED", "SUCCEEDED", "FAILED", "STOPPED", "BLOCKED"})
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INDEXED = re.compile(rf"\d{{4}}[0-9T.:-]*Z_{_ID.pattern}")
ID_HINT = "choose another submission_id, or leave it out to have one made"


class Result(msgspec.Struct, omit_defaults=False, kw_only=True):
    """``result.json``. Times are UTC, ISO 8601; steps count optimiser steps as the trainer reports them."""

    submission_id: str
    workload: str
    state: State
    reason: str = ""
    exit_code: int | None = None
    claimed_at: str = ""
    submitted_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    driver_host: str | None = None
    driver_node_id: str | None = None
    driver_node_ip: str | None = None
    trainer_pid: int | None = None
    steps_done: int = 0
    steps_total: int | None = None
    last_metrics: dict[str, Any] = {}
    stalls: list[Stall] = []
    """When no step came, and why; the last one is going on when it is not ``over``."""
    wall_time: WallTime | None = None
    """Where the time went, of the whole chain; None before the job runs."""

    def __post_init__(self) -> None:
        """Refuse a time that is none. Raises ValueError."""
        for name in ("claimed_at", "submitted_at", "started_at", "ended_at"):
            if moment := getattr(self, name):
                try:
                    seconds_of(moment)
                except (ValueError, OverflowError):
                    raise ValueError(f"{name}: {moment[:40]!r} is not a time") from None

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def stall(self) -> Stall | None:
        """The stall that the job is in, or ended in."""
        return self.stalls[-1] if self.stalls and not self.stalls[-1].over else None


def elapsed_s(result: Result) -> float | None:
    """Return the seconds from the job's start (or its claim, when it never started) to its end, or to now."""
    begin = result.started_at or result.claimed_at
    end = seconds_of(result.ended_at) if result.ended_at else time.time()
    return max(0.0, end - seconds_of(begin)) if begin else None


def claim(shared: SharedRoot, result: Result) -> JobFolder:
    """Create the job folder of ``result.submission_id`` with its first ``result.json``.

    Raises:
        BadInput: the id is taken, also by a job that was removed; the existing folder stays unchanged.
        Blocked: the shared root cannot be written (read-only, full, missing).
    """
    folder = shared.job(result.submission_id)
    check_unused(folder)
    try:
        for parent in (shared.jobs, shared.job_index, shared.active_jobs):
            parent.mkdir(parents=True, exist_ok=True)
        # Fill the folder under a temporary name, then rename it: a visible job folder has its result.json, and one claim wins.
        draft = Path(tempfile.mkdtemp(prefix=f".claim-{result.submission_id}.", dir=shared.jobs))
        try:
            draft.chmod(0o755)
            for name in (folder.config, folder.logs, folder.checkpoints, folder.debug):
                (draft / name.name).mkdir()
            result.claimed_at = now()
            files.write_bytes(draft / folder.result.name, _encode(result))
            _rename(draft, folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        (shared.active_jobs / result.submission_id).touch()
        (shared.job_index / f"{result.claimed_at.replace(':', '')}_{result.submission_id}").touch()
    except OSError as error:
        raise Blocked(
            f"cannot write the job folder {folder.path}: {error.strerror}", hint="./scripts/00_prereq_check.sh"
        ) from error
    return folder


def check_unused(folder: JobFolder) -> None:
    """Raise BadInput for the id of a job that exists or was removed: an id belongs to one job for ever."""
    if removed := removals.find_job(folder.shared, folder.submission_id):
        raise BadInput(f"submission_id '{folder.submission_id}' is already used: {removed}", hint=ID_HINT)
    if folder.path.exists():
        raise BadInput(f"submission_id '{folder.submission_id}' is already used: {folder.path}", hint=ID_HINT)


def _rename(draft: Path, folder: JobFolder) -> None:
    try:
        draft.rename(folder.path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise BadInput(f"submission_id '{folder.submission_id}' is already used: {folder.path}", hint=ID_HINT) from None


def _encode(result: Result) -> bytes:
    return msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"


def write(folder: JobFolder, result: Result) -> None:
    """Replace ``result.json`` atomically and update the list of active jobs; remove an ended job's secrets."""
    files.write_bytes(folder.result, _encode(result))
    active = folder.shared.active_jobs / folder.submission_id
    if result.ended:
        folder.secrets.unlink(missing_ok=True)
        active.unlink(missing_ok=True)
    elif not active.exists():
        active.touch()


def read(folder: JobFolder) -> Result:
    """Return the job's ``result.json``.

    Raises:
        BadInput: no such job, or its ``result.json`` is missing, damaged or another job's.
    """
    try:
        result = documents.read_as(folder.result, Result)
        if result.submission_id != folder.submission_id:  # the folder, or the file, was replaced
            raise Damaged(f"it is of job {result.submission_id[:100]!r}")
        return result
    except FileNotFoundError:
        if removed := removals.find_job(folder.shared, folder.submission_id):
            raise BadInput(removed, hint="its id is not used again; ./scripts/50_status.sh lists the jobs") from None
        what = "has no result.json" if folder.path.is_dir() else "does not exist"
        raise BadInput(
            f"job '{folder.submission_id}' {what}: {folder.path}", hint="./scripts/50_status.sh lists the jobs"
        ) from None
    except (Damaged, OSError) as error:
        raise BadInput(f"cannot read {folder.result}: {error}") from error


def newest_ids(shared: SharedRoot, limit: int) -> list[str]:
    """Return the newest ``limit`` job ids, newest first, from one directory listing. Raises Blocked."""
    names = sorted((name for name in _names(shared.job_index) if _INDEXED.fullmatch(name)), reverse=True)
    return [name.partition("_")[2] for name in names[:limit]]


def active_ids(shared: SharedRoot) -> list[str]:
    """Return the ids of the jobs whose folders record no end. Raises Blocked."""
    return sorted(name for name in _names(shared.active_jobs) if _ID.fullmatch(name))


def _names(folder: Path) -> list[str]:
    """Return the names in a folder that lists jobs; callers skip names of another form."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Blocked(f"cannot list the jobs: {folder}: {error.strerror}", hint="./scripts/00_prereq_check.sh") from None
