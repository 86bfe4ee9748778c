"""Format text for a terminal: aligned columns, shortened lines, colour only for people, nothing else that a terminal acts on."""

from __future__ import annotations

import codecs
import os
import re

GREEN, RED, CYAN = "32", "31", "36"
COLOURS = {
    **dict.fromkeys(("SUCCEEDED", "alive"), GREEN),
    **dict.fromkeys(("FAILED", "BLOCKED", "NOT_SUBMITTED", "DAMAGED", "dead", "missing"), RED),
    "RUNNING": CYAN,
}


_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_BEGUN = re.compile(r"\x1b(?:\[[0-9;:]{0,30})?\Z")
"""The start of a colour that may continue in the next piece."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters on which a terminal acts, except tab and line ends: C0, DEL, C1, line separators, bidi controls; and surrogates."""


def shown(text: str) -> str:
    """Return a message that may quote others: colours left out, every other control character escaped (``\\x1b``)."""
    return inert(text).replace("\r", "\\x0d")


class LogText:
    """A log, piece by piece, like ``shown`` but with the carriage returns of progress bars; escapes bytes that are not UTF-8."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._begun = ""

    def take(self, piece: bytes, *, last: bool = False) -> bytes:
        """Return what can be shown now; a colour that may go on in the next piece is kept back unless this is the ``last``."""
        text = self._begun + self._decoder.decode(piece, last)
        begun = None if last else _BEGUN.search(text)
        self._begun = begun[0] if begun else ""
        return inert(text[: len(text) - len(self._begun)]).encode()


def inert(text: str) -> str:
    """Return ``shown`` with the carriage returns."""
    return _CONTROL.sub(_escape, _COLOUR.sub("", text))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def columns(titles: list[str], rows: list[list[str]], width: int, colour: bool) -> list[str]:
    """Return aligned lines; the last column gets the remaining width."""
    rows = [[shown(cell) for cell in row] for row in rows]
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
    line = shown(" ".join(line.split("\n")))
    return line if len(line) <= width else line[: max(1, width - 1)] + "…"


def wants_colour(is_terminal: bool) -> bool:
    """Return whether to use colour: on a terminal, unless the user refuses it (https://no-color.org)."""
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
