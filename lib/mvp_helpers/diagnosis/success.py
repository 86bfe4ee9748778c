"""What contradicts a log that reports success: NaN in its metrics, a bad end, a last run that is cut off, a later failure."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from ..trainers import metric_names
from ..trainers.log_patterns import VERL
from . import log_lines
from .learning import not_finite
from .metric_lines import Steps, metrics_of
from .signatures import Signatures

TAIL = 1 << 16
"""Bytes at the end of a log that are kept."""
BROKEN_OFF = "Error executing job with overrides"
"""Hydra prints this before a job's last exception."""
# How programs report a bad end, whatever else the log contains.
_BAD_END = re.compile(
    rb"(?i)(?:exit(?:ed|ing|s)?(?: with)?(?: non-zero)?(?: exit)?[ -]?(?:code|status)|return(?:ed|s)?[ -]?code|\brc)"
    rb"[ :=]+(?!0\b)-?\d+"
    rb"|^make: \*\*\* |Job failed\b|status: FAILED|\bJob '.*' failed|^\++ exit (?!0\b)\d|^timeout: sending signal"
    rb"|\bCANCELLED AT\b|^##\[error\]|^" + BROKEN_OFF.encode()
)
_PERCENT = re.compile(VERL.percent.encode())
_NOT_FINITE = re.compile(rb":(?:np\.float\d+\()?-?(?:nan|inf)")
"""Lines of metrics without a match are not parsed, for speed."""


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """Why a log that reports success does not pass."""

    verdict: Literal["Fail", "Unknown"]
    rule: str = ""
    evidence: str
    advice: str


class SuccessCheck:
    """Collects what contradicts success while a log is read."""

    def __init__(self) -> None:
        self._steps: Steps = {}
        """Steps with a metric that is not finite."""
        self._tail = b""

    def read(self, lines: bytes) -> None:
        """Read the next complete lines of the log."""
        self._tail = lines[-TAIL:] if len(lines) >= TAIL else (self._tail + lines)[-TAIL:]
        for match in _NOT_FINITE.finditer(lines):
            begin, end = lines.rfind(b"\n", 0, match.start()) + 1, lines.find(b"\n", match.end())
            step, metrics = metrics_of(lines[begin : end if end >= 0 else len(lines)])
            if metrics:
                self._steps.setdefault(step, {}).update(metrics)

    def doubt(self, signatures: Signatures, ended: bool) -> Doubt | None:
        """Return what contradicts success, None if nothing does; ``ended``: the log reports that the run reached its end."""
        if problems := not_finite(self._steps, metric_names.VERL):
            return Doubt(
                verdict="Fail", rule="not-finite", evidence=problems[0], advice="The run cannot pass: later steps learn nothing."
            )
        bad_ends = [line for line in self._tail.splitlines() if _BAD_END.search(line)]
        if bad_ends:
            return _not_a_pass(
                bad_ends[-1].decode(errors="replace").strip()[:300],
                "the log reports that the run reached its end, and also that it ended badly",
            )
        percents = _PERCENT.findall(self._tail)
        if percents and int(percents[-1]) < 100:
            return _not_a_pass(
                f"Training Progress: {int(percents[-1])}% is the last progress", "the last run in the log did not reach its end"
            )
        failure = self._later_failure(signatures) if ended else ""
        return _not_a_pass(failure, "after its end the log reports that something could not start") if failure else None

    def _later_failure(self, signatures: Signatures) -> str:
        """Return the first error after the run's end that only occurs at a start; "" without one."""
        rules_of_start = [rule for rule in signatures.rules if rule.phase == ["start"]]
        early = msgspec.structs.replace(signatures, rules=rules_of_start)
        ends = [mark.pattern for mark in signatures.all_marks() if mark.phase == "done"]
        failure = ""
        for raw in reversed(self._tail.split(b"\n")):
            line = log_lines.clean(raw, 0)
            if any(end.search(line.text) or end.search(log_lines.plain(raw)) for end in ends):
                break
            if hit := early.of_line(line, "start"):
                failure = hit.evidence[:300]
        return failure


def _not_a_pass(evidence: str, reason: str) -> Doubt:
    return Doubt(verdict="Unknown", evidence=evidence, advice=f"Not a pass: {reason}.")
