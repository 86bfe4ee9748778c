"""Script 55: the first root cause in time, from a log or from everything a job folder holds.

``Scan`` is pure over chunks of bytes: it looks only at lines that hold one of a few literal words, and at those that may belong
to a traceback, so that a log of any size costs little more than reading it.
"""

from __future__ import annotations

import dataclasses
import heapq
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..base.errors import BadInput
from ..base.paths import JobFolder
from ..base.times import seconds_of
from ..record.job_folder import Result
from . import log_lines, signatures
from .log_lines import Chain, Line, Tracebacks
from .signatures import PHASES, Hit, Mark, Phase, Rule, Signatures

CHUNK = 1 << 20
"""Bytes read at once; a longer line is looked at in pieces."""
OUTLIVED_STEPS = 2
"""An error after which so many more steps were done did not end the run (one may have been on its way)."""
EVIDENCE = 600
"""Characters of evidence that are shown."""
BROKEN_OFF = "Error executing job with overrides"
"""What Hydra prints before a job's last exception."""
TWO_RUNS = "The log holds more than one run: an earlier one failed like this, and what the last one says is no word about that."


class Explanation(msgspec.Struct, kw_only=True):
    """The answer. ``where`` is the log's line, ``file`` and ``line`` the code that raised; "" and None where unknown."""

    verdict: str
    """Fail, Blocked, Noise, Unknown; Pass when it succeeded, Skipped when it was stopped on request."""
    rule: str = ""
    boundary: str = ""
    whose: signatures.Whose = "unknown"
    file: str = ""
    line: int | None = None
    evidence: str = ""
    where: str = ""
    phase: str = ""
    step: int | None = None
    sure: str = ""
    """high: a known signature; medium: a known kind of error; low: unknown, or only an effect was found."""
    advice: str = ""
    next: str = ""


@dataclass(frozen=True)
class Progress:
    """How far a run had come: its phase, and the last step done."""

    phase: Phase = "start"
    step: int | None = None

    def outlives(self, then: Progress, by: str) -> bool:
        """Whether a run that came this far had outlived what happened ``then``."""
        if by == "nothing":
            return False
        # A step that was done shows that everything had been built, and the end that nothing was missing.
        if self.phase != then.phase and (by == "phase" or self.phase in ("train", "done")):
            return True
        return by == "steps" and self.step is not None and self.step >= (then.step or 0) + OUTLIVED_STEPS


@dataclass(frozen=True)
class Finding:
    """One error: what it says, where, how far the run was, and the rule that knows it."""

    order: tuple[int, int]
    where: str
    evidence: str
    progress: Progress
    hit: Hit | None = None
    chain: Chain | None = None
    line: Line | None = None
    stage: Phase | None = None
    """How far the run was as its functions tell, where the log's lines did not."""

    @property
    def rule(self) -> Rule | None:
        return self.hit.rule if self.hit else None

    @property
    def source(self) -> str:
        return self.chain.source if self.chain else ""

    @property
    def phase(self) -> Phase:
        return self.stage or self.progress.phase


