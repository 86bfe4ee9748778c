"""A log that was copied from a terminal, where each long line became several of the terminal's width."""

from __future__ import annotations

NARROWEST, WIDEST = 40, 250
"""Widths of a terminal, in characters."""
FEWEST = 3
"""So many lines of one width, and a quarter of all, are no chance."""


def lines(log: str) -> list[tuple[int, str]]:
    """Return the lines as they were before, each with the number of its first part, from 1; none if nothing was wrapped."""
    rows = log.splitlines()
    width = max((len(row.rstrip()) for row in rows), default=0)
    full = [width - len(row.rstrip()) < 2 for row in rows]
    if not NARROWEST <= width <= WIDEST or sum(full) < max(FEWEST, len(rows) / 4):
        return []
    joined: list[tuple[int, str]] = []
    for number, row in enumerate(rows, 1):
        text = row.rstrip().ljust(width) if full[number - 1] else row.rstrip()
        if number > 1 and full[number - 2]:
            first, before = joined.pop()
            joined.append((first, before + text))
        else:
            joined.append((number, text))
    return joined
