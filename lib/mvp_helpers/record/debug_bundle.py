"""Debug bundles: snapshots of Ray's state in ``<job folder>/debug/<UTC timestamp>-<event>/``.

They contain no secrets: runtime environments and metadata are dropped from every row, known secrets of every job are masked, and
of other jobs only where and how they ran is kept: not their entrypoints and messages, actors and placement groups.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ..base import documents, files
from ..base.documents import Damaged
from ..base.errors import BadInput
from ..base.paths import JobFolder
from ..base.shared_storage import remove_tree
from ..base.times import now
from ..cluster.ray_api import RayApi
from ..masking import known

TIMEOUT_S = 10.0
"""The longest wait for Ray. A job list that takes longer is left out; the other items are kept."""

_ABANDONED_S = 3600.0

STATE_KINDS = ("nodes", "actors", "placement_groups")
SUPERVISOR = "JobSupervisor"
"""Class of the actor that runs a job's entrypoint. It belongs to the job, but Ray counts those of all jobs to one of its own."""
_SECRET_KEYS = frozenset(
    {"runtime_env", "runtime_env_info", "serialized_runtime_env", "env_vars", "metadata", "serialized_exception"}
)
_OTHERS_KEYS = frozenset(
    {"type", "job_id", "submission_id", "status", "error_type", "start_time", "end_time", "driver_node_id", "driver_info"}
)


Content = str | list[dict[str, Any]]


@dataclass(frozen=True)
class _Answer:
    """The answer to one query; ``content`` are the rows Ray sent, ``truncated`` is the number of those it did not send."""

    content: Content | None = None
    truncated: int = 0
    seconds: float | None = None
    error: str = ""

    def report(self, file: str) -> dict[str, Any]:
        rows = len(self.content) if isinstance(self.content, list) else None
        return {
            "file": None if self.content is None else file,
            "seconds": self.seconds,
            "rows": rows,
            "truncated": self.truncated,
            "error": self.error,
        }


class _Item(msgspec.Struct):
    file: str | None
    error: str


class _Summary(msgspec.Struct):
    items: dict[str, _Item]


