"""Complete a job folder whose submitter or job runner is gone: whoever reads it asks Ray, and writes the ending that is missing.

Only endings are written. While a job runs, its own processes write; a note about it is only returned.
"""

from __future__ import annotations

import os
import shlex
import socket
import time
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from ..base import documents, files
from ..base.errors import BadInput, MvpError
from ..base.paths import JobFolder
from ..base.times import moment_of, now, seconds_of
from ..cluster.ray_api import RayApi
from . import error_lines, job_folder, metrics, wall_time
from .job_folder import Result, State

LOST_CLAIM_S = 60.0
"""A claim that is older will not be submitted any more, unless its submitter is known to be alive."""
ORPHAN_CLAIM_S = 15.0
"""The same when the submitter is known to be gone: its `ray job submit` can outlive it for a moment."""
GRACE_S = 1.0
"""Wait before an ending is written: the job runner may be about to write it itself, in more detail than Ray has."""
_LATEST_MS = 4_102_444_800_000
"""2100: a later end is not a time."""
REASON_LENGTH = 1_000
UNKNOWN = "as the job folder says"
"""Beginning of the note when Ray cannot be asked."""

Submitter = Literal["alive", "gone", "unknown"]


@dataclass(frozen=True)
class Seen:
    """Ray's answer about one id. ``status`` is None when Ray answers but does not know the id."""

    answered: bool
    status: str | None = None
    message: str = ""
    """Ray's message about the job, or why Ray did not answer."""


@dataclass(frozen=True)
class Decision:
    """Write ``ending`` with ``reason``; when ``ending`` is None, show ``reason`` as a note beside the state."""

    ending: State | None
    reason: str = ""


def decide(state: State, seen: Seen, submitter: Submitter, claimed_age_s: float) -> Decision:
    """Return the decision for a job whose folder says ``state``."""
    if state in job_folder.TERMINAL:
        return Decision(None)
    if not seen.answered:
        return Decision(None, f"{UNKNOWN}; {seen.message}")
    if seen.status is None:
        if state != "CLAIMED":
            return Decision("FAILED", "the Ray cluster that ran it is gone")
        if submitter != "alive" and claimed_age_s > (ORPHAN_CLAIM_S if submitter == "gone" else LOST_CLAIM_S):
            return Decision("NOT_SUBMITTED", "the submitter ended before Ray accepted the job")
        return Decision(None, "being submitted")
    message = _short(seen.message)
    if seen.status == "STOPPED":
        return Decision("STOPPED", message or "stopped")
    if seen.status == "FAILED":
        return Decision("FAILED", message or "Ray reports FAILED and gives no reason")
    if seen.status == "SUCCEEDED":
        # Only the runner can record success, with its evidence; an entrypoint that ended well without a result is a failure.
        return Decision("FAILED", "Ray reports SUCCEEDED but the job runner left no result")
    if seen.status == "RUNNING":
        return Decision(None, "" if state == "RUNNING" else "Ray reports RUNNING")
    return Decision(None, f"Ray reports {seen.status}" + (f": {message}" if message else ""))


def settle(folder: JobFolder, result: Result, api: RayApi | None) -> Result:
    """Return ``result``, completed by Ray's answer; write an ending that the folder lacks.

    The result of a job that is still running gets a note in ``reason``, which is not written. This costs one REST call, and
    ``GRACE_S`` seconds before an ending is written. A Ray that does not answer raises nothing.
    """
    if result.ended:
        return result
    record: dict[str, Any] = {}
    if api is None:
        seen = Seen(False, message="the cluster is not up")
    else:
        try:
            record = api.job(folder.submission_id) or {}
            status, message = record.get("status"), record.get("message")
            seen = Seen(True, None if status is None else str(status), str(message or ""))
            if not record and (address := submitted_to(folder)) not in ("", api.address):
                # Clusters can share a root: only the Ray that the job was submitted to can know it.
                seen = Seen(False, message=f"it was submitted to another Ray, at {address}")
        except (MvpError, OSError) as error:
            seen = Seen(False, message=str(error))
    decision = decide(result.state, seen, _submitter(folder), _age_s(result.claimed_at))
    if decision.ending is None:
        return msgspec.structs.replace(result, reason=decision.reason or result.reason)
    try:
        before = job_folder.read(folder)
        time.sleep(GRACE_S)
        current = job_folder.read(folder)
    except BadInput:
        return result  # the folder was removed meanwhile
    if current.ended or current != before:
        return current
    ended = _ended(folder, current, decision, record)
    job_folder.write(folder, ended)
    return ended


def submitted_to(folder: JobFolder) -> str:
    """Return the dashboard address in ``submit_cmd.txt``; empty when that was never written."""
    try:
        words = shlex.split(files.read(folder.submit_cmd, documents.MOST_BYTES).decode())
        return words[words.index("--address") + 1].rstrip("/")
    except (OSError, ValueError, IndexError):
        return ""


def _ended(folder: JobFolder, result: Result, decision: Decision, record: dict[str, Any]) -> Result:
    step, data = metrics.tail(folder.metrics)
    end_ms, code = record.get("end_time"), record.get("driver_exit_code")
    ended_at = moment_of(end_ms / 1000) if isinstance(end_ms, int) and 0 < end_ms < _LATEST_MS else now()
    return msgspec.structs.replace(
        result,
        state=decision.ending,
        reason=decision.reason,
        exit_code=code if isinstance(code, int) else None,
        ended_at=ended_at,
        wall_time=wall_time.ended(result.wall_time, seconds_of(ended_at)) if result.wall_time else None,
        driver_node_id=result.driver_node_id or _text(record.get("driver_node_id")),
        steps_done=max(result.steps_done, step),
        last_metrics=result.last_metrics if result.steps_done >= step else data,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _submitter(folder: JobFolder) -> Submitter:
    """Return whether the process that claimed the folder is alive, as far as this host can know."""
    try:
        source = documents.read_json(folder.provenance)["submitted_from"]
        if source["hostname"] != socket.gethostname():
            return "unknown"
        os.kill(int(source["pid"]), 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return "alive"
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return "unknown"
    return "alive"


def _age_s(claimed_at: str) -> float:
    return time.time() - seconds_of(claimed_at) if claimed_at else 0.0


def _short(message: str) -> str:
    """Return one line; of the log that Ray appends to a failed entrypoint's message only the last error, or the last line."""
    text, appended, log = message.partition(", last available logs")
    if appended:
        text += ": " + (error_lines.last(log.encode(errors="replace")) or log.strip().rpartition("\n")[2])
    text = " ".join(text.split())
    return text if len(text) <= REASON_LENGTH else f"…{text[-REASON_LENGTH:]}"
