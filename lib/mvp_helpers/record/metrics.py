"""Read ``metrics.jsonl`` while it grows: one JSON object a line, ``{"step": 1, "data": {...}}``.

verl's file logger writes NaN and infinity as ``null``, may log validation before training as step 0, and one step in two lines.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from array import array
from collections.abc import ItemsView, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ..base import files
from ..base.documents import Damaged, as_number, from_json

HEADLINES = (("critic/score/mean", "reward"), ("critic/rewards/mean", "reward"), ("train/loss", "loss"), ("val/loss", "loss"))
STEP_SECONDS = ("timing_s/step", "perf/time_per_step", "timing/train/total_step_time")
LONGEST_LINE = 1 << 20
"""In bytes; verl's lines have about 5,000."""
MOST_HELD = 1 << 20
"""Values that are held in memory, eight bytes each; the steps after them are read from the file again when they are asked for."""
MOST_NAMED = 1000


class _Flat(msgspec.Struct):
    step: int
    data: dict[str, int | float | str | None]


_FLAT = msgspec.json.Decoder(_Flat)


def record(line: bytes) -> tuple[int, dict[str, Any]]:
    """Return step and metrics of one line. Raises Damaged for anything else."""
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        flat = _FLAT.decode(line)  # what trainers write, in a fifth of the time
        return flat.step, flat.data
    match from_json(line):
        case {"step": int(step), "data": dict(data)} if not isinstance(step, bool):
            return step, data
    raise Damaged("not a metrics record")


def records(stream: BinaryIO) -> Iterator[tuple[int, dict[str, Any]] | None]:
    """Yield step and metrics of each whole line of a file; None for one that is damaged or longer than ``LONGEST_LINE``."""
    inside_long = False
    for _, line in files.lines(stream, LONGEST_LINE):
        whole, was_long = line.endswith(b"\n"), inside_long
        inside_long = not whole
        if whole:
            try:
                yield record(b"" if was_long else line)
            except Damaged:
                yield None


