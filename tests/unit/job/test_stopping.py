"""The job runner's side of a stop: who is asked, who is signalled and when, and what the end is called."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec
import pytest
from toys import plan_of

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.job import stopping
from mvp_helpers.job.stopping import KILL_AFTER_S, Stopping
from mvp_helpers.plan.plan import Plan
from mvp_helpers.record import control
from mvp_helpers.record.control import Saved, Trainer
from mvp_helpers.trainers.checkpoint import Checkpoint

WAIT_S = 60


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock, in seconds: the test sets its only element."""
    moment = [100.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: moment[0])
    return moment


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return msgspec.structs.replace(plan_of("a", tmp_path), workload="ppo")


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    folder = SharedRoot(tmp_path).job("a")
    folder.path.mkdir(parents=True)
    return folder


def say_supported(folder: JobFolder, problem: str = "") -> None:
    trainer = Trainer(supported=not problem, trainer="PPOTrainer", problem=problem, host="worker-0", pid=1, written_at="2026")
    control.set_trainer(folder, trainer)


def say_saved(folder: JobFolder, step: int, reason: control.Reason = "stop", source: str = "") -> None:
    saved = Saved(step=step, path=f"/c/global_step_{step}", seconds=1, reason=reason, source=source, saved_at="2026")
    control.set_saved(folder, saved)


def trained(folder: JobFolder, steps: int) -> None:
    folder.metrics.write_text("".join(f'{{"step": {step}, "data": {{"loss": 1.0}}}}\n' for step in range(1, steps + 1)))


def whole(monkeypatch: pytest.MonkeyPatch, folder: JobFolder, *steps: int) -> None:
    """The job's checkpoints, newest first; a negative step is cut short."""
    every = [Checkpoint(abs(step), folder.path, 2, "" if step > 0 else "cut short") for step in steps]
    monkeypatch.setattr(stopping.verl_checkpoints, "every", lambda *_: every)


def test_without_a_stop_nothing_is_signalled(folder: JobFolder) -> None:
    say_supported(folder)
    assert Stopping(folder, WAIT_S).next_signal() is None and control.stop_request(folder) is None


def test_a_trainer_that_can_save_is_asked_and_signalled_only_after_its_time(folder: JobFolder, now: list[float]) -> None:
    say_supported(folder)
    stop = Stopping(folder, WAIT_S)
    stop.request()
    assert stop.next_signal() is None and control.stop_request(folder)
    now[0] += WAIT_S - 1
    stop.request()
    assert stop.next_signal() is None
    now[0] += 1
    assert stop.next_signal() is signal.SIGTERM and stop.next_signal() is None
    now[0] += KILL_AFTER_S + 0.1
    assert stop.next_signal() is signal.SIGKILL


@pytest.mark.parametrize("problem", [None, "its fit is different"])
def test_any_other_trainer_gets_sigterm_at_once_and_its_time_until_sigkill(
    folder: JobFolder, now: list[float], problem: str | None
) -> None:
    if problem:
        say_supported(folder, problem)
    stop = Stopping(folder, WAIT_S)
    stop.request()
    assert stop.next_signal() is signal.SIGTERM and control.stop_request(folder) is None
    now[0] += WAIT_S
    assert stop.next_signal() is None
    now[0] += 1
    assert stop.next_signal() is signal.SIGKILL


def test_a_stop_that_does_not_wait_signals_at_once_also_when_it_comes_second(folder: JobFolder, now: list[float]) -> None:
    say_supported(folder)
    stop = Stopping(folder, WAIT_S)
    stop.request()
    assert stop.next_signal() is None
    control.ask_stop(folder, at_once=True)
    assert stop.next_signal() is signal.SIGTERM
    other = Stopping(folder, WAIT_S)
    other.request()
    assert other.next_signal() is signal.SIGTERM and not other.asked


