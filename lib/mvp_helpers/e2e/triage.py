"""Step 9, and script 62: what a log or a metrics file means.

Blocked: stopped by something else before the model or provider was built; Fail: by what is being tested. A log is Pass only if it
says that it reached its end and nothing in it speaks against that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..base import redact
from ..base.documents import convert, parse
from ..base.errors import BadInput
from ..base.project import PROJECT
from ..diagnosis import explain, log_lines, signatures
from ..diagnosis.explain import Explanation, Scan
from ..diagnosis.log_lines import CUT_OFF
from . import description, learning
from .description import Learning
from .learning import LogMetrics

FILE = PROJECT / "templates" / "triage.yaml"
TAIL = 1 << 16
CONFIDENCE = {"high": "high", "medium": "medium", "low": "low", "": "low"}
PHASES = {
    "start": "before provider construction",
    "build": "during model and provider construction",
    "train": "after provider construction, in training",
    "done": "after the last step",
    "": "unknown",
}
ENDED_BADLY = "Not a pass: it came to its end, but then a process ended badly, and nothing says why."
# A run that says how it ended, whatever else it printed.
_BAD_END = re.compile(
    rb"(?i)(?:exit(?:ed|ing|s)?(?: with)?(?: non-zero)?(?: exit)?[ -]?(?:code|status)|return(?:ed|s)?[ -]?code|\brc)"
    rb"[ :=]+(?!0\b)-?\d+"
    rb"|^make: \*\*\* |Job failed\b|status: FAILED|\bJob '.*' failed|^\++ exit (?!0\b)\d|^timeout: sending signal"
    rb"|\bCANCELLED AT\b|^##\[error\]|^" + explain.BROKEN_OFF.encode()
)
_PROGRESS = re.compile(rb"Training Progress:\s*(\d+)%")


class Judgement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an error that no signature knows means; every field that is given must fit."""

    evidence: str = ""
    boundary: list[str] = []
    phase: list[signatures.Phase] = []
    verdict: Literal["Blocked", "Fail"]
    confidence: Literal["medium", "low"]
    boundary_is: str = ""

    def fits(self, told: Explanation) -> bool:
        return (
            bool(re.search(self.evidence, told.evidence))
            and (not self.boundary or told.boundary in self.boundary)
            and (not self.phase or told.phase in self.phase)
        )


class FollowUp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run: str
    limitation: str


class Judgements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    judgements: list[Judgement]
    follow_ups: dict[str, FollowUp]


class Triage(msgspec.Struct, kw_only=True):
    """One log's verdict. ``line`` counts from 1; None where it is no line."""

    log: str
    verdict: Literal["Pass", "Fail", "Blocked", "Noise", "Unknown"]
    boundary: str = ""
    phase: str = ""
    rule: str = ""
    line: int | None = None
    evidence: str = ""
    confidence: str = "low"
    advice: str = ""
    follow_up: str = ""
    limitation: str = ""
    """What a run as ``follow_up`` says would not show."""
    learning: list[str] = []
    """What its metrics tell."""


def load(file: Path = FILE) -> Judgements:
    """Raises BadInput for a mistake in the file."""
    try:
        return convert(parse(file.read_bytes(), str(file)), Judgements, str(file))
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}") from None


def of_log(path: Path, how: Learning | None = None) -> Triage:
    """Judge a log of any size. Raises BadInput when it cannot be read, is empty, or is no text."""
    rules, how = signatures.load(), how or description.load("verl").learning
    seen, tail = _NotFinite(), _Tail()
    scan = Scan(rules, str(path)).read(_through(explain.pieces(path), seen, tail))
    told = explain.conclude([scan], rules, {"log": str(path)})
    found = conclude(str(path), told, seen.finish(), how, tail.data, load())
    if found.verdict in ("Pass", "Noise") and told.phase == "done" and (stopped := _stopped_after(tail.data, rules)):
        _no_pass(found, stopped, "it goes on after that with something that could not start")
    return found


def of_metrics(path: Path, how: Learning | None = None) -> Triage:
    """Judge a metrics file as a learning signal. Raises BadInput when it holds no metrics."""
    how = how or description.load("verl").learning
    signal = learning.judge(learning.read_jsonl(path), how)
    return Triage(
        log=str(path),
        verdict=signal.verdict,
        boundary="training" if signal.wrong else "",
        phase=PHASES["train"],
        rule="learning-signal",
        evidence=signal.reason(),
        confidence="high" if signal.verdict == "Fail" else "medium",
        advice="; ".join([*signal.wrong[1:], *signal.notes]) or "Nothing in the metrics speaks against learning.",
        follow_up=load().follow_ups["training"].run if signal.wrong else "nothing",
        learning=signal.told,
    )


def of(path: Path) -> Triage:
    """A log, or by its name (.json, .jsonl) a metrics file."""
    return of_metrics(path) if path.suffix in (".json", ".jsonl") else of_log(path)


class _NotFinite(LogMetrics):
    """Only of the lines that may hold what is no number: the others are many, and judge nothing here."""

    def _lines(self, data: bytes) -> None:
        at = data.find(b"step:")
        while at >= 0:
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            if data.find(b"nan", at, end) >= 0 or data.find(b"inf", at, end) >= 0:
                self._step(data[data.rfind(b"\n", 0, at) + 1 : end])
            at = data.find(b"step:", end)


