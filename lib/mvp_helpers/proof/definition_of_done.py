"""The plan's Definition of Done, judged line by line from what ``verify`` found (``templates/definition_of_done.yaml``)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..base.documents import convert, parse
from ..base.errors import BadInput, did_you_mean
from ..base.project import PROJECT
from . import verify
from .verify import Check, Report

FILE = PROJECT / "templates" / "definition_of_done.yaml"


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line: what it says, and which checks of which workloads' jobs prove it (no ``jobs``: every job)."""

    line: str
    says: str
    checks: list[str]
    jobs: list[str] = []

    @property
    def name(self) -> str:
        return f"{self.line} {self.says}"


class Definition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    lines: list[Line]


def load(text: bytes | None = None) -> list[Line]:
    """The lines of the Definition of Done. Raises BadInput for a mistake in the file, such as an unknown check."""
    lines = convert(parse(FILE.read_bytes() if text is None else text, str(FILE)), Definition, str(FILE)).lines
    for line in lines:
        for check in line.checks:
            if check not in verify.CHECKS:
                raise BadInput(f"{FILE}: line {line.line}: no check '{check}'{did_you_mean(check, verify.CHECKS)}")
    return lines


def judge(reports: Sequence[Report]) -> list[Check]:
    """A verdict with its evidence for each line."""
    return [_judge(line, [report for report in reports if not line.jobs or report.workload in line.jobs]) for line in load()]


def _judge(line: Line, reports: Sequence[Report]) -> Check:
    if not reports:
        return Check(line.name, "Skipped", f"no {' or '.join(line.jobs)} job among those given")
    told: dict[str, list[str]] = {}
    for name in line.checks:
        found = {report.folder.submission_id: check for report in reports for check in report.checks if check.name == name}
        failed = [f"{job}: {name}: {check.evidence}" for job, check in found.items() if check.verdict == "Fail"]
        if failed:
            return Check(line.name, "Fail", "; ".join(failed))
        passed = [job for job, check in found.items() if check.verdict == "Pass"]
        if not passed:
            return Check(line.name, "Skipped", "; ".join(f"{job}: {name}: {check.evidence}" for job, check in found.items()))
        # All evidence is in the reports; one job's is enough here.
        others = f" and {len(passed) - 1} more" if len(passed) > 1 else ""
        told.setdefault(f"{passed[-1]}{others}", []).append(found[passed[-1]].evidence)
    return Check(line.name, "Pass", "; ".join(f"{who}: {'; '.join(evidence)}" for who, evidence in told.items()))
