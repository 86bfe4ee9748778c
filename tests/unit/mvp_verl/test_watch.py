"""When a training saves and ends: what is asked in the job folder, what a deadline asks, and what is answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from mvp_helpers.base.paths import JobFolder
from mvp_helpers.record import control
from mvp_helpers.record.control import Deadline
from mvp_verl.watch import ENDING_S, UNKNOWN_SAVE_S, Watch, margin_s


class Clock:
    """Seconds that pass only when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(folder: JobFolder, clock: Clock) -> Watch:
    watch = Watch(folder, "PPOTrainer", clock)
    watch.begin()
    return watch


def train(watch: Watch, clock: Clock, step: int, seconds: float = 2.0, last: bool = False) -> bool:
    clock.now += seconds
    return watch.step_done(step, last)


def test_nothing_is_saved_or_ended_unless_it_is_asked_for(watch: Watch, clock: Clock, folder: JobFolder) -> None:
    assert not any(train(watch, clock, step) for step in range(1, 50))
    watch.saved("/checkpoints/global_step_49", 1.0)
    assert not watch.ending and control.saved(folder) is None


def test_a_trainer_that_begins_can_be_asked(watch: Watch, folder: JobFolder) -> None:
    trainer = control.trainer(folder)
    assert trainer and trainer.supported and trainer.trainer == "PPOTrainer" and trainer.problem == ""


def test_a_stop_saves_the_step_it_comes_in_and_ends(watch: Watch, clock: Clock, folder: JobFolder) -> None:
    assert not train(watch, clock, 18)
    request = control.ask_stop(folder)
    assert train(watch, clock, 19) and watch.ending
    watch.saved("/c/global_step_19", 3.25)
    saved = control.saved(folder)
    assert saved and (saved.step, saved.path, saved.seconds) == (19, "/c/global_step_19", 3.25)
    assert (saved.reason, saved.request_id, saved.ends) == ("stop", request.id, True)


def test_a_stop_during_a_save_ends_with_that_save(watch: Watch, clock: Clock, folder: JobFolder) -> None:
    assert not train(watch, clock, 10)  # and the trainer saves by its own frequency
    control.ask_stop(folder)
    watch.saved("/c/global_step_10", 20.0)
    saved = control.saved(folder)
    assert watch.ending and saved and (saved.step, saved.ends) == (10, True)


def test_a_save_is_written_once_a_request_and_the_training_goes_on(watch: Watch, clock: Clock, folder: JobFolder) -> None:
    first = control.ask_save(folder)
    assert train(watch, clock, 3) and not watch.ending
    watch.saved("/c/global_step_3", 1.0)
    saved = control.saved(folder)
    assert saved and (saved.step, saved.request_id, saved.ends) == (3, first.id, False)
    assert not train(watch, clock, 4)
    second = control.ask_save(folder)
    assert train(watch, clock, 5)
    watch.saved("/c/global_step_5", 1.0)
    saved = control.saved(folder)
    assert saved and (saved.step, saved.request_id) == (5, second.id)


def test_a_stop_wins_over_a_save(watch: Watch, clock: Clock, folder: JobFolder) -> None:
    control.ask_save(folder)
    control.ask_stop(folder)
    assert train(watch, clock, 1) and watch.ending


def test_the_last_step_ends_by_itself_and_is_not_a_stop(watch: Watch, clock: Clock, folder: JobFolder) -> None:
    control.ask_stop(folder)
    assert not train(watch, clock, 20, last=True)
    watch.saved("/c/global_step_20", 1.0)
    assert not watch.ending and control.saved(folder) is None


def test_a_stop_that_does_not_wait_is_not_answered_with_a_save(watch: Watch, clock: Clock, folder: JobFolder) -> None:
    control.ask_stop(folder)
    control.ask_stop(folder, at_once=True)
    assert not train(watch, clock, 1) and not watch.ending


def test_a_step_that_is_reported_twice_counts_once(watch: Watch, clock: Clock, folder: JobFolder) -> None:
    control.ask_save(folder)
    assert train(watch, clock, 1) and not train(watch, clock, 1)


def test_the_margin_is_two_saves_a_step_and_the_end_of_the_processes() -> None:
    assert margin_s(step_s=30, save_s=100) == 230 + ENDING_S
    assert margin_s(step_s=30, save_s=None) == 2 * UNKNOWN_SAVE_S + 30 + ENDING_S


def test_a_deadline_ends_the_training_before_a_step_that_would_come_too_late(
    watch: Watch, clock: Clock, folder: JobFolder
) -> None:
    control.set_deadline(folder, Deadline(at=clock.now + 1000, source="save_by of the JobSpec"))
    step, saved_at = 0, 0.0
    while not watch.ending:
        step += 1
        if train(watch, clock, step, 30) or step % 5 == 0:
            clock.now += 100
            watch.saved(f"/c/global_step_{step}", 100)
            saved_at = clock.now
        assert clock.now < 2000
    saved = control.saved(folder)
    assert saved and (saved.step, saved.reason, saved.source) == (step, "deadline", "save_by of the JobSpec")
    # Neither too late nor a step too early: with one more step and save it would have been over the margin.
    assert saved_at <= 2000 - 100 and saved_at + 30 + margin_s(30, 100) > 2000


def test_a_deadline_is_seen_when_it_is_set_during_the_training(watch: Watch, clock: Clock, folder: JobFolder) -> None:
    assert not train(watch, clock, 1)
    control.set_deadline(folder, Deadline(at=clock.now + 1, source="MVP_DEADLINE"))
    assert train(watch, clock, 2) and watch.ending


def test_the_usual_times_are_reported(watch: Watch, clock: Clock, folder: JobFolder) -> None:
    for step in range(1, 5):
        train(watch, clock, step, 7)
    watch.saved("/c/global_step_4", 12.0)
    trainer = control.trainer(folder)
    assert trainer and (trainer.step_s, trainer.save_s) == (7, 12)


def test_an_unsupported_trainer_says_why(folder: JobFolder, capfd: pytest.CaptureFixture[str]) -> None:
    Watch(folder, "MyTrainer").unsupported("its fit is different")
    trainer = control.trainer(folder)
    assert trainer and not trainer.supported and trainer.problem == "its fit is different"
    assert "MyTrainer cannot be asked to save: its fit is different" in capfd.readouterr().err


@pytest.mark.parametrize("content", [b"", b"{", b'{"id": 7}', b"\xff\xfe", b"[]"])
def test_a_damaged_request_does_not_end_a_training(watch: Watch, clock: Clock, folder: JobFolder, content: bytes) -> None:
    for name in ("stop", "save", "deadline"):
        (folder.control / f"{name}.json").write_bytes(content)
    assert not train(watch, clock, 1) and not watch.ending


def test_a_job_folder_that_cannot_be_written_does_not_end_a_training(clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    watch = Watch(JobFolder(Path("/proc/nowhere")), "PPOTrainer", clock)
    watch.begin()
    assert not train(watch, clock, 1)
    watch.saved("/c/global_step_1", 1.0)
    assert "MVP_WARNING: cannot write /proc/nowhere/control/trainer.json" in capfd.readouterr().err


def test_a_stop_request_stays_as_it_is_unless_it_becomes_stricter(folder: JobFolder) -> None:
    first = control.ask_stop(folder)
    assert control.ask_stop(folder) == first
    stricter = control.ask_stop(folder, at_once=True)
    assert stricter.now and control.ask_stop(folder) == stricter == control.stop_request(folder)