def test_a_job_folder_that_cannot_be_written_means_a_signal(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    say_supported(folder)
    monkeypatch.setattr(control, "ask_stop", full)
    stop = Stopping(folder, WAIT_S)
    stop.request()
    assert stop.next_signal() is signal.SIGTERM


def test_a_saved_stop_says_the_step(folder: JobFolder, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    whole(monkeypatch, folder, 19, 10)
    say_saved(folder, 19)
    assert stopping.reason(folder, plan, Stopping(folder, WAIT_S), 0) == "stopped on request, saved at step 19"
    say_saved(folder, 19, "deadline", "MVP_DEADLINE")
    why = stopping.reason(folder, plan, Stopping(folder, WAIT_S), 0)
    assert why == "stopped before its deadline (MVP_DEADLINE), saved at step 19"


def test_a_save_that_is_not_whole_is_not_called_saved(folder: JobFolder, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    whole(monkeypatch, folder, -19, 10)
    say_saved(folder, 19)
    reason = stopping.reason(folder, plan, Stopping(folder, WAIT_S), 0)
    assert reason == "stopped on request; the checkpoint of step 19 is not whole: /c/global_step_19"


def test_a_save_without_an_end_is_not_a_stop(folder: JobFolder, plan: Plan) -> None:
    say_saved(folder, 19, "save")
    assert stopping.reason(folder, plan, Stopping(folder, WAIT_S), 0) == ""


def test_a_signalled_trainer_loses_steps_and_it_says_how_many(
    folder: JobFolder, plan: Plan, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole(monkeypatch, folder, 10)
    trained(folder, 19)
    stop = Stopping(folder, WAIT_S)
    stop.request()
    stop.next_signal()
    lost = "the last checkpoint is step 10, 9 steps are lost"
    assert stopping.reason(folder, plan, stop, 143) == f"stopped by 52_stop or by the end of its node; {lost}"
    say_supported(folder)
    late = Stopping(folder, WAIT_S)
    late.request()
    late.next_signal()
    now[0] += WAIT_S + 1
    late.next_signal()
    assert f"not saved within 60 s (stop_wait_s); {lost}" in stopping.reason(folder, plan, late, 143)


def test_a_trainer_that_was_asked_and_reached_its_own_end_was_not_stopped(folder: JobFolder, plan: Plan) -> None:
    say_supported(folder)
    stop = Stopping(folder, WAIT_S)
    stop.request()
    stop.next_signal()
    assert stopping.reason(folder, plan, stop, 0) == ""


def test_a_trainer_that_was_asked_and_failed_before_it_saved_says_so(folder: JobFolder, plan: Plan) -> None:
    say_supported(folder)
    stop = Stopping(folder, WAIT_S)
    stop.request()
    stop.next_signal()
    why = "stopped by 52_stop or by the end of its node; the trainer ended with exit code 1 before it had saved"
    assert stopping.reason(folder, plan, stop, 1) == f"{why}; no checkpoint was saved, no step is lost"


def test_what_is_unsaved_is_counted_from_the_last_whole_checkpoint_or_what_was_resumed(
    folder: JobFolder, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mvp_helpers.trainers.checkpoint import Resume

    trained(folder, 19)
    whole(monkeypatch, folder, -20, 10)
    assert stopping.steps_unsaved(folder, plan) == (10, 9)
    whole(monkeypatch, folder)
    assert stopping.steps_unsaved(folder, plan) == (0, 19)
    resumed = msgspec.structs.replace(plan, resume=Resume(submission_id="b", step=18, path="/c", world_size=2))
    assert stopping.steps_unsaved(folder, resumed) == (18, 1)
    assert stopping.steps_unsaved(folder, msgspec.structs.replace(plan, workload="versions")) is None
    assert stopping.steps_unsaved(folder, msgspec.structs.replace(plan, workload="no-such-workload")) is None


def test_the_sentence_agrees_with_the_number() -> None:
    assert stopping.describe_unsaved((10, 1), "are") == "the last checkpoint is step 10, 1 step is lost"
    assert stopping.describe_unsaved((20, 0), "are") == "the last checkpoint is step 20, no step is lost"
    assert stopping.describe_unsaved((0, 9), "will be") == "no checkpoint was saved, 9 steps will be lost"
    assert stopping.describe_unsaved(None, "are") == ""
