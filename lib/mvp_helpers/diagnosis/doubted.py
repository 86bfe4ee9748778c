"""What remains of a success that the log contradicts, or in which the run outlived an error."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from ..log_text import run_state
from ..success.proven import NOT_FINITE, Doubt, Success, not_a_pass
from . import look, of_error
from .answer import AGAIN, COMPLETE_LOG, Diagnosis, filled
from .causes import Finding
from .of_error import UNDER_TEST
from .scan import Scan
from .signatures import Signatures

_STEP = re.compile(r"\bat (?:step|epoch) (\d{1,12})$")
"""Of which step a doubt's evidence is."""


def doubted(diagnosis: Diagnosis, scans: Sequence[Scan], known: Signatures, target: Mapping[str, str]) -> Diagnosis:
    """Return the diagnosis, unless a log contradicts a success, or shows numbers that are not finite, or an outlived error."""
    own = {scan.name: scan.success for scan in scans if not scan.known_only}
    success = diagnosis.verdict in ("Pass", "Noise")
    ended = diagnosis.phase == "done"
    doubts = ((name, _contradicted(each, known, ended) if success else each.not_finite()) for name, each in own.items())
    log, doubt = next(((name, doubt) for name, doubt in doubts if doubt), ("", None))
    shown = ended if success else diagnosis.line is None and bool(diagnosis.step)
    outlived = _outlived(scans, known, target, ended) if shown and not (doubt and doubt.verdict == "Fail") else None
    if outlived and (doubt is None or outlived.verdict == "Fail"):
        return outlived
    if doubt is None and success:
        doubt = next((doubt for doubt in (each.unexplained() for each in own.values()) if doubt), None)
    if doubt is None:
        return diagnosis
    failed = doubt.verdict == "Fail"
    return msgspec.structs.replace(
        diagnosis,
        verdict=doubt.verdict,
        rule=doubt.rule,
        boundary="training" if failed else "",
        confidence="high" if failed else "low",
        log=log if doubt.line else "",
        line=doubt.line,
        evidence=doubt.evidence,
        advice=doubt.advice,
        next=(_first_bad(doubt, known, target, own[log]) if doubt.rule == NOT_FINITE else AGAIN)
        if failed
        else doubt.next or COMPLETE_LOG,
        limitation="",
    )


def _first_bad(doubt: Doubt, known: Signatures, target: Mapping[str, str], success: Success) -> str:
    """Return what to look at where a number is not finite, as the rule says that knows such a line."""
    step = _STEP.search(doubt.evidence)
    rule = next(rule for rule in known.rules if rule.id == "nan")
    log, whole = success.text
    values = run_state.values_before(log, success.first_line, doubt.line, doubt.evidence) if doubt.line and whole else {}
    steps = {} if "grew" in values else of_error.step_values(int(step[1]) if step else None)
    return filled(rule.next, {**target, **steps, **values})


def _contradicted(success: Success, known: Signatures, ended: bool) -> Doubt | None:
    """Return what contradicts a success; an error after its end, if it only occurs at a start, is another program's."""
    if (doubt := success.doubt()) or not ended:
        return doubt
    early = msgspec.structs.replace(known, rules=[rule for rule in known.rules if rule.phase == ["start"]])
    after = success.after([mark.pattern for mark in known.all_marks() if mark.phase == "done"])
    hit = next((hit for line in after if (hit := early.of_line(line, "start"))), None)
    return not_a_pass(hit.evidence[:300], "after its end the log reports that something could not start") if hit else None


def _outlived(scans: Sequence[Scan], known: Signatures, target: Mapping[str, str], ended: bool) -> Diagnosis | None:
    """Return the diagnosis of an error that the last run outlived, of the code under test if there is one; None without any.

    Of a run whose end is not shown only exceptions count, and none of them decides.
    """
    answers = []
    own = [scan for scan in scans if not scan.known_only]
    for runs, finding in ((scan.runs, finding) for scan in own for finding in scan.findings.every):
        if finding.progress.phase == "done" or not (ended or finding.chain):
            continue
        end = "The run reached its end" if ended else "The run went on"
        answer = survived(of_error.answered(finding, known, target), end, runs > 1 and _of_another(finding))
        answers.append(answer if ended else msgspec.structs.replace(answer, verdict="Unknown", confidence="low"))
    return next((answer for answer in answers if answer.verdict == "Fail"), answers[0] if answers else None)


def _of_another(finding: Finding) -> bool:
    """Return whether an error of a log with several runs went through the first line of its program before any step."""
    links = finding.chain.links if finding.chain else ()
    return (
        finding.uncaught
        and finding.progress.phase == "start"
        and not any(look.CHECKED_OUT.search(frame.file) for link in links for frame in link.frames)
    )


def survived(error: Diagnosis, end: str, of_another: bool = False) -> Diagnosis:
    """Return the diagnosis of an error that did not prevent ``end``: Fail if the code under test raised it, else Unknown.

    ``of_another``: another program of the log, or an earlier start, raised it.
    """
    guessed = error.boundary == "trainer" and error.confidence == "low"  # no frame is known to be the trainer's
    failed = error.verdict == "Fail" and error.boundary in UNDER_TEST and not (guessed or of_another)
    which = "an earlier program or start in this log ended with an error" if of_another else "an error that it survived"
    advice = f"{end} after {which}: {error.advice}"
    return msgspec.structs.replace(error, verdict="Fail" if failed else "Unknown", advice=advice)
