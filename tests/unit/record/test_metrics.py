"""Reading a metrics file while it grows, whole or by its end, and the last line of a log that names an exception."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from mvp_helpers.record import error_lines, metrics


def test_a_step_knows_its_first_line_and_merges_the_later_ones(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 0, "data": {"val": 1}}\nbroken\n{"step": 1, "data": {"a": 1}}\n{"step": 1, "data": {"b": 2}}\n{"st')
    steps = metrics.read(file)
    assert (steps.steps[1], steps.lines, steps.damaged) == ({"a": 1, "b": 2}, {0: 1, 1: 3}, [2])
    with file.open("a") as stream:
        stream.write('ep": 2, "data": {}}\n')
    assert steps.refresh() and steps.lines[2] == 5 and not steps.refresh()


@pytest.mark.parametrize(
    "line",
    [
        "",
        "7",
        "[]",
        "null",
        '{"step": 1}',
        '{"step": "x", "data": {}}',
        '{"step": 1, "data": 3}',
        '{"step": 1e999, "data": {}}',
        "\xff",
    ],
)
def test_a_line_that_is_not_a_step_is_damaged(tmp_path: Path, line: str) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(line.encode("latin-1") + b"\n" + b'{"step": 1, "data": {"a": 1}}\n')
    assert metrics.read(file).damaged == [1]
    assert metrics.tail(file) == (1, {"a": 1})


def test_the_end_of_a_missing_file_has_no_steps(tmp_path: Path) -> None:
    assert metrics.tail(tmp_path / "none") == (0, {})


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (b"all is well\n", ""),
        (b"KeyError: 'a'\nValueError: b\nstep:3 - loss:1\n", "ValueError: b"),
        (
            b"(TaskRunner pid=7, ip=10.0.0.1) ray.exceptions.RayTaskError(KeyError): x\r\n",
            "ray.exceptions.RayTaskError(KeyError): x",
        ),
        (b"SystemExit: 3\n", "SystemExit: 3"),
        (b"KeyboardInterrupt\n", "KeyboardInterrupt"),
        (b"an Error in the middle of a line\n", ""),
        (b"OSError: \xff\xfe\n", "OSError: \ufffd\ufffd"),
        (b"", ""),
    ],
)
def test_the_last_line_that_names_an_exception_is_found(log: bytes, line: str) -> None:
    assert error_lines.last(log) == line


def test_a_long_error_line_is_cut() -> None:
    assert len(error_lines.last(b"ValueError: " + b"x" * 10_000)) == error_lines.LONGEST


def test_the_steps_of_a_large_file_need_a_fraction_of_its_size(tmp_path: Path) -> None:
    """A row of numbers reads like a dict; a value that is not a number keeps its row one."""
    path = tmp_path / "metrics.jsonl"
    values = [{f"some/metric/{name}": step + name / 7 for name in range(100)} for step in range(1, 2001)]
    path.write_text("".join(json.dumps({"step": step, "data": row}) + "\n" for step, row in enumerate(values, 1)))
    tracemalloc.start()
    read = metrics.read(path)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < path.stat().st_size / 2, f"{held} bytes for {path.stat().st_size}"
    assert read.steps[7] == values[6] and dict(read.steps[7].items()) == values[6] and len(read.steps[7]) == 100
    with path.open("a") as stream:
        stream.write('{"step":2001,"data":{"a":null,"b":1}}\n{"step":2002,"data":{"a":true}}\n{"step":2002,"data":{"b":2}}\n')
    assert read.refresh() and read.steps[2001] == {"a": None, "b": 1}
    assert read.steps[2002] == {"a": True, "b": 2} and read.steps[2002]["a"] is True and not read.repeated


def test_a_step_that_is_not_held_is_read_from_the_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [{"a": 1.5 * step, "text": "é", "nan": None} for step in range(1, 9)]
    lines = [json.dumps({"step": step, "data": row}, ensure_ascii=False) + "\n" for step, row in enumerate(rows, 1)]
    path.write_text("".join(["broken\n", *lines, '{"step": 7, "data": {"b": 2}}\n', '{"step": 8, "data": {"a": 3}}\n']))
    whole = metrics.read(path)
    monkeypatch.setattr(metrics, "MOST_HELD", 7)
    read = metrics.read(path)
    assert dict(read.steps) == dict(whole.steps) and read.steps[7] == {**rows[6], "b": 2} and read.steps[8] == {**rows[7], "a": 3}
    assert (read.repeated, read.steps.count, read.not_finite) == ([11], 25, (1, {"nan": None}))
    assert read.usual_step_s() == whole.usual_step_s()
    path.unlink()
    assert read.steps[5] == {}, "a line that is gone has no values"
