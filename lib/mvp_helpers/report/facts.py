"""What the page of one job shows, read from its folder. What is missing or damaged is named, and harms nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base import files, redact
from ..base.documents import Damaged, read_json, read_yaml
from ..base.errors import BadInput, MvpError
from ..base.mask import Masking
from ..base.paths import JobFolder
from ..base.times import seconds_of
from ..base.verdict import Check, Evidence
from ..diagnosis import job_evidence
from ..diagnosis.answer import Diagnosis
from ..masking import known
from ..proof import verify
from ..proof.evidence import Job
from ..proof.verify import Report
from ..record import chain as chains
from ..record.chain import Chain
from ..record.job_folder import Result
from ..record.metrics import STEP_SECONDS
from . import curves, excerpts
from .curves import Curves, Series
from .excerpts import Excerpts

MOST_JUDGED = 256 << 20
"""Bytes of metrics that the checks of ``54`` may read at once; larger files are drawn, and not judged here."""
MOST_TEXT = 60_000
"""Characters of a file that are shown whole."""


@dataclass
class Run:
    """One job, ready to be shown."""

    folder: JobFolder
    result: Result
    mask: Masking
    checks: list[Check] = field(default_factory=list)
    diagnosis: Diagnosis | None = None
    """None for a job that succeeded or goes on."""
    curves: Curves = field(default_factory=Curves)
    excerpts: Excerpts = field(default_factory=Excerpts)
    chain: Chain | None = None
    usage: dict[str, Series] = field(default_factory=dict)
    """What the hosts used, by measure and host."""

    @property
    def id(self) -> str:
        return self.folder.submission_id

    def shown(self, text: str) -> str:
        """Return a text that people may get: values of secrets masked."""
        return redact.text(self.mask.text(text))

    def text(self, name: str) -> str:
        """Return a small file of the job folder, or the reason why it is missing."""
        path = self.folder.path / name
        try:
            with files.opened(path) as stream:
                content = stream.read(MOST_TEXT + 1).decode(errors="replace")
        except FileNotFoundError:
            content = ""
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
        content = content if len(content) <= MOST_TEXT else content[:MOST_TEXT] + "\n…"
        return self.shown(content) if content else f"{name} is missing or empty"

    def provenance(self) -> dict[str, Any]:
        """Return ``config/provenance.json``, empty when it is missing or damaged."""
        try:
            value = read_json(self.folder.provenance)
        except (OSError, Damaged):
            return {}
        return value if isinstance(value, dict) else {}

    def resolved(self) -> dict[str, Any]:
        """Return ``config/resolved.yaml`` as plain data, empty when it is missing or damaged."""
        try:
            value = read_yaml(self.folder.resolved)
        except (OSError, Damaged):
            return {}
        return value if isinstance(value, dict) else {}

    def packages(self) -> dict[str, Any] | str:
        """Return the trainer's packages and their versions, and its hardware by names in brackets; why there are none as text."""
        try:
            value = read_json(self.folder.packages)
        except FileNotFoundError:
            return "no packages.json"
        except (OSError, Damaged) as error:
            return f"packages.json: {error}"
        packages = value.get("packages") if isinstance(value, dict) else None
        if not isinstance(packages, dict):
            return "packages.json has no packages"
        hardware = {f"({name})": value[name] for name in ("cpu", "cuda", "driver", "gpus") if value.get(name)}
        return {**hardware, **packages}

    def step_seconds(self) -> dict[int, float]:
        """Return for some steps the seconds from the job's start to their end, by the log; by the trainer's own times without."""
        logged = self.excerpts.step_seconds
        if logged and self.result.started_at:
            began = seconds_of(self.result.started_at)
            return {step: round(moment - began, 3) for step, moment in logged.items()}
        return by_own_clock(self.curves)


def by_own_clock(drawn: Curves) -> dict[int, float]:
    """Return the seconds from the first step to the end of each, by the trainer's own times; empty where values are left out."""
    series = next((drawn.series[name] for name in STEP_SECONDS if name in drawn.series), None)
    if not series or drawn.reduced:
        return {}
    total, seconds = 0.0, {}
    for step, value in series.points:
        total += value or 0.0
        seconds[step] = round(total, 3)
    return seconds


def load(job: Job, checks: list[Check]) -> Run:
    """Return one job as its page shows it, with its part of what ``judge`` returned. Raises BadInput when it has no folder."""
    folder, result = job.folder, job.result
    run = Run(folder, result, known.mask(folder.shared), checks)
    if result.state != "SUCCEEDED":
        try:
            run.diagnosis = job_evidence.of_job(folder, result)
        except MvpError as error:
            run.diagnosis = Diagnosis(verdict="Unknown", evidence=error.what)
    with contextlib.suppress(OSError):  # no step came; the page says so
        run.curves = curves.read(folder.metrics)
    cited = [evidence for check in run.checks for evidence in check.evidence]
    if run.diagnosis and run.diagnosis.log:
        cited.append(Evidence(run.diagnosis.log, run.diagnosis.line, run.diagnosis.evidence))
    run.excerpts = excerpts.read(folder, cited, run.mask)
    try:
        run.chain = chains.find(folder.shared, folder.submission_id)
    except BadInput:
        run.chain = None
    return run


def judge(jobs: Sequence[Job]) -> list[Report]:
    """Return the checks of ``54`` over all jobs, in the order given; of a job with a very large metrics file they are Skipped."""
    sizes = {job.folder.submission_id: _metrics_bytes(job) for job in jobs}
    judged = verify.verify([job for job in jobs if sizes[job.folder.submission_id] <= MOST_JUDGED])
    reports = {report.folder.submission_id: report for report in judged}
    for job in jobs:
        if (name := job.folder.submission_id) not in reports:
            reason = f"metrics.jsonl has {sizes[name] >> 20} MiB; run ./scripts/54_verify.sh {name}"
            checks = [Check(check, "Skipped", reason) for check in verify.CHECKS]
            reports[name] = Report(job.folder, job.result.workload, checks)
    return [reports[job.folder.submission_id] for job in jobs]


def _metrics_bytes(job: Job) -> int:
    try:
        return job.folder.metrics.stat().st_size
    except OSError:
        return 0


def jobs_of_chain(chain: Chain, gone: Sequence[str] = ()) -> list[str]:
    """Return the ids of a chain's attempts whose folders are there, oldest first."""
    return [attempt.id for attempt in chain.attempts if attempt.id not in gone]
