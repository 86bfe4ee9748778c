"""The plan's Definition of Done, judged line by line by what ``verify`` found (``templates/definition_of_done.yaml``)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..base.documents import convert, parse
from ..base.errors import BadInput, did_you_mean
from ..base.project import PROJECT
from ..base.verdict import Check, Evidence
from . import verify
from .verify import Report

FILE = PROJECT / "templates" / "definition_of_done.yaml"


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line: its text, and which checks of which workloads' jobs prove it (no ``jobs``: every job)."""

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
    """Return the lines of the Definition of Done. Raises BadInput for a mistake in the file, such as an unknown check."""
    lines = convert(parse(FILE.read_bytes() if text is None else text, str(FILE)), Definition, str(FILE)).lines
    for line in lines:
        for check in line.checks:
            if check not in verify.CHECKS:
                raise BadInput(f"{FILE}: line {line.line}: no check '{check}'{did_you_mean(check, verify.CHECKS)}")
    return lines


def judge(reports: Sequence[Report]) -> list[Check]:
    """Return a verdict with its evidence for each line."""
    return [_judge(line, [report for report in reports if not line.jobs or report.workload in line.jobs]) for line in load()]


def _judge(line: Line, reports: Sequence[Report]) -> Check:
    if not reports:
        return Check(line.name, "Skipped", f"no {' or '.join(line.jobs)} job among those given")
    reasons: dict[str, list[str]] = {}
    evidence: list[Evidence] = []
    for name in line.checks:
        checks = [(report, check) for report in reports for check in report.checks if check.name == name]
        if failed := [(report, check) for report, check in checks if not check.met]:
            return Check(line.name, "Fail", _each(failed), [each for pair in failed for each in _evidence(*pair)])
        passed = [(report, check) for report, check in checks if check.verdict == "Pass"]
        if not passed:
            return Check(line.name, "Skipped", _each(checks))
        # All evidence is in the reports; one job's is enough here.
        others = f" and {len(passed) - 1} more" if len(passed) > 1 else ""
        report, check = passed[-1]
        reasons.setdefault(f"{report.folder.submission_id}{others}", []).append(check.reason)
        evidence += _evidence(report, check)
    return Check(line.name, "Pass", "; ".join(f"{jobs}: {'; '.join(texts)}" for jobs, texts in reasons.items()), evidence)


def _each(checks: Sequence[tuple[Report, Check]]) -> str:
    return "; ".join(f"{report.folder.submission_id}: {check.name}: {check.reason}" for report, check in checks)


def _evidence(report: Report, check: Check) -> list[Evidence]:
    """Return a check's evidence with absolute paths: a line of the Definition of Done is about several jobs."""
    return [Evidence(str(report.folder.path / each.file), each.line, each.text) for each in check.evidence]
