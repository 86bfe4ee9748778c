"""A series as bars in a terminal: columns of blocks, or of ``#`` where those cannot be printed; or one small line."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII = " #"
AXES = {BLOCKS: "│└─", ASCII: "|+-"}


def bars(values: Sequence[float | None], width: int, height: int, encoding: str | None) -> list[str]:
    """Return ``height`` lines of bars over a line of step numbers, at most ``width`` columns wide, from 0 or the lowest value.

    Average series longer than the width into columns; leave a gap for a value that is not a finite number. ``encoding`` is
    that of the terminal. Empty when no value is a number.
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return []
    low, high = min(0.0, *known), max(0.0, *known)
    high = high if high > low else low + 1
    marks = BLOCKS if _can_print(BLOCKS + AXES[BLOCKS], encoding) else ASCII
    axes = AXES[marks]
    labels = [f"{high:.3g}", *[""] * (height - 2), f"{low:.3g}"]
    margin = max(map(len, labels)) + 1
    columns = _columns(values, max(1, width - margin - 1))
    parts = len(marks) - 1
    filled = [None if column is None else round((column - low) / (high - low) * height * parts) for column in columns]
    lines = []
    for row, label in enumerate(labels):
        below = (height - 1 - row) * parts
        cells = "".join(" " if level is None else marks[min(max(level - below, 0), parts)] for level in filled)
        lines.append(f"{label:>{margin - 1}} {axes[0]}{cells}".rstrip())
    first, last = "1", str(len(values))
    lines.append(" " * margin + axes[1] + axes[2] * len(columns))
    lines.append(" " * (margin + 1) + first + last.rjust(max(len(columns) - len(first), len(last) + 1)))
    return lines


def spark(values: Sequence[float | None], width: int, encoding: str | None) -> str:
    """Return the series as one line of at most ``width`` bars, from its lowest value to its highest.

    Empty for fewer than two finite values, or where blocks cannot be printed.
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < 2 or not _can_print(BLOCKS, encoding):
        return ""
    cells = _columns(values, width) if len(values) > width else [_finite_mean([value]) for value in values]
    low, high, marks = min(known), max(known), BLOCKS[1:]
    scale = (len(marks) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if cell is None else marks[round((cell - low) * scale)] for cell in cells)


def encoding(environment: Mapping[str, str], of_stream: str | None) -> str | None:
    """Return the encoding to draw in: ASCII in the C locale, where Python alone would write UTF-8; else that of the stream."""
    chosen = environment.get("LC_ALL") or environment.get("LANG")
    return "ascii" if chosen in ("C", "POSIX") else of_stream


def _columns(values: Sequence[float | None], width: int) -> list[float | None]:
    """Return one value per column: stretch short series up to threefold, average long ones."""
    if len(values) <= width:
        stretch = min(3, width // len(values))
        return [_finite_mean([value]) for value in values for _ in range(stretch)]
    edges = [round(at * len(values) / width) for at in range(width + 1)]
    return [_finite_mean(values[start:end]) for start, end in itertools.pairwise(edges)]


def _finite_mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(known) / len(known) if known else None


def _can_print(text: str, encoding: str | None) -> bool:
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
