"""Requests to a running trainer (save, stop, save by a deadline) and its answers, as files in the job folder.

Requests are written by the toolkit, answers by a hook in the trainer's own process (for verl: ``lib/mvp_verl``), wherever that
process runs. One file holds one request or answer and is replaced as a whole, so a reader never sees half of one. Everything here
is independent of the trainer.
"""

from __future__ import annotations

import secrets
from typing import Literal, TypeVar

import msgspec

from ..base import documents, files
from ..base.documents import Damaged
from ..base.paths import JobFolder
from ..base.times import now

Reason = Literal["stop", "save", "deadline"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """``stop.json`` or ``save.json``. ``id`` tells a later request from one that was already answered."""

    id: str
    requested_at: str
    now: bool = False
    """For a stop: do not wait for a checkpoint."""
    by_user: bool = False
    """For a stop: a person asked for it (``52``); else the job runner, which got a signal, or found a stall."""


class Deadline(msgspec.Struct, frozen=True, kw_only=True):
    """``deadline.json``: the Unix time at which the trainer will be ended from outside, and where that time comes from."""

    at: float
    source: str


class Trainer(msgspec.Struct, frozen=True, kw_only=True):
    """``trainer.json``: whether this trainer can be asked to save, written before its first step; then its usual times."""

    supported: bool
    trainer: str
    problem: str = ""
    """Why it cannot be asked; empty when it can."""
    host: str
    pid: int
    written_at: str
    step_s: float | None = None
    save_s: float | None = None
    saves_s: float = 0.0
    """All saves together."""


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """``saved.json``: the last checkpoint that was written because of a request or a deadline."""

    step: int
    path: str
    seconds: float
    reason: Reason
    source: str = ""
    """For a deadline: where it came from."""
    request_id: str = ""
    saved_at: str

    @property
    def ends(self) -> bool:
        """True when the trainer ends after this checkpoint."""
        return self.reason != "save"


Record = TypeVar("Record", Request, Deadline, Trainer, Saved)


def ask_stop(folder: JobFolder, *, at_once: bool = False, by_user: bool = False) -> Request:
    """Ask the trainer to save and end; a request that is there already stays, unless ``at_once`` makes it stricter."""
    before = stop_request(folder)
    if before and (before.now or not at_once):
        return before
    return _request(folder, "stop", at_once, by_user)


def ask_save(folder: JobFolder) -> Request:
    """Ask the trainer for a checkpoint now. Raises OSError."""
    return _request(folder, "save")


def _request(folder: JobFolder, name: str, at_once: bool = False, by_user: bool = False) -> Request:
    request = Request(id=secrets.token_hex(4), requested_at=now(), now=at_once, by_user=by_user)
    _write(folder, name, request)
    return request


def stop_request(folder: JobFolder) -> Request | None:
    return _read(folder, "stop", Request)


def save_request(folder: JobFolder) -> Request | None:
    return _read(folder, "save", Request)


def set_deadline(folder: JobFolder, deadline: Deadline) -> None:
    _write(folder, "deadline", deadline)


def deadline(folder: JobFolder) -> Deadline | None:
    return _read(folder, "deadline", Deadline)


def set_trainer(folder: JobFolder, trainer: Trainer) -> None:
    _write(folder, "trainer", trainer)


def trainer(folder: JobFolder) -> Trainer | None:
    """The trainer's own statement; None while it has not begun, or when it does not support requests."""
    return _read(folder, "trainer", Trainer)


def set_saved(folder: JobFolder, saved: Saved) -> None:
    _write(folder, "saved", saved)


def saved(folder: JobFolder) -> Saved | None:
    return _read(folder, "saved", Saved)


def _write(folder: JobFolder, name: str, record: Record) -> None:
    """Replace one file. Raises OSError."""
    folder.check_own(folder.control)
    folder.control.mkdir(exist_ok=True)
    files.write_bytes(folder.control / f"{name}.json", msgspec.json.format(msgspec.json.encode(record)) + b"\n")


def _read(folder: JobFolder, name: str, kind: type[Record]) -> Record | None:
    """One file, or None when it is missing, unreadable or not of its kind: a damaged request must not end a training."""
    try:
        return documents.read_as(folder.control / f"{name}.json", kind)
    except (OSError, Damaged):
        return None
