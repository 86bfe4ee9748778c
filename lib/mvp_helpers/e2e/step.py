"""One step of a run as its ``step.json`` keeps it: a check with its command, outcome, criteria and limitations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..base.verdict import Check, Evidence, Verdict
from ..diagnosis.views import Triage
from .execute import Outcome


class Step(msgspec.Struct, kw_only=True):
    """One step's verdict. name, verdict, reason, evidence and seconds are those of every check."""

    name: str = ""
    title: str = ""
    verdict: Verdict
    reason: str
    evidence: list[Evidence] = []
    fixes: list[str] = []
    """What to do about it, where the step knows."""
    command: list[str] = []
    env: dict[str, str] = {}
    """What the command's environment adds to that of the shell."""
    cwd: str = ""
    log: str = ""
    alone: bool = False
    """Its verdict does not end the run: it says nothing about the steps after it."""
    by_request: bool = False
    """What stops it is asked for by the request: a resume would stop again."""
    outcome: Outcome | None = None
    criteria: list[Check] = []
    triage: Triage | None = None
    learning: list[str] = []
    limitations: list[str] = []
    began: str = ""
    seconds: float = 0.0
    fingerprints: dict[str, str] = {}
    where: str = ""
    """The host, the interpreter and the image that it ran in."""

    @property
    def passed(self) -> bool:
        return self.verdict == "Pass"

    @property
    def texts(self) -> list[str]:
        """The texts of the evidence."""
        return [evidence.text for evidence in self.evidence]


def step_of(
    verdict: Verdict, reason: str, evidence: Sequence[str] = (), log: Path | None = None, limitations: Sequence[str] = ()
) -> Step:
    """Return a step's outcome; ``evidence`` are texts that come from no file."""
    return Step(
        verdict=verdict,
        reason=reason,
        evidence=[text_of(text) for text in evidence],
        log=str(log or ""),
        limitations=list(limitations),
    )


def text_of(text: str) -> Evidence:
    """Return evidence that comes from no file."""
    return Evidence("", None, text)


def last_line(log: Path) -> str:
    """Return the last line of a log that is not empty; "" when there is none."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    return lines[-1][:300] if lines else ""
