"""One step of a run as it is kept: verdict, evidence, command, outcome."""

from __future__ import annotations

import msgspec

from ..diagnosis.views import Triage
from .criteria import Criterion, Verdict
from .execute import Outcome


class Step(msgspec.Struct, kw_only=True):
    """One step's verdict, as in its ``step.json``."""

    name: str
    title: str
    verdict: Verdict
    reason: str
    evidence: list[str] = []
    fixes: list[str] = []
    """What to do about it, where the step knows."""
    command: list[str] = []
    env: dict[str, str] = {}
    """What the command's environment adds to that of the shell."""
    cwd: str = ""
    log: str = ""
    outcome: Outcome | None = None
    criteria: list[Criterion] = []
    triage: Triage | None = None
    learning: list[str] = []
    limitations: list[str] = []
    began: str = ""
    seconds: float = 0.0
    fingerprints: dict[str, str] = {}

    @property
    def passed(self) -> bool:
        return self.verdict == "Pass"