def take(folder: JobFolder, api: RayApi, event: str, *, timeout_s: float = TIMEOUT_S) -> Path:
    """Write one bundle and return its folder, which appears only when it is complete.

    Contains ``ray_status.txt``, ``jobs.json`` (the list), ``job.json`` (this job alone), ``nodes.json``, ``actors.json`` and
    ``placement_groups.json`` (this job's) as far as Ray answered within ``timeout_s`` seconds, and ``bundle.json``: seconds,
    rows, truncated rows and error of each. An unreachable Ray is recorded there, not raised.

    Raises:
        BadInput: ``event`` is not usable in a file name.
        OSError: the job folder cannot be written.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,40}", event):
        raise BadInput(f"'{event}' is not a name for a debug bundle", hint="lower-case letters, digits and '-'")
    own = folder.submission_id
    questions: dict[str, Callable[[], tuple[Content, int]]] = {
        "ray_status.txt": lambda: (api.cluster_status(), 0),
        "jobs.json": lambda: (api.jobs(), 0),
        "job.json": lambda: ([record for record in [api.job(own)] if record], 0),
        **{f"{kind}.json": functools.partial(_state, api, kind) for kind in STATE_KINDS},
    }
    taken_at, began = now(), time.monotonic()
    answers: dict[str, _Answer] = {}

    def ask(file: str) -> None:
        content, truncated, error = None, 0, ""
        try:
            content, truncated = questions[file]()
        except Exception as failure:  # any failure is recorded, and the other items are collected
            error = f"{type(failure).__name__}: {failure}"
        answers[file] = _Answer(content, truncated, round(time.monotonic() - began, 3), error)

    # Daemon threads: a call that hangs must not delay the end of the process.
    threads = [threading.Thread(target=ask, args=(file,), daemon=True) for file in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, began + timeout_s - time.monotonic()))
    late = _Answer(error=f"no answer within {timeout_s:g} s")
    collected = _of_job(folder, {file: answers.get(file, late) for file in questions})
    summary = {
        "submission_id": own,
        "event": event,
        "taken_at": taken_at,
        "ray_address": api.address,
        "seconds": round(time.monotonic() - began, 3),
        "items": {file.partition(".")[0]: answer.report(file) for file, answer in collected.items()},
    }
    return _write(folder, f"{re.sub(r'[-:]', '', taken_at)}-{event}", collected, summary)


def outcome(bundle: Path) -> tuple[dict[str, str], list[str]]:
    """Return the errors of a bundle (item → error), and the items it contains. Raises BadInput for a damaged one."""
    try:
        items = documents.read_as(bundle / "bundle.json", _Summary).items
    except (OSError, Damaged) as error:
        raise BadInput(f"cannot read {bundle / 'bundle.json'}: {error}") from None
    return {name: item.error for name, item in items.items() if item.error}, [name for name, item in items.items() if item.file]


def _write(folder: JobFolder, name: str, collected: dict[str, _Answer], summary: dict[str, Any]) -> Path:
    parent, mask = folder.debug, known.mask(folder.shared)
    folder.check_own(parent)
    parent.mkdir(exist_ok=True)  # not its parents: a job folder that was moved away must not come back half empty
    _remove_abandoned(parent)
    work = parent / f".{name}.{os.getpid()}"
    work.mkdir()
    try:
        for file, answer in collected.items():
            if isinstance(answer.content, str):
                files.write_new(work / file, mask.data(answer.content.encode(errors="replace")))
            elif answer.content is not None:
                files.write_new(work / file, mask.data(json.dumps(answer.content, indent=1).encode()))
        files.write_json(work / "bundle.json", mask.value(summary))
        return work.rename(parent / name)
    except BaseException:
        remove_tree(work)
        raise


def _remove_abandoned(parent: Path) -> None:
    """Remove drafts of bundles and archives whose writers were killed: both take seconds to write."""
    for draft in parent.glob(".2*"):
        with contextlib.suppress(OSError):
            if time.time() - draft.lstat().st_mtime > _ABANDONED_S:
                remove_tree(draft)


def _state(api: RayApi, kind: str) -> tuple[Content, int]:
    rows, total = api.state_rows(kind)
    return rows, max(0, total - len(rows))


def _of_job(folder: JobFolder, collected: dict[str, _Answer]) -> dict[str, _Answer]:
    """Return what belongs into a bundle of this job, without secrets."""

    def rows(file: str) -> list[dict[str, Any]]:
        content = collected[file].content
        return content if isinstance(content, list) else []

    own_ids = {str(row["job_id"]) for row in rows("job.json") if row.get("job_id")}
    mark = json.dumps(str(folder.path))

    def marked(row: dict[str, Any]) -> bool:
        return mark in str(row.get("serialized_runtime_env"))

    # Ray's record names one driver. A job has several: every process of it that calls ray.init().
    own_ids |= {str(row.get("job_id")) for row in rows("actors.json") if marked(row) and row.get("class_name") != SUPERVISOR}
    kept = {
        "actors.json": [row for row in rows("actors.json") if marked(row) or row.get("job_id") in own_ids],
        "placement_groups.json": [row for row in rows("placement_groups.json") if row.get("creator_job_id") in own_ids],
        "jobs.json": [
            row if row.get("submission_id") == folder.submission_id else _seen_from_outside(row) for row in rows("jobs.json")
        ],
    }
    return {
        file: replace(answer, content=[_without_secrets(row) for row in kept.get(file, answer.content)])
        if isinstance(answer.content, list)
        else answer
        for file, answer in collected.items()
    }


def _seen_from_outside(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key in _OTHERS_KEYS}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(item) for key, item in value.items() if key not in _SECRET_KEYS}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value
