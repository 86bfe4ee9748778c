"""Stops jobs so that a checkpoint can finish: trainers get SIGTERM and time, then SIGKILL. Afterwards nothing of them runs."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence

import msgspec

from ..base import processes
from ..base.errors import BadInput, Blocked, Failed, MvpError, TimedOut
from ..base.paths import JobFolder
from ..base.times import clock, now
from ..cluster.ray_api import ENDED, RayApi
from ..plan import environment, plan
from ..record import debug_bundle, job_folder, reconcile
from ..record.job_folder import Result

Say = Callable[[str], None]

POLL_S = 0.2
NEVER_STARTED_S = 3.0
"""A job that Ray still has not started so long after it was told to stop will not train any more: its folder says STOPPED."""
MARGIN_S = environment.LAST_WORD_S + 20.0
"""Beyond the trainer's time: for the job runner, then for Ray."""
LEAVE_S = 5.0
"""How long processes get to go by themselves when their job has ended, and again after SIGTERM."""


def stop(folders: Sequence[JobFolder], api: RayApi, say: Say) -> list[Result]:
    """Stop all these jobs at once and return their results when every one of them has ended. One that had ended is left alone.

    Raises:
        Blocked: Ray does not answer, or does not have the job yet.
        TimedOut: a job goes on longer than its trainer's time and ``MARGIN_S``.
        KeyboardInterrupt: Ctrl-C, after saying that the stop goes on.
    """
    results = {folder.submission_id: _request(folder, api, say) for folder in folders}
    asked_at = time.monotonic()
    try:
        for folder in folders:
            if not results[folder.submission_id].ended:
                ended = results[folder.submission_id] = _until_ended(folder, api, asked_at)
                if not any(folder.debug.glob("*-stopped")):
                    debug_bundle.take(folder, api, "stopped")
                say(f"{folder.submission_id}: {ended.state} after {clock(time.monotonic() - asked_at)}; {folder.path}")
    except KeyboardInterrupt:
        say("no longer waiting; the stop goes on: ./scripts/50_status.sh")
        raise
    return list(results.values())


def _request(folder: JobFolder, api: RayApi, say: Say) -> Result:
    name = folder.submission_id
    result = reconcile.settle(folder, job_folder.read(folder), api)
    if result.ended:
        say(f"{name}: has already ended, {result.state}" + (f" ({result.reason})" if result.reason else ""))
        return result
    if api.stop_job(name) is None:
        raise Blocked(f"Ray has no job '{name}' yet ({result.reason or result.state})", hint=f"./scripts/52_stop.sh {name}")
    say(f"{name}: told to stop; its trainer has {_time_given(folder)} s to finish a checkpoint")
    return result


def _time_given(folder: JobFolder) -> int:
    return plan.read(folder).stop_wait_s


def _until_ended(folder: JobFolder, api: RayApi, asked_at: float) -> Result:
    patience = _time_given(folder) + MARGIN_S
    while (waited := time.monotonic() - asked_at) < patience:
        result = job_folder.read(folder)
        status: str | None = "unknown"
        with contextlib.suppress(MvpError):  # The folder may tell the end although Ray does not answer for a moment.
            status = (api.job(folder.submission_id) or {}).get("status")
        if result.ended and status != "RUNNING":
            return result
        if status in ENDED or status is None:
            result = reconcile.settle(folder, result, api)
        elif status == "PENDING" and waited > NEVER_STARTED_S and result.state in ("CLAIMED", "SUBMITTED"):
            # Ray stops it as soon as its turn comes, and the job runner takes no folder that says STOPPED.
            result = msgspec.structs.replace(
                result, state="STOPPED", reason="stopped on request, before it started", ended_at=now()
            )
            job_folder.write(folder, result)
        if not result.ended:
            time.sleep(POLL_S)
    raise TimedOut(
        f"job '{folder.submission_id}' has not ended {clock(waited)} after it was told to stop", hint="./scripts/50_status.sh"
    )


def stop_here(folder: JobFolder, host: str, say: Say) -> None:
    """Where Ray does not answer: tell the job runner directly, if it is on this host, and wait for its last word.

    Raises TimedOut: the job goes on longer than its trainer's time and ``MARGIN_S``.
    """
    name, word = folder.submission_id, f"run-job {folder.path}"
    if job_folder.read(folder).driver_host not in (None, host):  # hosts can share a machine
        return
    runners = [pid for pid in processes.holding(environment.JOB_FOLDER, str(folder.path)) if word in processes.command(pid)]
    if not runners:
        return
    say(f"{host}: the runner of job '{name}' is told to stop; its trainer has {_time_given(folder)} s to finish a checkpoint")
    for pid in runners:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    patience = _time_given(folder) + MARGIN_S
    deadline = time.monotonic() + patience
    while not job_folder.read(folder).ended:
        if time.monotonic() > deadline:
            raise TimedOut(f"{host}: job '{name}' has not ended {clock(patience)} after its runner was told to stop")
        time.sleep(POLL_S)


def end_leftovers(folder: JobFolder, host: str, say: Say) -> None:
    """End what is left on this host of a job that has ended: every process that was started with its ``environment.JOB_FOLDER``.

    Raises:
        BadInput: the job has not ended.
        Failed: a process is still there after SIGKILL.
    """
    name = folder.submission_id
    if not job_folder.read(folder).ended:
        raise BadInput(f"job '{name}' has not ended", hint=f"./scripts/52_stop.sh {name}")

    def left() -> list[int]:
        return processes.holding(environment.JOB_FOLDER, str(folder.path))

    deadline = time.monotonic() + LEAVE_S
    while left() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    found = {pid: processes.command(pid) for pid in left()}
    if still := processes.end(left, LEAVE_S):
        raise Failed(f"{host}: {len(still)} processes of job '{name}' cannot be ended: {', '.join(map(str, still))}")
    for pid, command in found.items():
        say(f"{host}: ended what job '{name}' had left: pid {pid} ({command[:100]})")
    say(f"{host}: no process of job '{name}' is left")
