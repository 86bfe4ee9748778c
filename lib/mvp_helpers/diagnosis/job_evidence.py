"""The diagnosis of a job from everything in its folder: result, precheck, the driver's log, debug bundles."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..base.documents import Damaged, read_as, read_json, read_rows
from ..base.errors import BadInput
from ..base.paths import JobFolder
from ..base.times import seconds_of
from ..record import debug_bundle
from ..record.job_folder import Result
from ..record.stall import Stall
from . import signatures, stall
from .answer import Confidence, Diagnosis
from .diagnose import diagnose
from .doubted import survived
from .look import EVIDENCE
from .scan import Scan
from .signatures import Signatures

Source = tuple[str, bool, Path | bytes]
"""Name, whether only errors that a rule knows count in it, a log or the lines themselves."""
INTENDED = (
    "owner has died",
    "all references to the actor were removed",
    "INTENDED_USER_EXIT",
    "INTENDED_SYSTEM_EXIT",
)
"""Words of Ray's record of an actor that ended because its driver had ended, or as its program meant it to."""


def of_job(folder: JobFolder, result: Result) -> Diagnosis:
    """Return the diagnosis of a job; ``result`` is its latest state (see ``reconcile.settle``)."""
    if result.stall and result.state in ("RUNNING", "STOPPED"):
        return _stalled(folder, result.stall)
    if result.state == "STOPPED":
        return Diagnosis(verdict="Skipped", whose="user", evidence=result.reason or "stopped on request", confidence="high")
    known = signatures.load()
    if result.state == "SUCCEEDED":
        return _succeeded(folder, known)
    scans = [_scan(known, rank, *source) for rank, source in enumerate(_sources(folder, result))]
    target = {"id": folder.submission_id, "log": str(folder.driver_log)}
    diagnosis = diagnose(scans, known, target)
    if diagnosis.verdict in ("Pass", "Noise") or (diagnosis.verdict == "Unknown" and diagnosis.line is None):
        # A job can die after its log reports the end. What Ray and the job runner recorded then is later than the log.
        without_log = diagnose([scan for scan in scans if not scan.name.startswith("logs/")], known, target)
        if without_log.rule:
            diagnosis = msgspec.structs.replace(without_log, phase=diagnosis.phase, step=diagnosis.step)
    return _with_result(diagnosis, folder, result)


def may_have_lost_a_node(folder: JobFolder, result: Result) -> bool:
    """Return whether a job that failed shows only what the death of a node causes, which Ray may not have noticed yet."""
    return signatures.load().effect_of(of_job(folder, result).rule, "node-died")


def _succeeded(folder: JobFolder, known: Signatures) -> Diagnosis:
    """Return Pass, unless the job's log contradicts its success or shows an error that the job survived."""
    nothing = Diagnosis(
        verdict="Pass", evidence="the job succeeded: there is nothing to explain", phase="done", confidence="high"
    )
    scan = _scan(known, 0, f"logs/{folder.driver_log.name}", False, folder.driver_log)
    diagnosis = diagnose([scan], known, {"id": folder.submission_id, "log": str(folder.driver_log)})
    if diagnosis.verdict in ("Pass", "Noise") or (diagnosis.line is None and diagnosis.phase != "done"):
        return nothing  # an unknown trainer's log may not report its end
    contradicts = any(rule.id == diagnosis.rule and rule.outlived_by == "nothing" for rule in known.rules)
    return diagnosis if diagnosis.line is None or contradicts else survived(diagnosis, "The job succeeded")


def _scan(known: Signatures, rank: int, name: str, known_only: bool, content: Path | bytes) -> Scan:
    """Read one source. A log that cannot be read counts as empty: other evidence may still explain the job."""
    scan = Scan(known, name, rank, known_only)
    if isinstance(content, bytes):
        return scan.read([content])
    if content.is_file():  # a pipe in its place would block for ever
        with contextlib.suppress(BadInput):
            return scan.read_file(content)
    return scan


def _stalled(folder: JobFolder, open_stall: Stall) -> Diagnosis:
    """Return why a job makes no step, as the bundle of its stall shows."""
    try:
        finding = read_as(folder.path / open_stall.bundle / "stall.json", stall.Finding)
    except (OSError, Damaged):  # the bundle is not complete yet, or could not be written
        finding = stall.Finding(kind="unknown", text=open_stall.cause or "no new step; the bundle is not complete yet")
    by_kind: dict[str, Confidence] = {"unknown": "low", "waits": "low", "stopped": "high", "pending": "high"}
    return Diagnosis(
        verdict="Blocked" if finding.kind == "pending" else "Fail",
        rule="stalled",
        boundary="cluster" if finding.kind in ("pending", "gone") else "hang",
        whose="environment" if finding.kind in ("pending", "gone", "stopped", "disk") else "unknown",
        evidence=finding.text,
        log=open_stall.bundle,
        phase="train" if open_stall.step else "build",
        step=open_stall.step or None,
        confidence=by_kind.get(finding.kind, "medium"),
        advice=finding.advice or "The bundle contains the stacks of all processes.",
        next=f"./scripts/52_stop.sh {folder.submission_id}, or wait for the next step",
    )


