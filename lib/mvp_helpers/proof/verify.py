"""Script 54: proof, from a job folder's evidence alone, that a job ran as it should."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..base import verdict
from ..base.paths import JobFolder
from ..base.verdict import Check
from . import accounts, outcome, ownership, placement, planned, sealed, training_log
from .evidence import Fail, Job, Judge, judge

CHECKS: dict[str, Judge] = {
    "sealed": sealed.sealed,
    "as planned": planned.as_planned,
    "one account": accounts.agree,
    "times in order": accounts.times_in_order,
    "succeeded": outcome.ended_well,
    "running": placement.running,
    "submitted from the head": placement.submitted_from_head,
    "driver on a worker": placement.driver_on_worker,
    "trained on this cluster": placement.trained_on_this_cluster,
    "own folder": ownership.own_folder,
    "nothing older in it": ownership.nothing_older,
    "nothing resumed unasked": ownership.nothing_resumed,
    "data and model reused": ownership.inputs_reused,
    "checkpoints": outcome.checkpoints,
    "Ray snapshots": outcome.snapshots,
    "code from code_path": placement.code_from_code_path,
    "metrics": outcome.metrics_whole,
    "log": training_log.log_agrees,
}


@dataclass(frozen=True)
class Report:
    """All checks of one job."""

    folder: JobFolder
    workload: str
    checks: list[Check]

    @property
    def passed(self) -> bool:
        return verdict.all_met(self.checks)

    def to_builtins(self) -> dict[str, Any]:
        checks = msgspec.to_builtins(self.checks)
        return {"id": self.folder.submission_id, "folder": str(self.folder.path), "passed": self.passed, "checks": checks}


def verify(jobs: Sequence[Job], learning: bool = False) -> list[Report]:
    """Return a report for each job, in the order given; ``data and model reused`` compares them in the order of their claims.

    ``learning``: with the check that the job learned its task.
    """
    in_time = sorted(jobs, key=lambda job: job.result.claimed_at)
    return [Report(job.folder, job.result.workload, _checks(job, in_time[: in_time.index(job)], learning)) for job in jobs]


def _checks(job: Job, before: Sequence[Job], learning: bool) -> list[Check]:
    if not job.result.ended:
        job.cite(job.folder.result, '"state"')
        reason = f"the job has not ended: result.json says {job.result.state}"
        unjudged = [Check(name, "Skipped", "the job has not ended") for name in CHECKS]
        return [Check("succeeded", "Fail", reason, job.cited) if check.name == "succeeded" else check for check in unjudged]
    checks = CHECKS
    if learning:
        from . import learned

        checks = checks | {"learned": learned.learned}
    if _is_attempt(job):
        from . import lineage  # needs the diagnosis, which no other check does

        checks = checks | {"attempt of a chain": lineage.attempt}
    return [judge(name, check, job, before) for name, check in checks.items()]


def _is_attempt(job: Job) -> bool:
    try:
        return job.provenance.get("attempt") is not None
    except Fail:  # the other checks report its errors
        return False


def table(report: Report, width: int) -> str:
    """Return one report for people, in lines of at most ``width`` columns."""
    return verdict.table(report.checks, width, f"{report.folder.submission_id}  {report.folder.path}")


def counts(reports: Sequence[Report]) -> str:
    """Return ``2 jobs: 20 Pass, 0 Fail, 2 Skipped``."""
    verdicts = [check.verdict for report in reports for check in report.checks]
    jobs = f"{len(reports)} job{'s' if len(reports) != 1 else ''}"
    return f"{jobs}: " + ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in ("Pass", "Fail", "Skipped"))
