"""Text in columns of a terminal: its width where characters take two columns or none, wrapped at words, cut in the middle."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from ..base.terminal import shown


def width(text: str) -> int:
    """Return how many columns ``text`` takes: East Asian characters and emoji two, combining marks and joiners none."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrap(text: str, columns: int) -> list[str]:
    """Return the lines of ``text``, each at most ``columns`` wide, broken at spaces where possible; controls are escaped."""
    return [line for paragraph in text.expandtabs(4).split("\n") for line in _broken(shown(paragraph), columns)]


def _broken(line: str, columns: int) -> Iterator[str]:
    while width(line) > columns:
        at = _fitting(line, columns)
        space = line.rfind(" ", 1, at + 1)
        if space > at // 3:
            yield line[:space].rstrip()
            line = line[space + 1 :]
        else:
            yield line[:at]
            line = line[at:]
    yield line.rstrip()


def _fitting(line: str, columns: int) -> int:
    """Return how many characters fit, at least one; a mark stays with the character that it belongs to."""
    used = 0
    for at, character in enumerate(line):
        used += _columns(character)
        if used > columns and at:
            return at
    return len(line)


def padded(text: str, columns: int) -> str:
    """Return ``text`` filled with spaces."""
    return text + " " * max(0, columns - width(text))


def shortened(lines: list[str], most: int) -> list[str]:
    """Return at most ``most`` lines: of longer text the beginning and the end, and between them how many are left out."""
    if len(lines) <= most:
        return lines
    last = max(1, most // 3)
    first = most - last - 1
    return [*lines[:first], f"[… {len(lines) - first - last} more lines …]", *lines[-last:]]
