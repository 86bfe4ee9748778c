"""Stops jobs so that nothing is lost: trainers save and end; afterwards nothing of them runs. Asks for a checkpoint between.

A trainer that cannot be asked to save gets SIGTERM and time, then SIGKILL; when it would lose steps, only with ``at_once``.
"""

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
from ..cluster import ray_node
from ..cluster.cluster_file import Cluster
from ..cluster.ray_api import ENDED, RayApi
from ..plan import environment, plan
from ..record import chain as chains
from ..record import control, debug_bundle, job_folder, metrics, reconcile
from ..record.control import Saved, Trainer
from ..record.job_folder import Result, State
from . import stopping

Say = Callable[[str], None]

POLL_S = 0.2
NEVER_STARTED_S = 3.0
"""A job that Ray still has not started this long after the stop will not train any more: its folder says STOPPED."""
MARGIN_S = environment.LAST_WORD_S + 20.0
"""Beyond the trainer's time: for the job runner, then for Ray."""
UNKNOWN_S = 300.0
"""The trainer's time where its plan cannot be read any more."""
STOPPED = "stopped on request (52)"
LEAVE_S = 5.0
"""How long processes get to go by themselves when their job has ended, and again after SIGTERM."""


class GoesOn(MvpError):
    """A job was left running, because what was asked of it would cost steps or cannot be done (exit code 4)."""

    exit_code = 4
    label = "left running"


def stop(folders: Sequence[JobFolder], api: RayApi, say: Say, *, at_once: bool = False) -> list[Result]:
    """Stop all these jobs together and return their results when every one of them has ended. One that had ended is left alone.

    Of a chain its latest attempt is stopped, and no other follows. A job whose folder is gone is stopped by Ray alone.

    With ``at_once`` the trainers get SIGTERM without being asked to save.

    Raises:
        BadInput: there is neither a folder nor a record of Ray.
        Blocked: Ray does not answer, or does not have the job yet.
        GoesOn: without ``at_once``, a trainer that cannot be asked to save has steps to lose; none of the jobs was stopped.
        TimedOut: a job goes on longer than its trainer's time and ``MARGIN_S``.
        KeyboardInterrupt: Ctrl-C, after printing that the stop continues.
    """
    gone = [folder for folder in folders if folder.is_gone]
    stopped = [_stop_without_folder(folder, api, say) for folder in gone]
    folders = _end_chains([folder for folder in folders if folder not in gone], say, at_once)
    results = {folder.submission_id: _request(folder, api, say, at_once) for folder in folders}
    asked_at = time.monotonic()
    try:
        for folder in folders:
            if not results[folder.submission_id].ended:
                ended = results[folder.submission_id] = _until_ended(folder, api, asked_at)
                if not any(folder.debug.glob("*-stopped")):
                    debug_bundle.take(folder, api, "stopped")
                after = f"{ended.state} after {clock(time.monotonic() - asked_at)}"
                say(f"{folder.submission_id}: {after}" + (f", {ended.reason}" if ended.reason else "") + f"; {folder.path}")
    except KeyboardInterrupt:
        say("no longer waiting; the stop continues: ./scripts/50_status.sh")
        raise
    return [*stopped, *results.values()]


def _stop_without_folder(folder: JobFolder, api: RayApi, say: Say) -> Result:
    """Have Ray stop a job whose folder was moved or removed; return the state that Ray reports afterwards."""
    name, asked_at = folder.submission_id, time.monotonic()
    record = api.job(name) or {}
    if not record:
        job_folder.read(folder)  # raises when the job is not known
    if record.get("status") not in ENDED:
        api.stop_job(name)
        say(f"{name}: its folder {folder.path} is gone: no checkpoint can be requested; Ray was asked to stop it")
    while (status := (api.job(name) or {}).get("status", "STOPPED")) not in ENDED:
        if time.monotonic() - asked_at > UNKNOWN_S + MARGIN_S:
            raise TimedOut(f"job '{name}' has not ended {clock(UNKNOWN_S + MARGIN_S)} after Ray was asked to stop it")
        time.sleep(POLL_S)
    say(f"{name}: Ray reports {status}; nothing was written, as {folder.path} is gone")
    states: dict[str, State] = {"SUCCEEDED": "SUCCEEDED", "FAILED": "FAILED"}
    return Result(submission_id=name, workload="?", state=states.get(str(status), "STOPPED"))