def _with_result(diagnosis: Diagnosis, folder: JobFolder, result: Result) -> Diagnosis:
    """Return the diagnosis, corrected by the job's state: that it failed is certain, whatever its log claims."""
    if diagnosis.verdict in ("Unknown", "Pass", "Noise") and result.state in ("BLOCKED", "NOT_SUBMITTED"):
        blocked = result.state == "BLOCKED"
        return Diagnosis(
            verdict="Blocked",
            rule="precheck" if blocked else "not-submitted",
            boundary="import" if blocked else "cluster",
            whose="environment",
            evidence=result.reason[:EVIDENCE],
            log=folder.precheck.name if blocked else folder.result.name,
            phase="start",
            confidence="high",
            advice="The job was stopped before training: nothing is known about the code.",
            next="correct what the evidence names, then submit again under another id",
        )
    if diagnosis.verdict in ("Pass", "Noise") and result.ended:
        return msgspec.structs.replace(
            diagnosis,
            verdict="Unknown",
            rule="",
            boundary="",
            confidence="low",
            evidence=result.reason[:EVIDENCE],
            log=folder.result.name,
            line=None,
            advice="The job failed although its log reports that the run reached its end; only this reason is known.",
            next=f"./scripts/51_logs.sh {folder.submission_id}",
        )
    if diagnosis.verdict == "Unknown" and diagnosis.line is None and result.ended:
        return msgspec.structs.replace(
            diagnosis,
            evidence=result.reason[:EVIDENCE],
            log=folder.result.name,
            advice="Its log contains no error; only this reason is known.",
            next=f"./scripts/51_logs.sh {folder.submission_id}",
        )
    return diagnosis


def _sources(folder: JobFolder, result: Result) -> Iterator[Source]:
    """Yield what may contain the cause, the likeliest first."""
    if folder.precheck.exists() and result.state == "BLOCKED":
        yield folder.precheck.name, True, _lines(_problems(folder.precheck))
    if folder.driver_log.is_file() and folder.driver_log.stat().st_size:
        yield f"logs/{folder.driver_log.name}", False, folder.driver_log
    for bundle in sorted(folder.debug.glob("2*"), reverse=True):
        if bundle.is_dir():
            yield from _of_bundle(folder, bundle, result)
    yield folder.result.name, True, _lines([result.reason])


def _of_bundle(folder: JobFolder, bundle: Path, result: Result) -> Iterator[Source]:
    """Yield Ray's messages about nodes and processes that died while the job ran, and the ends of its processes' own logs."""
    place = bundle.relative_to(folder.path)
    began, ended = (seconds_of(at) if at else 0.0 for at in (result.started_at or result.claimed_at, result.ended_at))
    yield f"{place}/bundle.json", True, _lines(_silence(bundle))
    own = {str(row.get("job_id")) for row in _rows(bundle / "job.json")} - {"None", ""}
    actors = [row for row in _rows(bundle / "actors.json") if row.get("job_id") in own]
    used = {row.get("node_id") for row in actors} | {result.driver_node_id}
    dead_before = {node.get("node_id") for file in folder.debug.glob("*-submitted/nodes.json") for node in _dead(file)}
    dead = [
        f"Ray node {node.get('node_ip')} marked dead: {node.get('state_message') or 'no reason given'}"
        for node in _dead(bundle / "nodes.json")
        if node.get("node_id") not in dead_before
        and (not actors or node.get("node_id") in used)
        and began - 60 <= (node.get("end_time_ms") or 0) / 1000 <= (ended or float("inf")) + 60
    ]
    yield f"{place}/nodes.json", True, _lines(text for text in dead if "EXPECTED_TERMINATION" not in text)
    causes = [
        str(context.get("error_message", ""))
        for actor in actors
        for context in (actor.get("death_cause") or {}).values()
        if isinstance(context, dict)
    ]
    # How actors end after the driver has ended, or when it needs them no more, does not explain the driver's end.
    others = (text for text in causes if not any(words in text for words in INTENDED))
    yield f"{place}/actors.json", True, _lines(others)
    # The node's own logs stay out: they contain other jobs, and problems that Ray overcame.
    for output in sorted(bundle.glob("hosts/*/ray-logs/worker-*")):
        if output.is_file() and output.stat().st_size:
            yield str(output.relative_to(folder.path)), False, output


def _silence(bundle: Path) -> list[str]:
    """Return why Ray answered nothing at the job's end; empty when it answered, or the bundle is an earlier one."""
    with contextlib.suppress(BadInput):
        errors, collected = debug_bundle.outcome(bundle)
        if bundle.name.endswith("-failed") and not collected:
            return sorted(set(errors.values()))
    return []


def _dead(file: Path) -> list[dict[str, Any]]:
    return [node for node in _rows(file) if node.get("state") == "DEAD"]


def _rows(file: Path) -> list[dict[str, Any]]:
    try:
        return read_rows(file)
    except (OSError, Damaged):
        return []


def _problems(file: Path) -> list[str]:
    try:
        return [str(problem) for problem in read_json(file)["problems"]]
    except (OSError, Damaged, KeyError, TypeError):
        return []


def _lines(texts: Iterable[str]) -> bytes:
    """Return one line for each text; an exception that a text quotes gets its own line, so that rules for exceptions fit it."""
    lines = []
    for text in texts:
        quoted = re.search(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): .*", text, re.DOTALL)
        lines += [" ".join(part.split()) for part in ((quoted[0], text) if quoted else (text,))]
    return "\n".join([*lines, ""]).encode(errors="replace")