class Row(Mapping[str, Any]):
    """The values of one step, eight bytes each: all steps with the same names share them, so that large files fit into memory."""

    __slots__ = ("_at", "_numbers")

    def __init__(self, at: dict[str, int], numbers: array[float]) -> None:
        self._at, self._numbers = at, numbers

    def __getitem__(self, name: str) -> float:
        return self._numbers[self._at[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)

    def items(self) -> ItemsView[str, float]:
        """Return names and values, faster than one by one."""
        return dict(zip(self._at, self._numbers, strict=True)).items()


class Steps(Mapping[int, Mapping[str, Any]]):
    """Metrics by step, in the order of the file; of steps after the first ``MOST_HELD`` values only the place of their line."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        """How many values all steps have."""
        self._path, self._names = path, dict[tuple[str, ...], dict[str, int]]()
        self._rows: dict[int, Mapping[str, Any] | int] = {}

    def __getitem__(self, step: int) -> Mapping[str, Any]:
        row = self._rows[step]
        return self._read(row) if isinstance(row, int) else row

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, step: int, values: dict[str, Any], place: int) -> bool:
        """Add the values of a line that begins at this byte; return whether the step has some of them already."""
        earlier = self.get(step, {})
        merged = {**earlier, **values}
        self.count += len(merged) - len(earlier)
        self._rows[step] = self._packed(merged) if earlier or self.count <= MOST_HELD else place
        return len(merged) < len(earlier) + len(values)

    def _packed(self, values: dict[str, Any]) -> Mapping[str, Any]:
        try:
            numbers = array("d", values.values())
        except (TypeError, OverflowError):  # a text, or the null that verl writes for NaN
            return values
        if any(type(value) is bool for value in values.values()):
            return values
        names = tuple(values)
        return Row(self._names.setdefault(names, {name: at for at, name in enumerate(names)}), numbers)

    def _read(self, place: int) -> Mapping[str, Any]:
        with contextlib.suppress(OSError, Damaged), files.opened(self._path) as stream:
            stream.seek(place)
            return record(stream.readline(LONGEST_LINE))[1]
        return {}  # the line is gone


class Metrics:
    """The steps of one metrics file; ``refresh`` reads only what was added."""

    def __init__(self, path: Path) -> None:
        self.steps = Steps(path)
        """Lines of the same step are merged."""
        self.lines: dict[int, int] = {}
        """The line (from 1) where each step is first."""
        self.damaged: list[int] = []
        """Lines (from 1) that are not a step, the first ``MOST_NAMED``."""
        self.repeated: list[int] = []
        """Lines (from 1) with a value that an earlier line of the same step has already, the first ``MOST_NAMED``."""
        self.not_finite: tuple[int, dict[str, Any]] | None = None
        """The first step with values that are NaN or infinite, and these values."""
        self._path, self._offset, self._lines = path, 0, 0
        self._inside_long = False

    def refresh(self) -> bool:
        """Read complete new lines; return whether there were any. A file that cannot be read has no steps."""
        began = self._offset
        with contextlib.suppress(OSError), files.opened(self._path) as stream:
            stream.seek(self._offset)
            while piece := stream.read(LONGEST_LINE):
                whole = piece[: piece.rfind(b"\n") + 1]
                if not whole and len(piece) < LONGEST_LINE:
                    break
                self._take(whole or piece)
                stream.seek(self._offset)
                if not whole and files.skip_hole(stream):
                    self._offset = stream.tell()
        return self._offset > began

    def _take(self, data: bytes) -> None:
        """Take whole lines, or a piece of one that is too long, which counts as damaged up to its end."""
        place = self._offset
        self._offset += len(data)
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._lines += 1
            try:
                step, values = record(b"" if self._inside_long else line)
            except Damaged:
                if len(self.damaged) < MOST_NAMED:
                    self.damaged.append(self._lines)
            else:
                self.lines.setdefault(step, self._lines)
                if self.steps.add(step, values, place) and len(self.repeated) < MOST_NAMED:
                    self.repeated.append(self._lines)
                if self.not_finite is None and not all(map(is_finite, values.values())):
                    self.not_finite = step, {name: value for name, value in values.items() if not is_finite(value)}
            self._inside_long = False
            place += len(line) + 1
        self._inside_long = self._inside_long or bool(rest)

    @property
    def trained(self) -> list[int]:
        """The steps that trained something; step 0 is the validation before training."""
        return [step for step in self.steps if step > 0]

    @property
    def last(self) -> int:
        return max(self.trained, default=0)

    def rewards(self) -> list[float | None]:
        """Return the mean reward of each step, None where it is missing or not a number; empty when no step has one."""
        return self._headlines("reward")

    def losses(self) -> list[float | None]:
        """Return SFT's loss of each step, as ``rewards`` does."""
        return self._headlines("loss")

    def _headlines(self, wanted: str) -> list[float | None]:
        headlines = [headline(self.steps[step]) or ("", 0.0) for step in sorted(self.trained)]
        values = [value if name == wanted else None for name, value in headlines]
        return values if any(value is not None for value in values) else []

    def usual_step_s(self) -> float | None:
        """Return the median seconds of the last 20 steps by the trainer; None before the second step, as the first is slow."""
        timed = [seconds for step in self.trained[1:][-20:] if (seconds := _first(self.steps[step], STEP_SECONDS)) is not None]
        return statistics.median(timed) if timed else None


def read(path: Path) -> Metrics:
    """Return all complete lines of a metrics file."""
    metrics = Metrics(path)
    metrics.refresh()
    return metrics


def tail(path: Path, size: int = 65_536) -> tuple[int, dict[str, Any]]:
    """Return the last step and its metrics from the last ``size`` bytes; (0, {}) when there is none."""
    steps = _tail(path, size)
    last = max(steps, default=0)
    return last, steps.get(last, {})


def recent(path: Path, size: int = 65_536) -> list[float]:
    """Return the headline metric of the last steps, those in the last ``size`` bytes, oldest first."""
    numbers = [headline(data) for step, data in sorted(_tail(path, size).items()) if step > 0]
    name = next((number[0] for number in reversed(numbers) if number), "")
    return [number[1] for number in numbers if number and number[0] == name]


def _tail(path: Path, size: int) -> dict[int, dict[str, Any]]:
    steps: dict[int, dict[str, Any]] = {}
    with contextlib.suppress(OSError):
        for line in files.tail(path, size).split(b"\n"):
            with contextlib.suppress(Damaged):
                step, data = record(line)
                steps.setdefault(step, {}).update(data)
    return steps


def headline(data: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return the one number that shows how training goes: ``("reward", 0.125)`` or ``("loss", 5.02)``."""
    return next(((name, value) for key, name in HEADLINES if (value := _finite(data.get(key))) is not None), None)


def _first(data: Mapping[str, Any], keys: tuple[str, ...]) -> float | None:
    return next((value for key in keys if (value := _finite(data.get(key))) is not None), None)


def is_finite(value: Any) -> bool:
    """Return whether a value has no NaN and no infinity in it."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, (list, tuple)):
        return all(map(is_finite, value))
    number = as_number(value)
    return number is None or math.isfinite(number)


def _finite(value: Any) -> float | None:
    number = as_number(value)
    return number if number is not None and math.isfinite(number) else None
