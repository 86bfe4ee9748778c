"""The two views of a diagnosis: script 55's for the owner of a job or log, and script 62's for the code under test."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from ..base.paths import JobFolder
from ..record.chain import OUT_OF_MEMORY
from ..record.job_folder import Result
from ..usage import growth, resources
from . import diagnose, job_evidence
from .answer import Confidence, Diagnosis, Verdict
from .phases import WORDS, Phase
from .signature_files import Whose


class Explanation(msgspec.Struct, kw_only=True):
    """Script 55's view. ``where`` is the place in the log, ``file`` and ``line`` the code that raised."""

    verdict: Verdict
    """Fail, Blocked, Noise, Unknown; Pass if the job succeeded, Skipped if it was stopped on request."""
    rule: str
    boundary: str
    whose: Whose
    file: str
    line: int | None
    evidence: str
    where: str
    phase: Phase | Literal[""]
    step: int | None
    confidence: Confidence
    advice: str
    next: str
    memory: str = ""
    """Of a job that runs, or that ran out of memory: which host's memory grew with the steps."""


class Triage(msgspec.Struct, kw_only=True):
    """Script 62's view. ``line`` is the evidence's line in ``log``, from 1."""

    log: str
    verdict: Verdict
    boundary: str = ""
    phase: Phase | Literal[""] = ""
    rule: str = ""
    line: int | None = None
    evidence: str = ""
    confidence: Confidence = "low"
    advice: str = ""
    follow_up: str = ""
    limitation: str = ""
    """What the run that ``follow_up`` proposes does not show."""
    learning: list[str] = []
    """Sentences about the metrics."""


def explain_log(path: Path) -> Explanation:
    """Return script 55's view of a log. Raises BadInput if it is not readable text."""
    return explanation(diagnose.of_log(path))


def explain_job(folder: JobFolder, result: Result) -> Explanation:
    """Return script 55's view of a job; ``result`` is its latest state (see ``reconcile.settle``)."""
    view = explanation(job_evidence.of_job(folder, result))
    if (result.state == "RUNNING" or view.rule in OUT_OF_MEMORY) and (found := growth.soonest(resources.read(folder.resources))):
        return msgspec.structs.replace(view, memory=found.describe())
    return view


def triage_file(path: Path) -> Triage:
    """Return script 62's view of a metrics file (.json, .jsonl) or a log. Raises BadInput if it is neither."""
    return triage_metrics(path) if path.suffix in (".json", ".jsonl") else triage_log(path)


def triage_log(path: Path) -> Triage:
    """Return script 62's view of a log. Raises BadInput if it is not readable text."""
    return triage(diagnose.of_log(path), path)


def triage_metrics(path: Path) -> Triage:
    """Return script 62's view of a metrics file. Raises BadInput if it contains no metrics."""
    return triage(diagnose.of_metrics(path), path)


def explanation(diagnosis: Diagnosis) -> Explanation:
    """Return script 55's view of a diagnosis."""
    return Explanation(
        verdict=diagnosis.verdict,
        rule=diagnosis.rule,
        boundary=diagnosis.boundary,
        whose=diagnosis.whose,
        file=diagnosis.code_file,
        line=diagnosis.code_line,
        evidence=diagnosis.evidence,
        where=_place(diagnosis.log, diagnosis.line),
        phase=diagnosis.phase,
        step=diagnosis.step,
        confidence=diagnosis.confidence,
        advice=diagnosis.advice,
        next=diagnosis.next,
    )


def triage(diagnosis: Diagnosis, path: Path) -> Triage:
    """Return script 62's view of the diagnosis of the file ``path``."""
    return Triage(
        log=str(path),
        verdict=diagnosis.verdict,
        boundary=diagnosis.boundary,
        phase=diagnosis.phase,
        rule=diagnosis.rule,
        line=diagnosis.line,
        evidence=diagnosis.evidence,
        confidence=diagnosis.confidence,
        advice=diagnosis.advice,
        follow_up=diagnosis.next,
        limitation=diagnosis.limitation,
        learning=diagnosis.learning,
    )


def show_explanation(view: Explanation) -> str:
    """Return script 55's view as text."""
    owner = {"environment": "the environment's", "user": "yours"}.get(view.whose, "")
    facts = ", ".join(part for part in (view.boundary, owner) if part not in ("", "unknown"))
    explained = view.verdict not in ("Pass", "Skipped")
    when = WORDS.get(view.phase, "") if explained else ""
    return _text(
        ": ".join(part for part in (view.verdict, facts) if part),
        {
            "cause": view.evidence if explained else "",
            "reason": view.evidence if view.verdict == "Skipped" else "",
            "log": view.where,
            "code": _place(view.file, view.line),
            "when": when + (f", after step {view.step}" if when and view.step is not None and view.phase == "train" else ""),
            "rule": f"{view.rule or 'none'} (confidence: {view.confidence})" if explained else "",
            "memory": view.memory,
            "advice": view.advice,
            "next": view.next,
        },
    )


def show_triage(view: Triage) -> str:
    """Return script 62's view as text."""
    return _text(
        "Pass" if view.verdict == "Pass" else f"{view.verdict}: {view.boundary or 'no boundary'}",
        {
            "log": _place(view.log, view.line),
            "evidence": view.evidence,
            "phase": WORDS.get(view.phase, ""),
            "rule": f"{view.rule or 'none'} (confidence: {view.confidence})",
            "advice": view.advice,
            "next": view.follow_up,
            "limits": view.limitation,
            "metrics": "; ".join(view.learning),
        },
    )


def _place(file: str, line: int | None) -> str:
    return f"{file}:{line}" if file and line is not None else file


def _text(head: str, rows: dict[str, str]) -> str:
    return "\n".join([head, *(f"  {name:<8} {text}" for name, text in rows.items() if text)])
