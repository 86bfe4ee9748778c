"""The shape of every check, its JSON form (described in docs/checks.md), and the table that shows checks to people.

``00``, ``54``, the Definition of Done and the end-to-end steps, criteria and deliverables all report a ``Check``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from .terminal import COLOURS as STATE_COLOURS
from .terminal import CYAN, GREEN, RED, shown

Verdict = Literal["Pass", "Fail", "Blocked", "Skipped", "Not requested"]
SIGNS: dict[Verdict, str] = {"Pass": "✓", "Fail": "✗", "Blocked": "✗", "Skipped": "–", "Not requested": "–"}
COLOURS: dict[Verdict, str] = {"Pass": GREEN, "Fail": RED, "Blocked": RED, "Skipped": CYAN, "Not requested": CYAN}
NARROWEST = 40
"""Columns that a reason gets at least, however narrow the terminal is."""


class Evidence(msgspec.Struct, frozen=True):
    """What a verdict rests on: a text, the file that holds it, and its line there."""

    file: str
    """Relative to the folder that the check is about (a job folder), or absolute; "" when the text comes from no file."""
    line: int | None
    """From 1; None when the evidence is the whole file."""
    text: str

    def show(self) -> str:
        """``logs/driver.log:12: text``."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.text}" if place else self.text


class Check(msgspec.Struct, frozen=True):
    """One check: whether something holds, why, and the evidence for it."""

    name: str
    verdict: Verdict
    reason: str = ""
    evidence: list[Evidence] = []
    seconds: float = 0.0
    """How long the check took."""
    hint: str = ""
    """What to do about it, where the check knows."""

    @property
    def met(self) -> bool:
        return self.verdict not in ("Fail", "Blocked")


def all_met(checks: Sequence[Check]) -> bool:
    """Return whether no check is Fail or Blocked."""
    return all(check.met for check in checks)


def table(checks: Sequence[Check], width: int, title: str = "", *, colour: bool = False) -> str:
    """Return a row for each check: sign, verdict, name, reason; below a check that is not met, its hint."""
    import textwrap

    longest = max((len(check.name) for check in checks), default=0)
    word = max((len(check.verdict) for check in checks), default=0)
    indent = "  " if title else ""
    lines = [title] if title else []
    for check in checks:
        head = f"{indent}{SIGNS[check.verdict]} {check.verdict:<{max(word, 7)}}  {check.name:<{longest}}  "
        room = max(NARROWEST, width - len(head))
        texts = textwrap.wrap(shown(check.reason), room, break_on_hyphens=False) or [""]
        if check.hint and not check.met:
            texts += textwrap.wrap(shown(check.hint), room, initial_indent="→ ", subsequent_indent="  ", break_on_hyphens=False)
        first = (head + texts[0]).rstrip()
        word_end = len(indent) + len(SIGNS[check.verdict]) + 1 + len(check.verdict)
        lines.append(f"\x1b[{COLOURS[check.verdict]}m{first[:word_end]}\x1b[0m{first[word_end:]}" if colour else first)
        lines += [" " * len(head) + text for text in texts[1:]]
    return "\n".join(lines)


_WORDS: dict[str, str] = {**STATE_COLOURS, **{str(word): colour for word, colour in COLOURS.items()}}
_HEAD = re.compile(rf"^((?:- )?[^:\n]{{1,60}}: )?({'|'.join(_WORDS)})(?= in | - |: |$)", re.MULTILINE)
"""A state or verdict at the beginning of a line, or behind the name of what it is about."""


def painted(text: str, colour: bool) -> str:
    """Return text whose lines begin with a state or a verdict, or with the name of its subject and then it, in its colour."""
    if not colour:
        return text
    return _HEAD.sub(lambda match: f"{match[1] or ''}\x1b[{_WORDS[match[2]]}m{match[2]}\x1b[0m", text)