@dataclass
class Scan:
    """One log, read once. ``known_only``: what no rule knows is no error there (Ray's own logs are full of such lines)."""

    signatures: Signatures
    name: str
    rank: int = 0
    known_only: bool = False
    progress: Progress = Progress()
    known: dict[str, Finding] = field(default_factory=dict)
    """The first finding of each rule that the run has not outlived."""
    first_unknown: Finding | None = None
    last_unknown: Finding | None = None
    cut_off: Finding | None = None
    """The first traceback of which only the place is known."""
    error_line: Finding | None = None
    """The first line that calls itself an error, outside of any exception."""
    stage: Phase | None = None
    """How far the run was, by the functions in its tracebacks."""
    earlier: Finding | None = None
    """What ended a run before the last one in this log."""
    broken: Finding | None = None
    """The first line with which Hydra says that the job was broken off."""
    begun: bytes = b""
    """The word with which this run began, empty while none was seen: tests may start Ray as often as they like."""

    def __post_init__(self) -> None:
        self._needles = {phase: self.signatures.needles(since=phase, every=self.known_only) for phase in PHASES}
        self._marks: dict[bytes, list[Mark]] = {}
        for mark in self.signatures.marks:
            for word in mark.any:
                self._marks.setdefault(word.encode(), []).append(mark)
        self._again = [word for word, marks in self._marks.items() if marks[0].phase == "start"]
        for again in self._again:
            del self._marks[again]
        self._tracebacks = Tracebacks()
        self._started: dict[int, Progress] = {}
        self._number = 1

    def read(self, chunks: Iterable[bytes]) -> Scan:
        """Take the whole log; the pieces may end anywhere."""
        rest = b""
        for piece in chunks:
            whole, newline, tail = piece.rpartition(b"\n")
            if newline:
                self._chunk(rest + whole + newline)
                rest = tail
            else:
                rest += tail
            if len(rest) > CHUNK:
                self._chunk(rest)
                self._number -= 1 if not rest.endswith(b"\n") else 0
                rest = b""
        if rest:
            self._chunk(rest)
        for chain in self._tracebacks.rest():
            self._chain(chain)
        return self

    def _chunk(self, chunk: bytes) -> None:
        """Lines that may matter, one after another; the others are only counted."""
        again = sorted((start, word) for word in self._again for start in _starts(chunk, word))
        candidates = self._candidates(chunk, self._needles["start" if again else self.progress.phase])
        at, counted, number, marked = 0, 0, self._number, 0
        upcoming = next(candidates, None)
        while at < len(chunk):
            if not self._tracebacks.waiting:
                if upcoming is None:
                    break
                at = max(at, upcoming)
            while upcoming is not None and upcoming <= at:
                wanted = upcoming == at
                upcoming = next(candidates, None)
                if wanted:
                    break
            end = chunk.find(b"\n", at)
            end = len(chunk) if end < 0 else end + 1
            number += chunk.count(b"\n", counted, at)
            counted = at
            self._mark(chunk, marked, end, again)
            marked = end
            self._line(log_lines.clean(chunk[at : min(end, at + log_lines.LONGEST_LINE)], number))
            at = end
        self._mark(chunk, marked, len(chunk), again)
        self._number = number + chunk.count(b"\n", counted) + (0 if chunk.endswith(b"\n") else 1)

    def _candidates(self, chunk: bytes, needles: list[bytes]) -> Iterator[int]:
        """Starts of the lines that hold a needle, in order, each once."""
        last = -1
        for start in heapq.merge(*(_starts(chunk, needle) for needle in needles if needle in chunk)):
            if start != last:
                yield (last := start)

    def _mark(self, chunk: bytes, begin: int, end: int, again: list[tuple[int, bytes]]) -> None:
        """Note how far the run had come at ``end``, and whether it is another than at ``begin``; ``again``: where runs begin."""
        for start, word in again:
            if begin <= start < end:
                self._advance(chunk, begin, start)
                if self.progress.phase in ("train", "done") or self.begun == word:
                    self._another_run()
                self.begun = self.begun or word
                begin = start
        self._advance(chunk, begin, end)

    def _advance(self, chunk: bytes, begin: int, end: int) -> None:
        for word, marks in self._marks.items():
            further = [mark for mark in marks if self._further(mark)]
            if not further or chunk.find(word, begin, end) < 0:  # four times as fast as rfind, and mostly the answer
                continue
            at, tries = chunk.rfind(word, begin, end), 3
            while at >= 0 and tries:
                start = chunk.rfind(b"\n", 0, at) + 1
                stop = chunk.find(b"\n", at)
                raw = chunk[start : stop if stop >= 0 else end]
                if any([self._reach(mark, raw) for mark in further]):
                    break
                at, tries = chunk.rfind(word, begin, at), tries - 1

    def _further(self, mark: Mark) -> bool:
        """Whether it may tell more than is known."""
        here, there = PHASES.index(self.progress.phase), PHASES.index(mark.phase)
        return there > here or (there == here and "step" in mark.regex)

    def _reach(self, mark: Mark, raw: bytes) -> bool:
        match = mark.pattern.search(log_lines.clean(raw, 0).text) or mark.pattern.search(log_lines.plain(raw))
        if match:
            found, known = match.groupdict(), self.progress.step
            step = int(found["step"]) if found.get("step") else None
            step = int(found["next_step"]) - 1 if found.get("next_step") else step
            self.progress = Progress(mark.phase, known if step is None else max(step, known or 0))
        return bool(match)

    def _line(self, line: Line) -> None:
        before = self.progress
        belongs, chains = self._tracebacks.take(line)
        for chain in chains:
            self._chain(chain)
        if belongs:
            self._started.setdefault(line.number, before)
            return
        at = (self.rank, line.number), self._where(line.number)
        stage = self._reached(self.stage)
        if self.broken is None and line.text.startswith(BROKEN_OFF):
            self.broken = Finding(*at, line.text.strip(), self.progress, line=line)
        if hit := self.signatures.of_line(line, stage or self.progress.phase):
            self._keep(Finding(*at, hit.evidence, self.progress, hit, line=line, stage=stage))
        elif not self.known_only and line.error and self.progress.phase != "done" and not self._still(self.error_line):
            self.error_line = Finding(*at, line.text.strip(), self.progress, line=line, stage=stage)

    def _chain(self, chain: Chain) -> None:
        if chain.ignored:
            return
        progress = self._started.pop(chain.number, self.progress)
        self._started = {number: at for number, at in self._started.items() if number > chain.number}
        self.stage = max((self.stage, self.signatures.stage(chain)), key=lambda stage: PHASES.index(stage) if stage else -1)
        stage = self._reached(self.stage)
        hit = self.signatures.of_chain(chain, stage or progress.phase)
        number = hit.number if hit else chain.causes()[0].number
        evidence = hit.evidence if hit else chain.causes()[0].headline
        finding = Finding((self.rank, chain.number), self._where(number), evidence, progress, hit, chain, stage=stage)
        if hit:
            self._keep(finding)
        elif chain.causes()[0].cut_off:
            if not self._still(self.cut_off):
                self.cut_off = finding
        elif not self.known_only:
            if not self._still(self.first_unknown):
                self.first_unknown = finding
            # The same error seen again, by another process or one level up, is not another.
            if self.last_unknown is None or self.last_unknown.evidence != evidence:
                self.last_unknown = finding

    def _still(self, finding: Finding | None) -> bool:
        """Whether the run has not outlived it so far."""
        return finding is not None and not self.progress.outlives(finding.progress, "steps")

    def _reached(self, stage: Phase | None) -> Phase | None:
        """``stage`` where it is further than the log's lines tell."""
        return stage if stage and PHASES.index(stage) > PHASES.index(self.progress.phase) else None

    def _another_run(self) -> None:
        """The log goes on with another run: what ended the one before is no cause of how this one ends."""
        for chain in self._tracebacks.rest():
            self._chain(chain)
        self.earlier = self.earlier or chosen([self], self.progress)
        self.progress, self.stage, self.begun = Progress(), None, b""
        self.known, self.first_unknown, self.last_unknown, self.cut_off, self.error_line = {}, None, None, None, None

    def _keep(self, finding: Finding) -> None:
        assert finding.hit
        rule = finding.hit.rule
        known = self.known.get(rule.id)
        if known is None or self.progress.outlives(known.progress, rule.outlived_by):
            self.known[rule.id] = finding

    def _where(self, number: int) -> str:
        return f"{self.name}:{number}"


