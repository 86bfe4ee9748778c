"""Where the time of a job and of a chain went: every second is in one part, and the parts add up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.times import moment_of
from mvp_helpers.record import control, wall_time
from mvp_helpers.record.stall import Stall
from mvp_helpers.record.wall_time import Account, WallTime

T = 1_700_000_000.0


def timing(**seconds: float) -> dict[str, float]:
    return {f"timing_s/{name}": value for name, value in seconds.items()}


def adds_up(account: WallTime) -> None:
    assert sum(account.percent.values()) == pytest.approx(100, abs=1)
    assert sum(account.seconds.values()) == pytest.approx(account.total_s, abs=0.1)
    assert all(seconds >= 0 for seconds in account.seconds.values()), account.seconds


def ran(before: WallTime | None = None, waited: float = 0.0, steps: tuple[int, ...] = (1, 2)) -> Account:
    """Queued for 5 s, prechecked for 10, started up for 20; steps of 10 s each."""
    account = Account(T, T + 5, before, waited)
    account.trainer_started = T + 15
    for at, step in enumerate(steps, 1):
        account.step(step, timing(step=10, gen=4, update_actor=3, update_weights=1, save_checkpoint=1), T + 35 + 10 * at)
    return account


def test_a_job_of_two_steps_has_every_second_in_one_part() -> None:
    account = ran().so_far(T + 60, [], None)
    seconds = {part: seconds for part, seconds in account.seconds.items() if seconds}
    assert seconds == {
        "queue": 5,
        "precheck": 10,
        "start_up": 20,
        "generation": 8,
        "training": 6,
        "weight_sync": 2,
        "saving": 2,
        "other": 7,  # 2 of the steps, 5 after the last one
    }
    assert (account.total_s, account.attempts, account.last_step) == (60, 1, 2)
    adds_up(account)


def test_a_validation_is_not_part_of_a_steps_own_time() -> None:
    account = Account(T, T)
    account.trainer_started = T
    account.step(1, timing(step=10, gen=10, testing=30), T + 50)
    seconds = account.so_far(T + 50, [], None).seconds
    assert (seconds["start_up"], seconds["validation"], seconds["generation"]) == (10, 30, 10)


def test_a_job_that_never_trains_is_queue_precheck_and_start_up() -> None:
    waiting = Account(T, T + 30).so_far(T + 40, [], None)
    assert (waiting.seconds["queue"], waiting.seconds["precheck"], waiting.seconds["start_up"]) == (30, 10, 0)
    account = Account(T, T + 30)
    account.trainer_started = T + 40
    started = account.so_far(T + 100, [], None)
    assert (started.seconds["start_up"], started.seconds["other"]) == (60, 0)
    adds_up(waiting)
    adds_up(started)


def test_a_stall_is_counted_from_the_last_step_and_not_also_as_that_step() -> None:
    account = ran(steps=(1,))
    account.step(2, timing(step=300, gen=300), T + 345)
    stall = Stall(step=1, noticed_at=moment_of(T + 105), limit_s=60, resumed_at=moment_of(T + 345))
    seconds = account.so_far(T + 345, [stall], None)
    assert seconds.seconds["stalled"] == 300
    assert seconds.seconds["generation"] < 10
    adds_up(seconds)


def test_a_stall_that_goes_on_and_one_before_the_first_step_are_counted() -> None:
    account = ran(steps=(1,))
    going_on = Stall(step=1, noticed_at=moment_of(T + 105), limit_s=60)
    assert account.so_far(T + 145, [going_on], None).seconds["stalled"] == 100
    early = Account(T, T)
    early.trainer_started = T
    at_start = early.so_far(T + 1000, [Stall(step=0, noticed_at=moment_of(T + 900), limit_s=900)], None)
    assert (at_start.seconds["stalled"], at_start.seconds["start_up"]) == (1000, 0)
    adds_up(at_start)


def test_steps_that_an_earlier_attempt_had_trained_are_repeated() -> None:
    first = ran(steps=(1, 2, 3)).so_far(T + 70, [], None)
    second = ran(first, waited=25, steps=(3, 4)).so_far(T + 55, [], None)
    assert (second.attempts, second.last_step, second.total_s) == (2, 4, 70 + 25 + 55)
    assert second.seconds["repeated"] == 10
    assert second.seconds["queue"] == 5 + 25 + 5
    assert second.seconds["generation"] == 4 * 4  # of steps 1, 2, 3 and 4
    adds_up(second)


def test_a_trainer_that_times_no_parts_has_training_and_what_its_process_says_of_saves() -> None:
    account = Account(T, T)
    account.trainer_started = T
    for step in range(1, 11):
        account.step(step, {"train/loss": 1.0}, T + 20 + 2 * step)
    said = control.Trainer(supported=True, trainer="sft", host="h", pid=1, written_at="", save_s=2.0, saves_s=6.0)
    seconds = account.so_far(T + 45, [], said).seconds
    assert (seconds["start_up"], seconds["training"], seconds["saving"], seconds["other"]) == (22, 14, 6, 3)


def test_parts_that_overlap_are_cut_to_the_time_there_was() -> None:
    account = Account(T, T)
    account.trainer_started = T
    account.step(1, timing(step=10, gen=10, update_actor=10), T + 10)
    adds_up(account.so_far(T + 10, [], None))


def test_values_that_are_not_seconds_count_as_nothing() -> None:
    account = Account(T, T)
    account.trainer_started = T
    account.step(1, {"timing_s/gen": float("nan"), "timing_s/step": "x", "timing_s/adv": None, "timing_s/testing": -5}, T + 10)
    adds_up(account.so_far(T + 10, [], None))


def test_clocks_that_disagree_make_no_part_negative() -> None:
    account = Account(T + 60, T)
    account.trainer_started = T + 62
    adds_up(account.so_far(T + 70, [], None))


def test_the_time_after_the_last_word_of_a_runner_that_was_killed_is_other() -> None:
    account = wall_time.ended(ran().so_far(T + 60, [], None), T + 160)
    assert (account.total_s, account.seconds["other"]) == (160, 107)
    adds_up(account)


def test_an_attempt_follows_the_one_before_it_in_its_chain_else_the_job_that_it_resumes(tmp_path: Path) -> None:
    shared = SharedRoot(tmp_path)
    assert wall_time.attempt_before(shared.job("a"), None) == (None, False)
    assert wall_time.attempt_before(shared.job("a"), "b") == (shared.job("b"), False)
    for name, attempt in (
        ("c.3", {"chain": "c", "number": 3, "previous": "c.2"}),
        ("c", {"chain": "c", "number": 1, "previous": None}),
        ("d", None),
    ):
        shared.job(name).config.mkdir(parents=True)
        shared.job(name).provenance.write_text(json.dumps({"attempt": attempt}))
    assert wall_time.attempt_before(shared.job("c.3"), "c") == (shared.job("c.2"), True)
    assert wall_time.attempt_before(shared.job("c"), "b") == (shared.job("b"), False)
    assert wall_time.attempt_before(shared.job("d"), None) == (None, False)


def test_a_time_that_cannot_be_and_a_clock_that_is_behind_spoil_no_sum() -> None:
    account = Account(T, T - 30)  # the claim is by the clock of another host
    account.trainer_started = T - 25
    account.step(1, timing(step=1.7e308, gen=1.7e308), T - 5)
    adds_up(account.so_far(T, [], None))
