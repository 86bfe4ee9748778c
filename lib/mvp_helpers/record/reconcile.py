"""A job folder that says less than the truth: the submitter or the job runner is gone, so whoever looks asks Ray and writes the
last word.

Only endings are written. While a job goes on its own processes write, and a reader's note stays in the reader's memory.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import time
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from ..base.errors import BadInput, MvpError
from ..base.paths import JobFolder
from ..base.times import moment_of, now, seconds_of
from ..cluster.ray_api import RayApi
from . import job_folder, metrics
from .job_folder import Result, State

LOST_CLAIM_S = 60.0
"""A claim of this age is not submitted any more, unless its submitter is known to live."""
ORPHAN_CLAIM_S = 15.0
"""The same when the submitter is known to be gone: its `ray job submit` may outlive it for a moment."""
GRACE_S = 1.0
"""Before an ending is written: the job runner may be about to write one of its own, which says more than Ray can."""
REASON_LENGTH = 1_000
UNKNOWN = "as the job folder says"
"""How the note begins when Ray cannot be asked."""

Submitter = Literal["alive", "gone", "unknown"]


@dataclass(frozen=True)
class Seen:
    """What Ray says about one id. ``status`` is None when Ray answers but does not know the id."""

    answered: bool
    status: str | None = None
    message: str = ""
    """Ray's message about the job, or why Ray did not answer."""


@dataclass(frozen=True)
class Verdict:
    """What to do: write ``ending`` with ``reason``; or, when it is None, show ``reason`` as a note beside the state."""

    ending: State | None
    reason: str = ""


def decide(state: State, seen: Seen, submitter: Submitter, claimed_age_s: float) -> Verdict:
    """The decision for a job whose folder says ``state``; pure."""
    if state in job_folder.TERMINAL:
        return Verdict(None)
    if not seen.answered:
        return Verdict(None, f"{UNKNOWN}; {seen.message}")
    if seen.status is None:
        if state != "CLAIMED":
            return Verdict("FAILED", "the Ray cluster that ran it is gone")
        if submitter != "alive" and claimed_age_s > (ORPHAN_CLAIM_S if submitter == "gone" else LOST_CLAIM_S):
            return Verdict("NOT_SUBMITTED", "the submitter ended before Ray accepted the job")
        return Verdict(None, "being submitted")
    message = _short(seen.message)
    if seen.status == "STOPPED":
        return Verdict("STOPPED", message or "stopped")
    if seen.status == "FAILED":
        return Verdict("FAILED", message or "Ray says FAILED and gives no reason")
    if seen.status == "SUCCEEDED":
        # Success is the runner's to claim, with its evidence: an entrypoint that ended well without a result is none.
        return Verdict("FAILED", "Ray says SUCCEEDED but the job runner left no result")
    if seen.status == "RUNNING":
        return Verdict(None, "" if state == "RUNNING" else "Ray says RUNNING")
    return Verdict(None, f"Ray says {seen.status}" + (f": {message}" if message else ""))


def settle(folder: JobFolder, result: Result, api: RayApi | None) -> Result:
    """``result`` as far as it can be known: an ending that the folder lacks is written to it.

    A job that goes on comes back with a note in ``reason`` (not written). Costs one REST call, and ``GRACE_S`` seconds only
    before an ending is written. Never raises for a Ray that does not answer.
    """
    if result.ended:
        return result
    record: dict[str, Any] = {}
    if api is None:
        seen = Seen(False, message="the cluster is not up")
    else:
        try:
            record = api.job(folder.submission_id) or {}
            seen = Seen(True, record.get("status"), record.get("message") or "")
            if not record and (address := submitted_to(folder)) not in ("", api.address):
                # Clusters can share a root: this Ray's not knowing the job says nothing about another's.
                seen = Seen(False, message=f"it was submitted to another Ray, at {address}")
        except (MvpError, OSError) as error:
            seen = Seen(False, message=str(error))
    verdict = decide(result.state, seen, _submitter(folder), _age_s(result.claimed_at))
    if verdict.ending is None:
        return msgspec.structs.replace(result, reason=verdict.reason or result.reason)
    try:
        before = job_folder.read(folder)
        time.sleep(GRACE_S)
        current = job_folder.read(folder)
    except BadInput:
        return result  # the folder was removed meanwhile: there is nothing to write to
    if current.ended or current != before:
        return current
    ended = _ended(folder, current, verdict, record)
    job_folder.write(folder, ended)
    return ended


def submitted_to(folder: JobFolder) -> str:
    """The dashboard address in ``submit_cmd.txt``; empty when that was never written."""
    try:
        words = shlex.split(folder.submit_cmd.read_text())
        return words[words.index("--address") + 1].rstrip("/")
    except (OSError, ValueError, IndexError):
        return ""


def _ended(folder: JobFolder, result: Result, verdict: Verdict, record: dict[str, Any]) -> Result:
    step, data = metrics.tail(folder.metrics)
    end_ms = record.get("end_time")
    return msgspec.structs.replace(
        result,
        state=verdict.ending,
        reason=verdict.reason,
        exit_code=record.get("driver_exit_code"),
        ended_at=moment_of(end_ms / 1000) if end_ms else now(),
        driver_node_id=result.driver_node_id or record.get("driver_node_id"),
        steps_done=max(result.steps_done, step),
        last_metrics=result.last_metrics if result.steps_done >= step else data,
    )


def _submitter(folder: JobFolder) -> Submitter:
    """Whether the process that claimed the folder lives; only its own host can tell."""
    try:
        source = json.loads(folder.provenance.read_bytes())["submitted_from"]
        if source["hostname"] != socket.gethostname():
            return "unknown"
        os.kill(int(source["pid"]), 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return "alive"
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown"
    return "alive"


def _age_s(claimed_at: str) -> float:
    return time.time() - seconds_of(claimed_at) if claimed_at else 0.0


def _short(message: str) -> str:
    """One line: of the log that Ray appends to a failed entrypoint's message, only the end (the rest is in logs/driver.log)."""
    what, appended, log = message.partition(", last available logs")
    if appended:
        what += ": " + log.strip().rpartition("\n")[2]
    what = " ".join(what.split())
    return what if len(what) <= REASON_LENGTH else f"…{what[-REASON_LENGTH:]}"
