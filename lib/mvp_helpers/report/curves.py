"""The curves of a metrics file of any size: what is drawn keeps the lowest and the highest value of every interval of steps.

The file is read once, a line at a time; memory is bounded by ``INTERVALS`` and ``MOST_METRICS``, not by the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ..base import files
from ..base.documents import as_number
from ..record import metrics

INTERVALS = 500
"""Intervals of lines; a file of no more lines is drawn as it is."""
POINTS = 48_000
"""Points of all curves of a file together, about 0.6 MB."""
FEWEST_POINTS = 60
"""Points that a curve may have, however many there are."""
MOST_METRICS = 1000
WINDOW = 5
NAMED = 20
"""Steps that are named when their value is not a number."""

Pair = tuple[float, int]
"""Value and step."""
Point = tuple[int, float | None]
"""Step and value; None where the value is NaN or infinite."""


@dataclass
class Series:
    """One metric. ``first``, ``last``, ``lowest`` and ``highest`` are exact, whatever is drawn."""

    points: list[Point] = field(default_factory=list)
    """Drawn, in the order of the steps."""
    count: int = 0
    """Finite values in the file."""
    first: Pair | None = None
    last: Pair | None = None
    lowest: Pair | None = None
    highest: Pair | None = None
    gaps: list[int] = field(default_factory=list)
    """The first steps whose value is NaN or infinite; verl writes both as null."""
    gap_count: int = 0
    tail: list[float] = field(default_factory=list)
    """The last ``WINDOW`` finite values."""

    def take(self, values: Sequence[float], steps: Sequence[int]) -> None:
        """Add the values of one interval and their steps, in the order of the file."""
        if not math.isfinite(sum(values)):
            missing = [step for value, step in zip(values, steps, strict=True) if not math.isfinite(value)]
            known = [(value, step) for value, step in zip(values, steps, strict=True) if math.isfinite(value)]
            if missing:
                self.gap_count += len(missing)
                self.gaps += missing[: NAMED - len(self.gaps)]
                self.points.append((missing[0], None))
            values, steps = [value for value, _ in known], [step for _, step in known]
        if values:
            low, high = min(values), max(values)
            lowest, highest = (low, steps[values.index(low)]), (high, steps[values.index(high)])
            self.points += [(step, value) for value, step in ((lowest, highest) if low < high else (lowest,))]
            self.count += len(values)
            self.first, self.last = self.first or (values[0], steps[0]), (values[-1], steps[-1])
            self.tail = [*self.tail, *values[-WINDOW:]][-WINDOW:]
            self.lowest = lowest if self.lowest is None else min(self.lowest, lowest)
            self.highest = highest if self.highest is None else max(self.highest, highest, key=lambda pair: pair[0])

    def thin(self, most: int) -> None:
        """Sort the points and keep at most ``most``: the lowest and the highest of each interval, and a gap."""
        self.points.sort(key=lambda point: point[0])
        if len(self.points) > most:
            size = math.ceil(len(self.points) * 3 / most)
            kept: list[Point] = []
            for at in range(0, len(self.points), size):
                kept += _extremes(self.points[at : at + size])
            self.points = kept


@dataclass
class Curves:
    """The curves of one metrics file."""

    series: dict[str, Series] = field(default_factory=dict)
    lines: int = 0
    damaged: int = 0
    """Lines that are not a step."""
    left_out: set[str] = field(default_factory=set)
    """Some of the names beyond ``MOST_METRICS``."""
    first_step: int = 0
    last_step: int = 0

    @property
    def reduced(self) -> bool:
        """Whether some values are not drawn."""
        return any(len(each.points) < each.count + each.gap_count for each in self.series.values())

    @property
    def points(self) -> int:
        return sum(len(each.points) for each in self.series.values())


def read(path: Path) -> Curves:
    """Return the curves of a metrics file. Raises OSError."""
    curves = Curves()
    with files.opened(path) as stream:
        lines = _count_lines(stream)
        stream.seek(0)
        _draw(curves, _records(stream, curves), lines)
    return curves


def of_steps(steps: Mapping[int, Mapping[str, Any]]) -> Curves:
    """Return the curves of metrics by step."""
    curves = Curves(lines=len(steps), first_step=min(steps, default=0), last_step=max(steps, default=0))
    _draw(curves, sorted(steps.items()), len(steps))
    return curves


def _draw(curves: Curves, records: Iterable[tuple[int, Mapping[str, Any]]], lines: int) -> None:
    """Add the points of ``lines`` lines of metrics."""
    size = math.ceil(max(1, lines) / INTERVALS)
    interval: list[tuple[int, Mapping[str, Any]]] = []
    for row in records:
        interval.append(row)
        if len(interval) == size:
            _take(curves, interval)
            interval.clear()
    _take(curves, interval)
    most = max(FEWEST_POINTS, POINTS // max(1, len(curves.series)))
    for each in curves.series.values():
        each.thin(most)


def _count_lines(stream: BinaryIO) -> int:
    return sum(line.endswith(b"\n") for _, line in files.lines(stream, metrics.LONGEST_LINE))


def _records(stream: BinaryIO, curves: Curves) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield step and values of each whole line; count the lines, and those that are damaged."""
    for record in metrics.records(stream):
        curves.lines += 1
        if record is None:
            curves.damaged += 1
            continue
        step, values = record
        curves.first_step = step if not curves.last_step and not curves.first_step else min(curves.first_step, step)
        curves.last_step = max(curves.last_step, step)
        yield step, values


def _take(curves: Curves, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    """Add the rows of one interval."""
    names: dict[str, Any] = {}
    for _, values in rows:
        names.update(values)
    steps = [step for step, _ in rows]
    for name in names:
        numbers = [values.get(name) for _, values in rows]
        if set(map(type, numbers)) == {float}:
            _series(curves, name, numbers, steps)
            continue
        known = [(number, step) for step, row in rows if name in row and (number := as_number(row[name])) is not None]
        if known:
            _series(curves, name, [number for number, _ in known], [step for _, step in known])


def _series(curves: Curves, name: str, values: Sequence[Any], steps: Sequence[int]) -> None:
    if name in curves.series or len(curves.series) < MOST_METRICS:
        curves.series.setdefault(name, Series()).take(values, steps)
    elif len(curves.left_out) < MOST_METRICS:
        curves.left_out.add(name)


def _extremes(points: Sequence[Point]) -> list[Point]:
    """Return the lowest and the highest point, and the first gap, in the order of the steps."""
    known = [(value, step) for step, value in points if value is not None]
    kept = {(step, value) for value, step in ((min(known), max(known)) if known else ())}
    gap = next((point for point in points if point[1] is None), None)
    return sorted([*kept, *([gap] if gap else [])], key=lambda point: point[0])