def _end_chains(folders: Sequence[JobFolder], say: Say, at_once: bool) -> list[JobFolder]:
    """End the chains of these jobs, and return the jobs to stop: the latest attempt of each. Raises GoesOn."""
    if not folders:
        return []
    shared = folders[0].shared
    if not any(chains.find(shared, folder.submission_id) for folder in folders):
        for folder in () if at_once else folders:
            _refuse_loss(folder)
        return list(folders)
    with chains.locked(shared):  # no attempt is started meanwhile
        own = [chains.find(shared, folder.submission_id) for folder in folders]
        latest = [shared.job(chain.latest.id) if chain else folder for folder, chain in zip(folders, own, strict=True)]
        for folder in () if at_once else latest:
            _refuse_loss(folder)
        for chain in own:
            if chain and not chain.ended_at:
                chains.end(shared, chain, STOPPED)
                say(f"{chain.id}: no further attempt follows")
    return latest


def _request(folder: JobFolder, api: RayApi, say: Say, at_once: bool) -> Result:
    name = folder.submission_id
    result = reconcile.settle(folder, job_folder.read(folder), api)
    if result.ended:
        say(f"{name}: has already ended, {result.state}" + (f" ({result.reason})" if result.reason else ""))
        return result
    _write_request(folder, at_once)
    # Ray signals all descendants of the driver, also those that the trainer needs until its end, such as W&B: it is asked last.
    if (at_once or not _can_save(folder)) and api.stop_job(name) is None:
        raise Blocked(f"Ray has no job '{name}' yet ({result.reason or result.state})", hint=f"./scripts/52_stop.sh {name}")
    say(f"{name}: {_announce(folder, at_once)}")
    return result


def _write_request(folder: JobFolder, at_once: bool) -> None:
    """Leave the request in the job folder, where the trainer and the job runner look for it. Raises Blocked."""
    saves = not at_once and _can_save(folder)
    try:
        control.ask_stop(folder, at_once=not saves, by_user=True)
    except OSError as error:
        if not saves:  # then it only says who asked
            return
        raise Blocked(f"cannot write {folder.control}: {error.strerror}", hint="--now does not ask for a checkpoint") from None


def _can_save(folder: JobFolder) -> Trainer | None:
    trainer = control.trainer(folder)
    return trainer if trainer and trainer.supported else None


def _announce(folder: JobFolder, at_once: bool) -> str:
    given = _time_given(folder)
    trainer = None if at_once else _can_save(folder)
    if trainer is None:
        return f"asked to stop; its trainer has {given} s to end"
    message = f"asked to finish its step, save and stop; it has {given} s (stop_wait_s), --now does not wait"
    needed = (trainer.step_s or 0) + (trainer.save_s or 0)
    if needed > given:
        message += f"; a step and a save took up to {needed:.0f} s: steps that are not saved in time are lost"
    return message


def _refuse_loss(folder: JobFolder) -> None:
    """Raises GoesOn when stopping this job costs steps, because its trainer cannot be asked to save."""
    if job_folder.read(folder).state != "RUNNING" or _can_save(folder):
        return
    unsaved = stopping.steps_unsaved(folder, plan.read(folder))
    if not unsaved or not unsaved[1]:
        return
    trainer = control.trainer(folder)
    why = f" ({trainer.problem})" if trainer else ""
    raise GoesOn(
        f"job '{folder.submission_id}' cannot be asked to save{why}; {stopping.describe_unsaved(unsaved, 'will be')}",
        hint=f"./scripts/52_stop.sh --now {folder.submission_id}, or wait for its next checkpoint",
    )


def save(folders: Sequence[JobFolder], api: RayApi, say: Say) -> list[tuple[JobFolder, Saved]]:
    """Have each of these jobs write a checkpoint at the end of its step and go on; returns them when all are written.

    Raises:
        BadInput: a job has ended.
        GoesOn: a trainer cannot be asked to save, or has not begun to train.
        TimedOut: no checkpoint within ``stop_wait_s``; the request stays, and the job goes on.
    """
    for folder in folders:
        _refuse_save(folder, api)
    requests = [(folder, control.ask_save(folder)) for folder in folders]
    for folder, _ in requests:
        say(f"{folder.submission_id}: asked for a checkpoint at the end of its step")
    return [(folder, _until_saved(folder, request)) for folder, request in requests]


def _refuse_save(folder: JobFolder, api: RayApi) -> None:
    name = folder.submission_id
    result = reconcile.settle(folder, job_folder.read(folder), api)
    if result.ended:
        raise BadInput(f"job '{name}' has ended, {result.state}" + (f" ({result.reason})" if result.reason else ""))
    trainer = control.trainer(folder)
    if trainer and not trainer.supported:
        raise GoesOn(f"job '{name}' cannot be asked to save: {trainer.problem}", hint="trainer.save_freq in trainer_overrides")
    if not trainer:
        trained = metrics.tail(folder.metrics)[0]
        why = "its trainer does not look for requests" if trained else "its trainer has not begun to train"
        raise GoesOn(f"job '{name}' cannot be asked to save: {why}", hint=f"./scripts/51_logs.sh {name}")


