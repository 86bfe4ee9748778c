"""Curves of metrics files: nothing high or low is lost, and no file is too large."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path

import pytest

from mvp_helpers.report import curves


def rows(path: Path, *values: object, name: str = "a") -> Path:
    path.write_text("".join(json.dumps({"step": step, "data": {name: value}}) + "\n" for step, value in enumerate(values, 1)))
    return path


def test_a_short_file_is_drawn_value_by_value(tmp_path: Path) -> None:
    series = curves.read(rows(tmp_path / "m.jsonl", 0.5, 3, 0.25)).series["a"]
    assert series.points == [(1, 0.5), (2, 3), (3, 0.25)]
    assert (series.first, series.last, series.lowest, series.highest) == ((0.5, 1), (0.25, 3), (0.25, 3), (3, 2))


@pytest.mark.parametrize("at", [0, 1, 4999, 7321, 9998, 9999])
def test_one_extreme_value_among_many_is_drawn(tmp_path: Path, at: int) -> None:
    values = [random.Random(step).random() for step in range(10_000)]
    values[at] = -77.5
    found = curves.read(rows(tmp_path / "m.jsonl", *values))
    assert (at + 1, -77.5) in found.series["a"].points
    assert found.series["a"].lowest == (-77.5, at + 1)
    assert found.reduced and len(found.series["a"].points) <= 2 * curves.INTERVALS + 2


def test_each_interval_keeps_its_lowest_and_highest_value_among_many_metrics(tmp_path: Path) -> None:
    drawn = random.Random(7)
    lines = [{f"m{name}": drawn.random() for name in range(200)} for _ in range(2000)]
    path = tmp_path / "m.jsonl"
    path.write_text("".join(json.dumps({"step": step, "data": line}) + "\n" for step, line in enumerate(lines, 1)))
    found = curves.read(path)
    assert found.points <= curves.POINTS + len(found.series) * 3
    for name in ("m0", "m199"):
        values = [line[name] for line in lines]
        shown = dict(found.series[name].points)
        assert {min(values), max(values)} <= set(shown.values())
        assert all(values[step - 1] == value for step, value in shown.items())


@pytest.mark.parametrize("value", ["null", "NaN", "Infinity", '"nan"', "-Infinity"])
def test_a_value_that_is_not_finite_is_a_gap_and_named(tmp_path: Path, value: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(f'{{"step":1,"data":{{"a":1}}}}\n{{"step":2,"data":{{"a":{value}}}}}\n{{"step":3,"data":{{"a":2}}}}\n')
    series = curves.read(path).series["a"]
    assert series.points == [(1, 1), (2, None), (3, 2)]
    assert (series.gaps, series.gap_count, series.count) == ([2], 1, 2)


def test_a_gap_in_a_long_file_is_drawn(tmp_path: Path) -> None:
    values: list[float | None] = [1.0] * 9000
    values[6000] = None
    series = curves.read(rows(tmp_path / "m.jsonl", *values)).series["a"]
    assert (6001, None) in series.points and series.gaps == [6001]


def test_damaged_lines_and_texts_are_counted_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"step":1,"data":{"a":1,"b":"x"}}\n{"st\n[]\n{"step":2,"data":{"a":2}}\n{"step":3,"da')
    found = curves.read(path)
    assert (found.lines, found.damaged, list(found.series)) == (4, 2, ["a"])


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """9 MB of long lines need a small part of that, and the names of a file that has ever new ones are bounded."""
    path = tmp_path / "m.jsonl"
    with path.open("w") as stream:
        for step in range(2000):
            stream.write(json.dumps({"step": step, "data": {f"name/{step}/{at}": at / 3 for at in range(150)}}) + "\n")
    tracemalloc.start()
    found = curves.read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size > 9e6
    assert peak < 4e6, f"{peak / 1e6:.0f} MB"
    assert len(found.series) == curves.MOST_METRICS and found.left_out
