"""The memory that runs out: said when it grows with the steps, and not when it only moves."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.diagnosis import views
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result
from mvp_helpers.usage import growth
from mvp_helpers.usage.resources import Memory, Sample

GIB = 1 << 30


def curve(used: Callable[[int], float], steps: int = 12, step_s: float = 60, total: float = 64, host: str = "a") -> list[Sample]:
    """Samples every 10 s; ``used`` gives GiB by step, to which a part that each step gives back is added."""
    return [
        Sample(
            at=at,
            host=host,
            step=int(at // step_s),
            memory=Memory(total=int(total * GIB), used=int((used(int(at // step_s)) + (at % step_s) / 60) * GIB)),
        )
        for at in range(0, int(steps * step_s) + 1, 10)
    ]


def test_a_steady_growth_says_how_much_since_when_and_how_long() -> None:
    found = growth.soonest(curve(lambda step: 20 + max(0, step - 3) * 1.2))
    assert found
    # (60.8 - 30.8) GiB at 1.2 per minute
    assert found.describe() == "a: host memory grew 1.1 GiB per step since step 2; full in 26m11s"
    assert found.bytes_per_step / GIB == pytest.approx(1.2, rel=0.1)
    assert found.full_s == pytest.approx(25 * 60, rel=0.1)


def test_the_host_that_is_full_first_is_named() -> None:
    found = growth.soonest([*curve(lambda step: 20 + step), *curve(lambda step: 40 + step, host="b")])
    assert found and found.host == "b"


@pytest.mark.parametrize(
    "used",
    [
        lambda step: 20,
        lambda step: 40 - step,
        lambda step: 5 if step < 2 else 30,  # the model was loaded
        lambda step: 30 + random.Random(step).uniform(-3, 3),
        lambda step: 30 + 0.01 * step,
    ],
    ids=["flat", "falling", "a jump at the start", "noise", "too slow to matter"],
)
def test_memory_that_does_not_run_out_is_not_warned_of(used: Callable[[int], float]) -> None:
    assert growth.soonest(curve(used)) is None


def test_too_few_steps_show_nothing() -> None:
    assert growth.soonest(curve(lambda step: 20 + 5 * step, steps=3)) is None
    assert growth.soonest([]) is None


def test_55_warns_of_a_running_job_and_not_of_one_that_succeeded(tmp_path: Path) -> None:
    folder = job_folder.claim(SharedRoot(tmp_path), Result(submission_id="leaks", workload="echo", state="CLAIMED"))
    samples = curve(lambda step: 20 + step * 1.25)
    folder.resources.write_bytes(b"".join(msgspec.json.encode(sample) + b"\n" for sample in samples))
    for state, warns in (("RUNNING", True), ("SUCCEEDED", False)):
        result = msgspec.structs.replace(job_folder.read(folder), state=state)
        text = views.show_explanation(views.explain_job(folder, result))
        assert ("memory   a: host memory grew 1.2 GiB per step since step 1; full in " in text) == warns, text


def test_a_slow_growth_is_said_in_mebibytes() -> None:
    assert "grew 1.2 GiB per step" in growth.Growth("a", 1.21 * GIB, 3, 540).describe()
    assert "grew 48.3 MiB per step" in growth.Growth("a", 48.3 * GIB / 1024, 3, 540).describe()