class _Tail:
    """The end of what was read."""

    def __init__(self) -> None:
        self.data = b""

    def feed(self, piece: bytes) -> None:
        self.data = (self.data + piece)[-TAIL:] if len(piece) < TAIL else piece[-TAIL:]


def _through(pieces: Iterable[bytes], *takers: LogMetrics | _Tail) -> Iterator[bytes]:
    for piece in pieces:
        for taker in takers:
            taker.feed(piece)
        yield piece


def conclude(log: str, told: Explanation, seen: LogMetrics, how: Learning, tail: bytes, judgements: Judgements) -> Triage:
    """The verdict from what the signatures told, the metrics, and the log's end."""
    found = Triage(
        log=log,
        verdict=told.verdict if told.verdict in ("Pass", "Fail", "Blocked", "Noise") else "Unknown",  # type: ignore[arg-type]
        boundary=told.boundary,
        phase=PHASES[told.phase],
        rule=told.rule,
        line=int(told.where.rpartition(":")[2]) if told.where.rpartition(":")[2].isdigit() else None,
        evidence=redact.text(told.evidence),
        confidence=CONFIDENCE[told.sure],
        advice=told.advice,
        follow_up=told.next,
    )
    if found.verdict == "Unknown" and found.line is not None:
        _judge(found, told, judgements)
    if told.rule and found.verdict == "Blocked" and told.sure == "low" and told.phase in ("build", "train"):
        found.verdict = "Fail"  # Only an effect is known, but everything before it had been built.
    if told.rule and told.sure == "low" and told.phase == "done":
        found.verdict, found.advice = "Unknown", f"{ENDED_BADLY} {found.advice}"
    if found.verdict in ("Pass", "Noise"):
        _doubt(found, seen, how, tail)
    if follow := judgements.follow_ups.get(found.boundary):
        found.follow_up, found.limitation = follow.run, follow.limitation
    if found.verdict == "Blocked":
        found.advice = f"{found.advice} No evidence against the provider.".strip()
    return found


def _judge(found: Triage, told: Explanation, judgements: Judgements) -> None:
    for one in judgements.judgements:
        if one.fits(told):
            found.verdict, found.confidence, found.rule = one.verdict, one.confidence, ""
            found.boundary = one.boundary_is or found.boundary
            if told.evidence.startswith(CUT_OFF):
                found.confidence = "low"
            found.advice = (
                f"No signature knows it; judged by {'its kind' if one.evidence else 'whose code raised it'}"
                f"{', and how far the run was' if one.phase else ''}."
            )
            return


def _doubt(found: Triage, seen: LogMetrics, how: Learning, tail: bytes) -> None:
    """What speaks against a success that the log claims."""
    if wrong := learning.not_finite(seen.steps, how):
        found.verdict, found.boundary, found.rule, found.confidence = "Fail", "training", "not-finite", "high"
        found.evidence, found.advice = wrong[0], "What comes after teaches nothing: the run cannot pass."
        return
    ends = [line for line in tail.splitlines() if _BAD_END.search(line)]
    bars = _PROGRESS.findall(tail)
    if ends:
        found.evidence = redact.text(ends[-1].decode(errors="replace").strip()[:300])
        reason = "the log says that it reached its end, and also that it ended badly"
    elif bars and int(bars[-1]) < 100:
        found.evidence, reason = (
            f"Training Progress: {int(bars[-1])}% is the last there is",
            "the last run in the log did not reach its end",
        )
    else:
        return
    _no_pass(found, found.evidence, reason)


def _no_pass(found: Triage, evidence: str, reason: str) -> None:
    found.verdict, found.rule, found.confidence, found.boundary, found.line = "Unknown", "", "low", "", None
    found.evidence, found.advice = evidence, f"Not a pass: {reason}."
    found.follow_up = "the complete log, with the command's own exit status"


def _stopped_after(tail: bytes, rules: signatures.Signatures) -> str:
    """What kept something else from starting after the run's end; empty if nothing did."""
    only_first = [rule for rule in rules.rules if rule.phase == ["start"]]
    early, ends = msgspec.structs.replace(rules, rules=only_first), [mark for mark in rules.marks if mark.phase == "done"]
    stopped = ""
    for raw in reversed(tail.split(b"\n")):
        line = log_lines.clean(raw, 0)
        if any(mark.pattern.search(line.text) or mark.pattern.search(log_lines.plain(raw)) for mark in ends):
            break
        if hit := early.of_line(line, "start"):
            stopped = redact.text(hit.evidence[:300])
    return stopped


def show(found: Triage) -> str:
    """One log's verdict for a person."""
    head = f"{found.verdict}: {found.boundary or 'no boundary'}" if found.verdict not in ("Pass",) else "Pass"
    rows: dict[str, Any] = {
        "log": found.log + (f":{found.line}" if found.line else ""),
        "evidence": found.evidence,
        "phase": found.phase,
        "rule": f"{found.rule or 'none'} (confidence: {found.confidence})",
        "advice": found.advice,
        "next": found.follow_up,
        "limits": found.limitation,
        "metrics": "; ".join(found.learning),
    }
    return "\n".join([head, *(f"  {name:<8} {text}" for name, text in rows.items() if text)])