def _starts(chunk: bytes, needle: bytes) -> Iterator[int]:
    """Where the lines that hold ``needle`` start."""
    at = chunk.find(needle)
    while at >= 0:
        yield chunk.rfind(b"\n", 0, at) + 1
        end = chunk.find(b"\n", at)
        at = chunk.find(needle, end) if end >= 0 else -1


def conclude(scans: list[Scan], found: Signatures, target: dict[str, str]) -> Explanation:
    """The answer from all that was read. ``target`` fills {id} and {log} of the rules' texts."""
    end = max((scan.progress for scan in scans), key=lambda at: (PHASES.index(at.phase), at.step or 0), default=Progress())
    cause = chosen(scans, end)
    earlier = min((scan.earlier for scan in scans if scan.earlier), key=lambda finding: finding.order, default=None)
    if cause is None or (earlier and cause.rule and cause.rule.verdict == "Noise"):
        if earlier is None and end.phase == "done":
            earlier = next((scan.broken for scan in scans if scan.broken), None)
        if earlier is None:
            return _nothing(end, target)
        cause = earlier
        return msgspec.structs.replace(_told(cause, found, target), verdict="Unknown", rule="", sure="low", advice=TWO_RUNS)
    stages = [scan.stage for scan in scans if scan.stage and PHASES.index(scan.stage) > PHASES.index(cause.phase)]
    return _told(_seen_again(cause, stages[0], found) if stages and cause.phase == "start" else cause, found, target)


