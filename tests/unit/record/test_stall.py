"""The one rule of when a job is stalled."""

from __future__ import annotations

from pathlib import Path

import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder
from mvp_helpers.record import control, stall
from mvp_helpers.record.metrics import Metrics
from mvp_helpers.record.stall import StallLimits


def metrics(folder: Path, *steps: int) -> Metrics:
    path = folder / "metrics.jsonl"
    path.write_text("".join(f'{{"step": {step}, "data": {{"train/loss": 1}}}}\n' for step in steps))
    found = Metrics(path)
    found.refresh()
    return found


@pytest.mark.parametrize(
    ("limits", "steps", "usual", "limit"),
    [
        (StallLimits(), (), None, 900),
        (StallLimits(start_s=40, after_s=5), (), None, 40),
        (StallLimits(), (1,), None, 900),
        (StallLimits(), (1, 2), 3.0, 60),
        (StallLimits(), (1, 2), 30.0, 150),
        (StallLimits(after_s=20), (1, 2), 3.0, 20),
        (StallLimits(after_s=20), (1,), None, 20),
        (StallLimits(after_s=2), (1, 2), 3.0, 60),
        (StallLimits(after_s=20), (1, 9), 3.0, 900),
    ],
)
def test_the_limit(tmp_path: Path, limits: StallLimits, steps: tuple[int, ...], usual: float | None, limit: float) -> None:
    assert stall.limit_s(limits, metrics(tmp_path, *steps), usual, 9) == limit


def test_a_trainer_whose_metrics_have_no_times_reports_its_usual_step(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    assert stall.usual_step_s(folder, metrics(tmp_path, 1, 2, 3)) is None
    control.set_trainer(folder, control.Trainer(supported=True, trainer="T", host="h", pid=1, written_at="", step_s=1.5))
    assert stall.usual_step_s(folder, metrics(tmp_path, 1, 2, 3)) == 1.5


def test_a_limit_below_the_usual_step_of_the_job_that_is_resumed_is_refused() -> None:
    with pytest.raises(BadInput, match=r"a.yaml: stall.after_s 3 is shorter than a step of job 'old' \(3.1 s\)"):
        stall.check_step(StallLimits(after_s=3), 3.1, "a.yaml", "old")
    stall.check_step(StallLimits(after_s=4), 3.1, "a.yaml", "old")
    stall.check_step(StallLimits(after_s=3), None, "a.yaml", "old")
    stall.check_step(StallLimits(), 3.1, "a.yaml", "old")


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_limit_that_is_not_a_finite_number_is_refused(value: float) -> None:
    with pytest.raises(BadInput, match="not a number of seconds"):
        stall.check(StallLimits(after_s=value), "a.yaml")
