"""Errors shown to the user: one message, one exit code, no traceback."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 4000
"""Characters of a message that are printed."""


def _shown(text: str) -> str:
    """Return a message as a terminal may get it: whatever a user wrote can be quoted in it."""
    # From the middle: a value can be long, and the words around it name its origin and the mistake.
    cut = text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}…{text[-LONGEST // 2 :]}"
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in cut)


class MvpError(Exception):
    """A failure with a message for the user.

    ``what`` says what failed and with which value; ``hint`` says what to try next; ``exit_code``: see docs/reference.md.
    """

    exit_code = 1
    label = "failed"

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def show(self) -> str:
        """Return the message as printed on stderr: one line, and a second one with the hint."""
        return f"{self.label}: {_shown(self.what)}" + (f"\n  try: {_shown(self.hint)}" if self.hint else "")


class Failed(MvpError):
    """A job or a check failed (exit code 1)."""


class BadInput(MvpError):
    """The user's input is wrong (exit code 2)."""

    exit_code = 2
    label = "bad input"


class Blocked(MvpError):
    """The environment prevents the run: the result says nothing about the code under test (exit code 3)."""

    exit_code = 3
    label = "blocked"


class TimedOut(MvpError):
    """A time limit passed (exit code 4)."""

    exit_code = 4
    label = "timed out"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the nearest known word, or an empty string."""
    import difflib  # takes 10 ms: imported only after a mistake

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""
