"""The verdict on learning: doctored metrics of a CPU cluster's job fail it; tests/bats/learns.bats shows it with verl."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from truthful_job import STEPS, good_job, make_plan, seals_of, write_metrics, write_plan

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.verdict import Check
from mvp_helpers.proof import learned, verify
from mvp_helpers.proof.evidence import Job
from mvp_helpers.record import job_folder


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    """A job with the reward of a CPU cluster's defaults."""
    (tmp_path / "jobs").mkdir()
    return good_job(SharedRoot(tmp_path), "job")


def judged(folder: JobFolder, series: Callable[[int], float], name: str = "critic/score/mean", *more: str) -> Check:
    plan = make_plan(folder)
    write_plan(folder, msgspec.structs.replace(plan, argv=[*plan.argv, *more]))
    write_metrics(folder, [{name: series(step)} for step in range(STEPS)])
    job = Job(folder, job_folder.read(folder), seals_of(folder))
    (report,) = verify.verify([job], learning=True)
    return next(check for check in report.checks if check.name == "learned")


REWARD = f"reward.custom_reward_function.path={learned.TASK}"


def test_a_reward_that_rises_passes_with_its_numbers_and_lines(folder: JobFolder) -> None:
    check = judged(folder, lambda step: 0.1 + step / 50, "critic/score/mean", REWARD)
    assert check.verdict == "Pass"
    assert check.reason.startswith(f"reward 0.140 → 0.540 over {STEPS} steps, p=")
    assert [line.line for line in check.evidence] == [1, STEPS]


NOT_LEARNED = {
    "learning rate 0: the same reward, by chance": (lambda step: 0.15 + 0.01 * (-1) ** step, "no proven rise"),
    "the reward's sign turned where it trains": (lambda step: 0.5 - step / 60, "no proven rise"),
    "the reward's sign turned where it is given": (lambda step: -0.5 + step / 60, "outside of 0 to 1"),
    "one lucky step": (lambda step: 0.9 if step == STEPS - 1 else 0.15, "no proven rise"),
    "a constant": (lambda step: 0.15, "no proven rise"),
}


@pytest.mark.parametrize("name", NOT_LEARNED)
def test_what_learned_nothing_fails(folder: JobFolder, name: str) -> None:
    series, reason = NOT_LEARNED[name]
    check = judged(folder, series, "critic/score/mean", REWARD)
    assert check.verdict == "Fail"
    assert reason in check.reason


def test_the_loss_of_sft_has_to_fall(folder: JobFolder) -> None:
    assert judged(folder, lambda step: 6.2 - step / 20, "train/loss").verdict == "Pass"
    assert "no proven fall" in judged(folder, lambda step: 6.2 + step / 20, "train/loss").reason


def test_a_few_steps_are_not_judged(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(judged.__globals__, "STEPS", 4)
    check = judged(folder, lambda step: 0.1 + step / 50, "critic/score/mean", REWARD)
    assert check.verdict == "Skipped"
    assert "over 4 steps" in check.reason and "too few steps for a verdict, which needs 10" in check.reason


def test_another_reward_is_told_and_not_judged(folder: JobFolder) -> None:
    check = judged(folder, lambda step: 0.0)
    assert check.verdict == "Skipped"
    assert check.reason.startswith(f"reward 0.000 → 0.000 over {STEPS} steps, p=1; only the task")
