"""Which endings are caused by something outside of a job."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.times import now
from mvp_helpers.diagnosis import signatures
from mvp_helpers.plan import deadline
from mvp_helpers.record import control, job_folder
from mvp_helpers.record.chain import OUT_OF_MEMORY
from mvp_helpers.record.job_folder import Result, State
from mvp_helpers.retry import cause


def ended(tmp_path: Path, state: State, log: str = "", reason: str = "") -> tuple[JobFolder, Result]:
    result = Result(submission_id="job", workload="ppo", state="CLAIMED")
    folder = job_folder.claim(SharedRoot(tmp_path), result)
    folder.driver_log.write_text(log)
    result = msgspec.structs.replace(result, state=state, reason=reason, ended_at=now())
    job_folder.write(folder, result)
    return folder, result


@pytest.mark.parametrize(
    ("reason", "log", "expected"),
    [
        ("the trainer was killed by SIGKILL", "", "host"),
        ("the Ray cluster that ran it is gone", "", "cluster"),
        ("Job supervisor actor died: The actor died because its node has died.", "", "cluster"),
        ("exit code 1", "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n", "cluster"),
        ("exit code 1", "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'x'\n", None),
        ("exit code 1", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", None),
        ("exit code 1", "OSError: [Errno 28] No space left on device: '/x'\n", None),
        ("exit code 1", "Caught signal 7 (Bus error: nonexistent physical address)\n", None),
        ("exit code 1", "", None),
    ],
)
def test_a_failed_job(tmp_path: Path, reason: str, log: str, expected: str | None) -> None:
    folder, result = ended(tmp_path, "FAILED", log, reason)
    found = cause.of(folder, result)
    assert found.cause == expected and found.why
    assert cause.exit_code(folder, result) == (5 if expected else 1)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("gcs-unreachable", "cluster"),
        ("raylet-ended", "cluster"),
        ("actor-never-ran", "cluster"),
        ("ray-up-failed", "cluster"),
        ("kernel-oom", "host"),
        ("no-memory", "host"),
        ("environment-module-missing", None),
    ],
)
def test_a_cause_follows_from_the_rule_where_its_boundary_is_another(tmp_path: Path, rule: str, expected: str | None) -> None:
    log = next((Path(__file__).parents[1] / "logs" / rule).glob("positive*.log")).read_text()
    folder, result = ended(tmp_path, "FAILED", log, "exit code 1")
    found = cause.of(folder, result)
    assert (found.rule, found.cause) == (rule, expected), found


@pytest.mark.parametrize("state", ["SUCCEEDED", "BLOCKED", "NOT_SUBMITTED"])
def test_a_job_that_succeeded_or_never_began_is_not_tried_again(tmp_path: Path, state: State) -> None:
    folder, result = ended(tmp_path, state, reason="verl comes from elsewhere")
    assert cause.of(folder, result).cause is None
    assert cause.exit_code(folder, result) == (0 if state == "SUCCEEDED" else 3)


def saved(reason: control.Reason, source: str) -> control.Saved:
    return control.Saved(step=3, path="/c", seconds=1.0, reason=reason, source=source, saved_at=now())


def test_a_stop_from_outside_is_a_preemption_and_one_that_was_asked_for_is_not(tmp_path: Path) -> None:
    folder, result = ended(tmp_path / "a", "STOPPED")
    assert cause.of(folder, result).cause == "preempted"
    control.ask_stop(folder)  # by the job runner, which got SIGTERM
    assert cause.of(folder, result).cause == "preempted"
    control.ask_stop(folder, at_once=True, by_user=True)
    assert cause.of(folder, result).cause is None


@pytest.mark.parametrize(
    ("source", "expected"),
    [(deadline.OF_JOBSPEC, None), (deadline.VARIABLE, "preempted"), ("the end of Slurm allocation 7", "preempted")],
)
def test_the_end_of_an_allocation_is_a_preemption_and_the_users_own_deadline_is_not(
    tmp_path: Path, source: str, expected: str | None
) -> None:
    folder, result = ended(tmp_path, "STOPPED")
    control.set_saved(folder, saved("deadline", source))
    assert cause.of(folder, result).cause == expected


def test_the_rules_that_are_named_here_exist() -> None:
    known = {rule.id: rule for rule in signatures.load().rules}
    assert {*cause.OF_RULE, *cause.FOR_GOOD, *OUT_OF_MEMORY} <= known.keys()
    boundaries = {rule.boundary for rule in known.values()}
    assert cause.OF_BOUNDARY.keys() <= boundaries
