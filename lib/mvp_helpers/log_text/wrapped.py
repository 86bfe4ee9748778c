"""A log that was copied from a terminal, where each long line became several of the terminal's width."""

from __future__ import annotations

import re
from collections import Counter

from . import log_lines

NARROWEST, WIDEST = 20, 250
"""Widths of a terminal, in characters."""
FEWEST = 3
"""A log is taken for a wrapped one if at least this many lines, and a quarter of all, have the same width."""
_ROW = re.compile(r"\s*[|+│┃║╭╰├└┌*#=-].*[|+│┃║╮╯┤┘┐*#=-]\s*$")
"""A row of a table, or a rule."""
_RECORD = re.compile(r" +\+ CategoryInfo ")
"""A line of the record with which PowerShell shows that a program printed on stderr."""
_POSITION = re.compile(r"At (?:line|\S.*\.ps1):\d+ char:\d+$")
"""The first line of such a record."""
_PROGRAM = re.compile(r"\S+ : (?=\S)")
_SHORT_DATE = re.compile(r"\d\d-\d\d-\d\d \d\d:\d\d:")
"""A date that other lines of logs hardly have."""


def lines(log: str) -> list[tuple[int, str]]:
    """Return the lines as they were before, each with the number of its first part, from 1; none if nothing was wrapped."""
    rows = log.splitlines()
    lengths = Counter(len(row.rstrip()) for row in rows if not _ROW.match(row))
    # A space at the end of a part is not in every copy.
    width = max(range(NARROWEST, WIDEST + 1), key=lambda length: lengths[length] + lengths[length - 1])
    full = [len(row.rstrip()) in (width - 1, width) and not _ROW.match(row) for row in rows]
    if sum(full) < max(FEWEST, len(rows) / 4):
        return []
    joined: list[tuple[int, str]] = []
    for number, row in enumerate(rows, 1):
        text = row.rstrip().ljust(width) if full[number - 1] else row.rstrip()
        if number > 1 and full[number - 2] and not _begins(row):
            first, before = joined.pop()
            joined.append((first, before + text))
        else:
            joined.append((number, text))
    return joined


def of_powershell(log: str) -> list[tuple[int, str]]:
    """Return the same of a log in which PowerShell wrapped what a program printed on stderr; none if it did not.

    It breaks a line at the last space within the width, which stays at the line's end, or within a word.
    """
    rows = log.splitlines()
    record = next((at for at, row in enumerate(rows) if _RECORD.match(row)), None)
    if record is None:
        return []
    lengths = Counter(map(len, rows[record:]))
    width = max(range(NARROWEST, WIDEST + 1), key=lambda length: lengths[length])
    if lengths[width] < FEWEST:
        return []
    joined: list[tuple[int, str]] = []
    soft = full = False
    for number, row in enumerate(rows, 1):
        alike = number > 1 and row.split()[:1] == rows[number - 2].split()[:1]  # lines of their own, of one width
        alike |= bool(joined) and not joined[-1][1].strip(" ~^") and row[:1].isalpha()  # below what marks a place in code
        if soft or (full and not alike and not _begins(row)):
            first, before = joined.pop()
            joined.append((first, before + row))
        else:
            joined.append((number, row))
        soft = len(row) <= width and row[-1:] == " " != row[-2:-1]
        full = len(row) == width
    return _without_records(joined)


def _without_records(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the lines without PowerShell's records, and without the name of the program before the line that each is about."""
    kept: list[tuple[int, str]] = []
    within = False
    for number, text in lines:
        if _POSITION.match(text):
            within = True
            if kept:
                kept[-1] = (kept[-1][0], _PROGRAM.sub("", kept[-1][1]))
        else:
            within = within and (not text.strip() or text.lstrip()[0] in "+~")
        if not within:
            kept.append((number, text))
    return kept


def _begins(row: str) -> bool:
    """Return whether a row has what begins a line of its own: a time, a level, or the name of a process."""
    line = log_lines.clean(row.encode(), 0)
    return line.logged or bool(line.source) or bool(_SHORT_DATE.match(row))
