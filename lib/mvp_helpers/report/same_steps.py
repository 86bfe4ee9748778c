"""Are two runs bit-equal, and if not, from which step and metric on? Compares two metrics files, a step of each at a time."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..base import files
from ..base.documents import as_number
from ..record import metrics
from ..trainers.metric_names import MEASURED

_MEASURED = re.compile(MEASURED)


class Equality(msgspec.Struct, kw_only=True):
    """The result. Metrics of the machine (times, throughput, memory) are left out."""

    equal: bool
    steps: int
    """Steps that both have."""
    values: int
    """Values that were compared."""
    step: int | None = None
    """The first step with a difference, and the first metric there, with both values or why one is not a finite number."""
    metric: str = ""
    a: float | str | None = None
    b: float | str | None = None
    differing: int = 0
    """Metrics that differ at that step."""
    only_a: int = 0
    only_b: int = 0
    """Steps of one alone."""

    def in_words(self) -> str:
        """Return the result in one sentence."""
        if not self.steps:
            return "The runs have no step in common."
        rest = "".join(f"; {count} more steps in {name}" for name, count in (("A", self.only_a), ("B", self.only_b)) if count)
        rest = f", times, throughput and memory aside{rest}."
        if self.equal:
            return f"Bit-equal: {self.values} values of {self.steps} steps{rest}"
        count = self.differing - 1
        more = f" and {count} more metric{'s' if count > 1 else ''} differ" if count else " differs"
        return f"Not bit-equal: from step {self.step} on, {self.metric} ({self.a} in A, {self.b} in B){more}{rest}"


def compare(a: Path, b: Path) -> Equality:
    """Compare two metrics files, whose steps are in order. Raises OSError."""
    found = Equality(equal=True, steps=0, values=0)
    with files.opened(a) as left, files.opened(b) as right:
        sides = [_steps(left), _steps(right)]
        one, other = (next(side, None) for side in sides)
        while one and other:
            if one[0] == other[0]:
                _compare(found, one[0], one[1], other[1])
                one, other = next(sides[0], None), next(sides[1], None)
            elif one[0] < other[0]:
                found.only_a, one = found.only_a + 1, next(sides[0], None)
            else:
                found.only_b, other = found.only_b + 1, next(sides[1], None)
        found.only_a += (one is not None) + sum(1 for _ in sides[0])
        found.only_b += (other is not None) + sum(1 for _ in sides[1])
    return found


def _compare(found: Equality, step: int, a: dict[str, Any], b: dict[str, Any]) -> None:
    found.steps += 1
    names = _compared(tuple({**a, **b}))
    found.values += len(names)
    if not found.equal:
        return
    unequal = [name for name in names if not _same(a.get(name, _ABSENT), b.get(name, _ABSENT))]
    if unequal:
        found.equal, found.step, found.metric, found.differing = False, step, unequal[0], len(unequal)
        found.a, found.b = (_shown(side.get(unequal[0], _ABSENT)) for side in (a, b))


@functools.lru_cache(maxsize=64)
def _compared(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if not _MEASURED.search(name))


_ABSENT = object()


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def _shown(value: Any) -> float | str:
    if value is _ABSENT:
        return "missing"
    number = as_number(value)
    return "text" if number is None else number if math.isfinite(number) else "not finite"


def _steps(stream: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the steps of a file, lines of the same step that follow each other as one."""
    step, values = None, {}
    for number, data in filter(None, metrics.records(stream)):
        if number == step:
            values.update(data)
        else:
            if step is not None:
                yield step, values
            step, values = number, dict(data)
    if step is not None:
        yield step, values
