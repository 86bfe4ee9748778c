"""A rise is reported only where there is one, with the numbers of its test, and drawn as the terminal allows."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from mvp_helpers import cli
from mvp_helpers.base import chart
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.learning import trend
from mvp_helpers.record import job_folder, metrics
from mvp_helpers.record.job_folder import Result


def noise(seed: int, count: int, slope: float = 0.0) -> list[float]:
    chance = random.Random(seed)
    return [0.5 + slope * at + chance.gauss(0, 0.1) for at in range(count)]


def test_a_strictly_rising_series_has_the_textbook_numbers() -> None:
    found = trend.of(range(10))
    assert (found.s, round(found.z, 3), found.window, found.first, found.last) == (45, 3.935, 2, 0.5, 8.5)
    assert found.p == pytest.approx(4.15e-5, rel=0.01) and found.rises


@pytest.mark.parametrize("slope", [0.005, 0.01])
def test_a_rise_in_noise_is_seen(slope: float) -> None:
    assert sum(trend.of(noise(seed, 60, slope)).rises for seed in range(50)) >= 45


def test_noise_alone_rises_no_more_often_than_the_test_promises() -> None:
    seen = sum(trend.of(noise(seed, 40)).rises for seed in range(2000))
    assert 2 <= seen <= 2 * trend.ALPHA * 2000


def test_a_falling_series_does_not_rise() -> None:
    found = trend.of(noise(1, 40, slope=-0.01))
    assert found.p > 0.99 and found.last < found.first and not found.rises
    assert "no proven rise over 40 steps" in found.tell("reward")


@pytest.mark.parametrize("value", [0.0, 0.7, 1.0])
def test_a_constant_series_has_no_trend(value: float) -> None:
    found = trend.of([value] * 30)
    assert (found.s, found.z, found.p, found.rises) == (0, 0.0, 1.0, False)


def test_many_equal_values_are_counted_as_ties() -> None:
    values = [0.0] * 10 + [0.5] * 10
    found = trend.of(values)
    pairs = sum((b > a) - (b < a) for at, a in enumerate(values) for b in values[at + 1 :])
    chance = random.Random(0)
    shuffled = [trend.of(chance.sample(values, len(values))).s for _ in range(500)]
    deviation = math.sqrt(sum(s * s for s in shuffled) / len(shuffled))
    assert found.s == pairs == 100 and found.z == pytest.approx(99 / deviation, rel=0.1)


@pytest.mark.parametrize("count", [0, 1, 2, trend.FEWEST - 1])
def test_a_short_series_is_not_judged(count: int) -> None:
    found = trend.of(range(count))
    assert not found.rises
    assert found.tell("reward") == f"reward: too few steps for a verdict: {count}, the test needs 10"


def test_values_that_are_not_finite_are_left_out_and_counted() -> None:
    holes: list[float | None] = [None, math.nan, math.inf, *range(12), -math.inf]
    found = trend.of(holes)
    assert (found.count, found.left_out, found.s) == (12, 4, 66)
    assert found.tell("reward").startswith(
        "reward: rose over 12 steps (4 more are not finite): Mann-Kendall S=+66, z=4.46, one-sided p="
    )


def test_a_series_that_ends_below_its_start_does_not_rise() -> None:
    found = trend.of([100, 100, 100, *range(22)])
    assert found.p < trend.ALPHA and found.last < found.first and not found.rises


def test_the_verdict_names_its_test_and_its_numbers_and_claims_no_convergence() -> None:
    told = trend.of(noise(0, 40, slope=0.01)).tell("reward")
    for part in (
        "reward: rose over 40 steps",
        "Mann-Kendall S=+",
        "z=",
        "one-sided p=",
        "mean of the first 8 ",
        "of the last 8 ",
    ):
        assert part in told
    assert "converge" not in told


def test_bars_start_at_zero_and_reach_the_highest_value() -> None:
    assert chart.bars([0.25, 0.5, None, 1.0], width=10, height=2, encoding="utf-8") == [
        "1 │   █",
        "0 │▄█ █",
        "  └────",
        "   1  4",
    ]


def test_without_unicode_bars_are_plain() -> None:
    lines = chart.bars([0.0, 1.0], width=10, height=2, encoding="ANSI_X3.4-1968")
    assert lines == ["1 |   ###", "0 |   ###", "  +------", "   1    2"]
    assert chart.bars([0.0, 1.0], width=10, height=2, encoding=None) == lines


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, "utf-8"),
        ({"LANG": "C.UTF-8"}, "utf-8"),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, "ascii"),
        ({"LANG": "POSIX"}, "ascii"),
    ],
)
def test_the_c_locale_means_plain_characters(environment: dict[str, str], found: str) -> None:
    assert chart.encoding(environment, "utf-8") == found


def test_a_long_series_is_averaged_into_the_width() -> None:
    lines = chart.bars([*[1.0] * 500, *[0.5] * 500], width=24, height=2, encoding="utf-8")
    assert lines[0].count("█") == 10 and lines[1].count("█") == 21 and max(map(len, lines)) <= 24


def test_negative_values_move_the_floor_and_nothing_to_draw_draws_nothing() -> None:
    assert [line.split(" ")[0] for line in chart.bars([-1.0, 1.0], 12, 2, "utf-8")][:2] == ["", "-1"]
    assert chart.bars([None, math.nan], 20, 5, "utf-8") == [] == chart.bars([], 20, 5, "utf-8")
    assert chart.bars([0.0, 0.0], 20, 2, "utf-8")[0].strip() == "1 │"


def test_rewards_are_read_by_step_and_a_run_with_a_loss_has_none(tmp_path: Path) -> None:
    def write(*steps: tuple[int, dict[str, float | None]]) -> metrics.Metrics:
        (tmp_path / "m.jsonl").write_text("".join(json.dumps({"step": step, "data": data}) + "\n" for step, data in steps))
        return metrics.read(tmp_path / "m.jsonl")

    key = "critic/score/mean"
    assert write((0, {key: 9}), (2, {key: None}), (1, {key: 0.5}), (3, {key: 0})).rewards() == [0.5, None, 0.0]
    assert write((1, {"train/loss": 2.0}), (2, {"train/loss": 1.0})).rewards() == []


@pytest.mark.parametrize(
    ("rewards", "code", "told"),
    [
        (noise(0, 40, slope=0.01), 0, "reward: rose over 40 steps: "),
        (noise(0, 40), 1, "reward: no proven rise over 40 steps: "),
        ([0.1, 0.2], 1, "too few steps for a verdict: 2"),
        ([], 2, "bad input: job 'job1' has no reward in "),
    ],
)
def test_the_verb_draws_and_judges_a_job_and_its_exit_code_is_the_verdict(
    shared: SharedRoot,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rewards: list[float],
    code: int,
    told: str,
) -> None:
    folder = job_folder.claim(shared, Result(submission_id="job1", workload="grpo", state="CLAIMED"))
    steps = ({"step": at + 1, "data": {"critic/score/mean": reward}} for at, reward in enumerate(rewards))
    folder.metrics.write_text("".join(json.dumps(step) + "\n" for step in steps))
    monkeypatch.setenv("MVP_CLUSTER_JSON", cluster.to_json())
    assert cli.main(["trend", "job1"]) == code
    out, errors = capsys.readouterr()
    assert told in out + errors and len(out.splitlines()) == (13 if rewards else 0)
