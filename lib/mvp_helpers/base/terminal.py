"""Format text for a terminal: aligned columns, shortened lines, colour only for people."""

from __future__ import annotations

import os

GREEN, RED, CYAN = "32", "31", "36"
COLOURS = {
    **dict.fromkeys(("SUCCEEDED", "alive"), GREEN),
    **dict.fromkeys(("FAILED", "BLOCKED", "NOT_SUBMITTED", "dead", "missing"), RED),
    "RUNNING": CYAN,
}


def columns(titles: list[str], rows: list[list[str]], width: int, colour: bool) -> list[str]:
    """Return aligned lines; the last column gets the remaining width."""
    wide = [max(len(row[at]) for row in [titles, *rows]) for at in range(len(titles))]
    lines = []
    for row in [titles, *rows]:
        line = cut("  ".join(f"{cell:<{room}}" for cell, room in zip(row, wide, strict=True)).rstrip(), width)
        if colour and row is not titles:
            state = next((cell for cell in row if cell in COLOURS), "")
            line = line.replace(f" {state} ", f" \x1b[{COLOURS[state]}m{state}\x1b[0m ", 1) if state else line
        elif colour:
            line = f"\x1b[1m{line}\x1b[0m"
        lines.append(line)
    return lines


def cut(line: str, width: int) -> str:
    """Return ``line`` on one line of at most ``width`` columns, with an ellipsis where it was longer."""
    line = " ".join(line.split("\n"))
    return line if len(line) <= width else line[: max(1, width - 1)] + "…"


def wants_colour(is_terminal: bool) -> bool:
    """Return whether to use colour: on a terminal, unless the user refuses it (https://no-color.org)."""
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
