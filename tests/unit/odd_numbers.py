"""Logs in which numbers are replaced by text that Python converts to none: no explanation may fail for that."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from mvp_helpers.diagnosis import views

ODD = "9" * 4301, "1.2.3"
"""More digits than Python converts to an integer, and more points than a number has."""
MOST_IN_LINE = 12
_NUMBER = re.compile(r"(?<![\w.])\d[\d.]*")


def explain_with_odd_numbers(tmp_path: Path, log: str) -> None:
    """Explain the log with each kind of its numbers replaced; raises what that raises."""
    file = tmp_path / "odd.log"
    for odd in _with_odd_numbers(log):
        file.write_text(odd)
        views.explain_log(file)


def _with_odd_numbers(log: str) -> Iterator[str]:
    """Yield the log with the first number of each kind of line replaced, then with the second, and so on."""
    lines, seen = list[tuple[str, list[tuple[int, int]]]](), set[str]()
    for line in log.splitlines(keepends=True):
        kind = _NUMBER.sub("0", line)
        lines.append((line, [] if kind in seen else [match.span() for match in _NUMBER.finditer(line)][:MOST_IN_LINE]))
        seen.add(kind)
    for place, odd in itertools.product(range(max((len(spans) for _, spans in lines), default=0)), ODD):
        yield "".join(
            line[: spans[place][0]] + odd + line[spans[place][1] :] if place < len(spans) else line for line, spans in lines
        )
