"""Text in columns of a terminal: its width where characters take two columns or none, wrapped at words, cut in the middle."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence

from ..base.terminal import shown

_RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_MARK = "\u200e"
"""LEFT-TO-RIGHT MARK: takes no column."""


def width(text: str) -> int:
    """Return how many columns ``text`` takes: East Asian characters and emoji two, combining marks and joiners none."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


@functools.lru_cache(maxsize=4096)
def _columns(character: str) -> int:
    if character == "\u00ad":  # a soft hyphen is shown
        return 1
    if unicodedata.category(character) in ("Cf", "Mn", "Me") or "\u1160" <= character <= "\u11ff":  # parts of a Hangul syllable
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrap(text: str, columns: int) -> list[str]:
    """Return the lines of ``text``, each at most ``columns`` wide, broken at spaces where possible; controls are escaped."""
    paragraphs = text.replace("\r\n", "\n").expandtabs(4).split("\n")
    return [line for paragraph in paragraphs for line in _broken(shown(paragraph).rstrip(), columns)]


def _broken(line: str, columns: int) -> Iterator[str]:
    """Yield the pieces of a line, in one pass: an answer of a megabyte can be a single line."""
    begin, used, space = 0, 0, 0
    for at, character in enumerate(line):
        wide = _columns(character)
        if character == " ":
            space = at
        if used + wide > columns and at > begin:
            if space - begin > (at - begin) // 3:
                yield line[begin:space].rstrip()
                begin = space + 1
                used = width(line[begin:at])
            else:
                yield line[begin:at]  # a mark takes no column: it stays with its character
                begin, used = at, 0
            if begin > at:  # the space at which it was broken
                used = 0
                continue
        used += wide
    yield line[begin:].rstrip()


def padded(text: str, columns: int) -> str:
    """Return ``text`` filled with spaces."""
    return text + " " * max(0, columns - width(text))


def side_by_side(cells: Sequence[str], columns: int, bar: str) -> str:
    """Return cells of ``columns`` each as one line; they keep their places where a terminal reverses right-to-left text."""
    line = bar.join(padded(cell, columns) for cell in cells).rstrip()
    if not _RIGHT_TO_LEFT.search(line):
        return line
    # Source: Unicode Standard Annex 9. A mark sets the direction of the line, or of the bar between two cells.
    return _MARK + bar.join(padded(cell, columns) + _MARK for cell in cells)


def shortened(lines: list[str], most: int) -> list[str]:
    """Return at most ``most`` lines: of longer text the beginning and the end, and between them how many are left out."""
    if len(lines) <= most:
        return lines
    last = max(1, most // 3)
    first = most - last - 1
    return [*lines[:first], f"[… {len(lines) - first - last} more lines …]", *lines[-last:]]