def _until_saved(folder: JobFolder, request: control.Request) -> Saved:
    name, patience = folder.submission_id, _time_given(folder)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        result, saved = job_folder.read(folder), control.saved(folder)
        if saved and (saved.request_id == request.id or saved.saved_at > request.requested_at):
            return saved
        if result.ended:
            raise Failed(f"job '{name}' ended before it saved: {result.state}" + (f", {result.reason}" if result.reason else ""))
        time.sleep(POLL_S)
    raise TimedOut(
        f"job '{name}' has not saved {patience} s after it was asked; it will at the end of its step",
        hint=f"./scripts/51_logs.sh {name} -f",
    )


def _time_given(folder: JobFolder) -> int:
    return plan.read(folder).stop_wait_s


def _until_ended(folder: JobFolder, api: RayApi, asked_at: float) -> Result:
    given = _time_given(folder)
    patience, asked_ray = given + MARGIN_S, False
    while (waited := time.monotonic() - asked_at) < patience:
        result = job_folder.read(folder)
        status: str | None = "unknown"
        with contextlib.suppress(MvpError):  # The folder may show the end although Ray does not answer for a moment.
            status = (api.job(folder.submission_id) or {}).get("status")
        if result.ended and status != "RUNNING":
            return result
        if not asked_ray and (result.ended or waited > given + environment.LAST_WORD_S):
            asked_ray = True
            with contextlib.suppress(MvpError):
                api.stop_job(folder.submission_id)
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
        f"job '{folder.submission_id}' has not ended {clock(waited)} after it was asked to stop", hint="./scripts/50_status.sh"
    )


def stop_here(folder: JobFolder, host: str, say: Say, *, at_once: bool = False) -> None:
    """Where Ray does not answer: ask the job runner directly, if it is on this host, and wait for the end of its job.

    Raises TimedOut: the job goes on longer than its trainer's time and ``MARGIN_S``.
    """
    name, word = folder.submission_id, f"run-job {folder.path}"
    gone = folder.is_gone
    if not gone and job_folder.read(folder).driver_host not in (None, host):  # hosts can share a machine
        return
    runners = [pid for pid in processes.holding(environment.JOB_FOLDER, str(folder.path)) if word in processes.command(pid)]
    if not runners:
        return
    if gone:
        say(f"{host}: job '{name}': its folder {folder.path} is gone: no checkpoint can be requested")
    else:
        _write_request(folder, at_once)
        say(f"{host}: job '{name}': {_announce(folder, at_once)}")
    born = {pid: processes.start_time(pid) for pid in runners}
    for pid in runners:
        with contextlib.suppress(ProcessLookupError):
            processes.send(pid, signal.SIGTERM)
    patience = (UNKNOWN_S if gone else _time_given(folder)) + MARGIN_S
    deadline = time.monotonic() + patience

    def goes_on() -> bool:
        if gone:
            return any(processes.start_time(pid) == born[pid] is not None for pid in runners)
        return not job_folder.read(folder).ended

    while goes_on():
        if time.monotonic() > deadline:
            raise TimedOut(f"{host}: job '{name}' has not ended {clock(patience)} after its runner was asked to stop")
        time.sleep(POLL_S)


def end_leftovers(cluster: Cluster, folder: JobFolder, host: str, say: Say) -> None:
    """End the processes that an ended job left on this host, and name those that may be another job's.

    A job's processes were started with its ``environment.JOB_FOLDER``, inherited its mark, or have such a process as ancestor.

    Raises:
        BadInput: the job has not ended.
        Failed: a process is still there after SIGKILL.
    """
    name, path = folder.submission_id, str(folder.path)
    if not folder.is_gone and not job_folder.read(folder).ended:
        raise BadInput(f"job '{name}' has not ended", hint=f"./scripts/52_stop.sh {name}")

    def left() -> list[int]:
        found = {*processes.holding(environment.JOB_FOLDER, path), *processes.marked(path)}
        return sorted(processes.with_descendants(found) - {os.getpid()})

    deadline = time.monotonic() + LEAVE_S
    while left() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    commands = {pid: processes.command(pid) for pid in left()}
    if still := processes.end(left, LEAVE_S):
        raise Failed(f"{host}: {len(still)} processes of job '{name}' cannot be ended: {', '.join(map(str, still))}")
    for pid, command in commands.items():
        say(f"{host}: ended a process that job '{name}' had left: pid {pid} ({command[:100]})")
    unknown = ray_node.orphans_of_unknown_jobs(cluster, host)
    for pid in unknown:
        say(f"{host}: pid {pid} ({processes.command(pid)[:100]}) may be of job '{name}' or of another: 02_down.sh ends it")
    say(f"{host}: no {'other ' if unknown else ''}process of job '{name}' is left")
