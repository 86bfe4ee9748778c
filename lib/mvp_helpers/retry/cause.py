"""Whether a job was ended by something outside of it, by the diagnosis that script 55 gives."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.paths import JobFolder
from ..diagnosis import job_evidence
from ..diagnosis.answer import Diagnosis
from ..plan import deadline
from ..record import control
from ..record.chain import Cause
from ..record.job_folder import Result

OF_BOUNDARY: dict[str, Cause] = {
    "host": "host",
    "Ray": "ray",
    "cluster": "cluster",
    "cluster size": "cluster",
    "network": "cluster",
    "Slurm": "cluster",
}
OF_RULE: dict[str, Cause] = {
    "gcs-unreachable": "cluster",
    "raylet-ended": "cluster",
    "actor-never-ran": "cluster",
    "ray-up-failed": "cluster",
    "node-memory": "cluster",
    "no-memory": "host",
    "kernel-oom": "host",
    "pod-evicted": "host",
    "ended-from-outside": "preempted",
    "signal-from-outside": "preempted",
    "terminal-closed": "preempted",
    "launcher-killed": "preempted",
    "slurm-cancelled": "preempted",
    "slurm-time-limit": "preempted",
}
FOR_GOOD = frozenset(
    {
        "permission",
        "ray-version",
        "ray-token",
        "no-gpu",
        "environment-module-missing",
        "not-submitted",
        "data-loader-died",
        "bus-error",
        "shared-memory-full",
        "nccl-shared-memory",
    }
)
"""Rules of an environment that does not change for another attempt, or that the job's own code causes as likely."""
STATES = ("FAILED", "STOPPED")
"""A job that is BLOCKED or NOT_SUBMITTED did not begin: what it lacks, another attempt lacks too."""
EXIT_CODE = 5


@dataclass(frozen=True)
class Ending:
    """Why a job ended without success. ``cause`` is None when it is the job's own, the user's wish, or unknown."""

    cause: Cause | None
    rule: str
    why: str


def of(folder: JobFolder, result: Result) -> Ending:
    """Return why this job, which has ended, ended so. Reads its logs."""
    if result.state == "STOPPED":
        return _of_stopped(folder, result)
    if result.state not in STATES:
        return Ending(None, "", result.reason or result.state)
    diagnosis = job_evidence.of_job(folder, result)
    return Ending(_of_diagnosis(diagnosis), diagnosis.rule, diagnosis.evidence or result.reason)


def _of_stopped(folder: JobFolder, result: Result) -> Ending:
    saved, why = control.saved(folder), result.reason or "stopped"
    if saved and saved.reason == "deadline":
        return Ending(None if saved.source == deadline.OF_JOBSPEC else "preempted", "deadline", why)
    if result.stall:  # on_stall: stop
        return Ending(None, "stalled", why)
    request = control.stop_request(folder)
    return Ending(None if request and request.by_user else "preempted", "stopped", why)


def _of_diagnosis(diagnosis: Diagnosis) -> Cause | None:
    if diagnosis.rule in OF_RULE:
        return OF_RULE[diagnosis.rule]
    if diagnosis.whose != "environment" or diagnosis.rule in FOR_GOOD:
        return None
    return OF_BOUNDARY.get(diagnosis.boundary)


def exit_code(folder: JobFolder, result: Result) -> int:
    """Return the exit code for a job that has ended: 0 succeeded, 1 failed, 3 blocked, 5 ended by something outside of it."""
    if result.state in STATES:
        return EXIT_CODE if of(folder, result).cause else 1
    return 0 if result.state == "SUCCEEDED" else 3