def chosen(scans: list[Scan], end: Progress) -> Finding | None:
    """The first cause among all that ``end`` had not outlived; None when there is none."""
    known = sorted(
        (
            finding
            for scan in scans
            for finding in scan.known.values()
            if finding.rule and not end.outlives(finding.progress, finding.rule.outlived_by)
        ),
        key=lambda finding: finding.order,
    )

    def left(*findings: Finding | None) -> list[Finding]:
        return [one for one in findings if one and not end.outlives(one.progress, "steps")]

    unknown = left(*(one for scan in scans for one in (scan.first_unknown, scan.last_unknown)))
    vague = left(*(scan.cut_off for scan in scans)) or left(*(scan.error_line for scan in scans))
    return _choose(known, unknown, min(vague, key=lambda finding: finding.order, default=None))


def _seen_again(cause: Finding, stage: Phase, found: Signatures) -> Finding:
    """The same cause, now that tracebacks after it tell how far the run was."""
    hit = found.of_chain(cause.chain, stage) if cause.chain else found.of_line(cause.line, stage) if cause.line else None
    return dataclasses.replace(cause, stage=stage, hit=hit or cause.hit)


def _choose(known: list[Finding], unknown: list[Finding], vague: Finding | None) -> Finding | None:
    """The first cause in time; an effect only when nothing else was found, and noise only when no effect was."""
    by_rank: dict[int, Finding] = {}
    for finding in known:
        if finding.hit:
            by_rank.setdefault(finding.hit.rank, finding)
    earliest = min(unknown, key=lambda finding: finding.order, default=None)
    latest = max(unknown, key=lambda finding: finding.order, default=None)
    kind = by_rank.get(2)
    if kind and earliest and earliest.order < kind.order:
        kind = None
    causes = [finding for finding in (by_rank.get(0), kind) if finding]
    if causes:
        return min(causes, key=lambda finding: finding.order)
    if earliest and latest and earliest.source != latest.source:
        latest = earliest  # What one process raised first; but a process that raised again had overcome what it raised before.
    return by_rank.get(1) or latest or by_rank.get(3) or vague or by_rank.get(4)


def _nothing(end: Progress, target: dict[str, str]) -> Explanation:
    if end.phase == "done":
        return Explanation(
            verdict="Pass", evidence="the run says that it reached its end", phase="done", step=end.step, sure="high"
        )
    return Explanation(
        verdict="Unknown",
        evidence="no error was found",
        phase=end.phase,
        step=end.step,
        sure="low",
        advice="The log holds no error: the run may still go on, hang, or have been killed without a word.",
        next=_filled("./scripts/53_debug_bundle.sh {id} --py-spy, while it hangs", target),
    )


def _told(cause: Finding, found: Signatures, target: dict[str, str]) -> Explanation:
    hit, rule = cause.hit, cause.rule
    links = cause.chain.causes() if cause.chain else []
    link = hit.link if hit else links[0] if links else None
    # Where the original has no frames (a lone line), those of what was raised from it still tell the place.
    frames = next((one.frames for one in [link, *links] if one and one.frames), ())
    culprit = found.culprit(frames)
    place: dict[str, Any] = {
        "file": culprit.file if culprit else hit.groups.get("file", "") if hit else "",
        "line": culprit.line if culprit else None,
        "evidence": cause.evidence[:EVIDENCE],
        "where": cause.where,
        "phase": cause.phase,
        "step": cause.progress.step,
    }
    if rule is None or hit is None:
        boundary = found.boundary(frames, f"{cause.source} {cause.evidence}")
        log, _, number = cause.where.rpartition(":")
        return Explanation(
            verdict="Unknown",
            boundary=boundary,
            whose="user" if boundary == "user code" else "unknown",
            sure="low",
            advice="No signature knows this error; it is the last distinct one, and not proven to be the cause.",
            next=_filled(f"less +{number} {target.get('log') or log}", target),
            **place,
        )
    values = target | {"line": cause.where.rpartition(":")[2]} | hit.groups
    return Explanation(
        verdict=rule.verdict_in(cause.phase),
        rule=rule.id,
        boundary=rule.boundary,
        whose=rule.whose,
        sure="low" if rule.secondary else "medium" if rule.kind else "high",
        advice=_filled(rule.advice, values),
        next=_filled(rule.next, values),
        **place,
    )


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], "ID" if match[1] == "id" else match[0]), text)


def log(path: Path) -> Explanation:
    """Explain a log file.

    Raises:
        BadInput: it cannot be read, is empty, or is no text.
    """
    found = signatures.load()
    return conclude([Scan(found, str(path)).read(pieces(path))], found, {"log": str(path)})


def pieces(path: Path) -> Iterator[bytes]:
    """The log in pieces."""
    try:
        if path.is_dir():
            raise BadInput(f"{path} is a folder", hint="name a log in it")
        with path.open("rb") as stream:
            piece = stream.read(CHUNK)
            if not piece.strip():
                raise BadInput(f"{path} is empty: there is nothing to explain")
            if b"\0" in piece[:8192] or piece.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")):
                raise BadInput(f"{path} is no text (compressed?)", hint="unpack it first")
            while piece:
                yield piece
                piece = stream.read(CHUNK)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None


def job(folder: JobFolder, result: Result) -> Explanation:
    """Explain a job from its folder; ``result`` is its last word (see ``reconcile.settle``)."""
    if result.state == "SUCCEEDED":
        return Explanation(verdict="Pass", evidence="the job succeeded: there is nothing to explain", phase="done", sure="high")
    if result.state == "STOPPED":
        return Explanation(verdict="Skipped", whose="user", evidence=result.reason or "stopped on request", sure="high")
    found = signatures.load()
    scans = [
        Scan(found, name, rank, known_only).read(chunks)
        for rank, (name, known_only, chunks) in enumerate(_sources(folder, result))
    ]
    told = conclude(scans, found, {"id": folder.submission_id, "log": str(folder.driver_log)})
    if told.verdict in ("Unknown", "Pass", "Noise") and result.state in ("BLOCKED", "NOT_SUBMITTED"):
        return Explanation(
            verdict="Blocked",
            rule="precheck" if result.state == "BLOCKED" else "not-submitted",
            boundary="import" if result.state == "BLOCKED" else "cluster",
            whose="environment",
            evidence=result.reason[:EVIDENCE],
            where=str(folder.precheck.name if result.state == "BLOCKED" else folder.result.name),
            phase="start",
            sure="high",
            advice="The job was stopped before training: nothing is known about the code.",
            next="correct what the evidence names, then submit again under another id",
        )
    if told.verdict in ("Pass", "Noise") and result.ended:
        # The log's own success does not count against the runner's last word.
        return msgspec.structs.replace(
            told, verdict="Unknown", rule="", sure="low", evidence=result.reason[:EVIDENCE], where=folder.result.name
        )
    if told.verdict == "Unknown" and not told.where and result.ended:
        return msgspec.structs.replace(
            told,
            evidence=result.reason[:EVIDENCE],
            where=folder.result.name,
            advice="Its log holds no error: the reason is all that is known.",
            next=f"./scripts/51_logs.sh {folder.submission_id}",
        )
    return told


Source = tuple[str, bool, Iterable[bytes]]


def _sources(folder: JobFolder, result: Result) -> Iterator[Source]:
    """What may hold the cause, the likeliest first: name, whether only known errors count there, content."""
    if folder.precheck.exists() and result.state == "BLOCKED":
        yield folder.precheck.name, True, [_lines(_problems(folder.precheck))]
    if folder.driver_log.exists() and folder.driver_log.stat().st_size:
        yield f"logs/{folder.driver_log.name}", False, pieces(folder.driver_log)
    for bundle in sorted(folder.debug.glob("2*"), reverse=True):
        if bundle.is_dir():
            yield from _of_bundle(folder, bundle, result)
    yield folder.result.name, True, [_lines([result.reason])]


def _of_bundle(folder: JobFolder, bundle: Path, result: Result) -> Iterator[Source]:
    """Ray's word about nodes and processes that died while the job ran, and the ends of its processes' own logs."""
    place = bundle.relative_to(folder.path)
    began, ended = (seconds_of(at) if at else 0.0 for at in (result.started_at or result.claimed_at, result.ended_at))
    dead = [
        f"Ray node {node.get('node_ip')} marked dead: {node.get('state_message') or 'no reason given'}"
        for node in _rows(bundle / "nodes.json")
        if node.get("state") == "DEAD" and began - 60 <= node.get("end_time_ms", 0) / 1000 <= (ended or float("inf")) + 60
    ]
    yield f"{place}/nodes.json", True, [_lines(text for text in dead if "EXPECTED_TERMINATION" not in text)]
    own = {str(row.get("job_id")) for row in _rows(bundle / "job.json")} - {"None", ""}
    causes = [
        str(context.get("error_message", ""))
        for actor in _rows(bundle / "actors.json")
        if actor.get("job_id") in own
        for context in (actor.get("death_cause") or {}).values()
        if isinstance(context, dict)
    ]
    # How actors end after the driver has ended says nothing about why it did.
    yield f"{place}/actors.json", True, [_lines(text for text in causes if "owner has died" not in text)]
    # The node's own logs stay out: they tell about other jobs, and of trouble that Ray overcame.
    for output in sorted(bundle.glob("hosts/*/ray-logs/worker-*")):
        if output.stat().st_size:
            yield str(output.relative_to(folder.path)), False, pieces(output)


def _rows(file: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return []
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _problems(file: Path) -> list[str]:
    try:
        return [str(problem) for problem in json.loads(file.read_bytes())["problems"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _lines(texts: Iterable[str]) -> bytes:
    """Texts a line each; an exception that a text quotes gets a line of its own, where the rules for exceptions see it."""
    lines = []
    for text in texts:
        quoted = re.search(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): .*", text, re.DOTALL)
        lines += [" ".join(part.split()) for part in ((quoted[0], text) if quoted else (text,))]
    return "\n".join([*lines, ""]).encode()


def show(told: Explanation) -> str:
    """The answer for a person."""
    by = {"high": "a known signature", "medium": "a known kind of error", "low": "not proven"}.get(told.sure, "")
    who = {"environment": "the environment's", "user": "yours"}.get(told.whose, "")
    facts = ", ".join(part for part in (told.boundary, who) if part not in ("", "unknown"))
    head = ": ".join(part for part in (told.verdict, facts) if part)
    progress = {"start": "before the model was built", "build": "while the model was built", "train": "in training"}
    rows = {
        "cause" if told.verdict not in ("Pass", "Skipped") else "": told.evidence,
        "log": told.where,
        "code": f"{told.file}:{told.line}" if told.file else "",
        "when": progress.get(told.phase, "")
        + (f", after step {told.step}" if told.step is not None and told.phase == "train" else ""),
        "rule": f"{told.rule} ({by})" if told.rule else f"none ({by})" if told.verdict == "Unknown" else "",
        "advice": told.advice,
        "next": told.next,
    }
    return "\n".join([head, *(f"  {name:<7} {text}" for name, text in rows.items() if text)])
