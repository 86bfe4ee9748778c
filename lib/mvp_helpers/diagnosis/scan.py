"""Read one log once: the errors in it, and how far the run was at each.

``Scan`` is pure over chunks of bytes. It looks only at lines that contain one of a few literal words, and at those that may
belong to a traceback, so that a log of any size costs little more than reading it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from . import log_lines
from .causes import Finding, Findings, first_cause
from .log_lines import Line
from .phases import PHASES, Mark, Phase, Progress, later
from .signatures import Signatures
from .success import BROKEN_OFF, SuccessCheck
from .tracebacks import Chain, Tracebacks

CHUNK = 1 << 20
"""Bytes read at once; a longer line is looked at in pieces."""


@dataclass
class Scan:
    """One log, read once. ``known_only``: an error counts only if a rule knows it (Ray's own logs are full of others)."""

    signatures: Signatures
    name: str
    rank: int = 0
    known_only: bool = False
    progress: Progress = field(default_factory=Progress)
    findings: Findings = field(default_factory=Findings)
    success: SuccessCheck = field(default_factory=SuccessCheck)
    stage: Phase | None = None
    """The phase, by the functions in its tracebacks."""
    earlier: Finding | None = None
    """The cause of the end of a run before the last one in this log."""
    broken: Finding | None = None
    """The first line in which Hydra reports that it ended the job."""
    begun: bytes = b""
    """The mark of this run's beginning, empty before the first one: a test session may start Ray many times."""

    def __post_init__(self) -> None:
        self._needles = {phase: self.signatures.needles(since=phase, every=self.known_only) for phase in PHASES}
        self._marks: dict[bytes, list[Mark]] = {}
        for mark in self.signatures.all_marks():
            for word in mark.any:
                self._marks.setdefault(word.encode(), []).append(mark)
        self._again = [word for word, marks in self._marks.items() if marks[0].phase == "start"]
        for again in self._again:
            del self._marks[again]
        self._tracebacks = Tracebacks()
        self._started: dict[int, Progress] = {}
        self._number = 1

    def read(self, chunks: Iterable[bytes]) -> Scan:
        """Read the whole log; its pieces may end anywhere."""
        rest = b""
        for piece in chunks:
            cut = piece.rfind(b"\n") + 1
            if cut:
                self._chunk(b"".join((rest, memoryview(piece)[:cut])))  # one copy; slicing and adding would make two
                rest = piece[cut:]
            else:
                rest += piece
            if len(rest) > CHUNK:
                self._chunk(rest)
                self._number -= 1  # the line goes on
                rest = b""
        if rest:
            self._chunk(rest)
        for chain in self._tracebacks.rest():
            self._chain(chain)
        return self

    def _chunk(self, chunk: bytes) -> None:
        """Read the lines of ``chunk`` that may matter; count the others."""
        self.success.read(chunk)
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
        """Yield the starts of the lines that contain a needle, in order, each once."""
        last = -1
        for start in heapq.merge(*(_starts(chunk, needle) for needle in needles if needle in chunk)):
            if start != last:
                yield (last := start)

    def _mark(self, chunk: bytes, begin: int, end: int, again: list[tuple[int, bytes]]) -> None:
        """Record how far the run is at ``end``; ``again`` are the places where another run may begin."""
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
            if not further or chunk.find(word, begin, end) < 0:  # four times as fast as rfind, and mostly enough
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
        """Return whether the mark can advance the progress."""
        here = self.progress.phase
        return later(mark.phase, here) or (mark.phase == here and "step" in mark.regex)

    def _reach(self, mark: Mark, raw: bytes) -> bool:
        match = mark.pattern.search(log_lines.clean(raw, 0).text) or mark.pattern.search(log_lines.plain(raw))
        if match:
            groups, known = match.groupdict(), self.progress.step
            step = int(groups["step"]) if groups.get("step") else None
            step = int(groups["next_step"]) - 1 if groups.get("next_step") else step
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
        at = (self.rank, line.number), self.name, line.number
        stage = self._reached(self.stage)
        if self.broken is None and line.text.startswith(BROKEN_OFF):
            self.broken = Finding(*at, line.text.strip(), self.progress, line=line)
        if hit := self.signatures.of_line(line, stage or self.progress.phase):
            finding = Finding(*at, hit.evidence, self.progress, hit, line=line, stage=stage)
            self.findings.add_known(finding, hit.rule, self.progress)
        elif not self.known_only and line.error and self.progress.phase != "done":
            finding = Finding(*at, line.text.strip(), self.progress, line=line, stage=stage)
            self.findings.add_error_line(finding, self.progress)

    def _chain(self, chain: Chain) -> None:
        if chain.ignored:
            return
        progress = self._started.pop(chain.number, self.progress)
        self._started = {number: at for number, at in self._started.items() if number > chain.number}
        self.stage = max((self.stage, self.signatures.stage(chain)), key=lambda stage: PHASES.index(stage) if stage else -1)
        stage = self._reached(self.stage)
        hit = self.signatures.of_chain(chain, stage or progress.phase)
        cause = chain.causes()[0]
        number, evidence = (hit.number, hit.evidence) if hit else (cause.number, cause.headline)
        finding = Finding((self.rank, chain.number), self.name, number, evidence, progress, hit, chain, stage=stage)
        if hit:
            self.findings.add_known(finding, hit.rule, self.progress)
        elif cause.cut_off:
            self.findings.add_cut_off(finding, self.progress)
        elif not self.known_only:
            self.findings.add_unknown(finding, self.progress)

    def _reached(self, stage: Phase | None) -> Phase | None:
        """Return ``stage`` if it is later than the phase of the log's lines."""
        return stage if stage and later(stage, self.progress.phase) else None

    def _another_run(self) -> None:
        """Begin another run: the cause of the previous run's end does not explain the end of this one."""
        for chain in self._tracebacks.rest():
            self._chain(chain)
        self.earlier = self.earlier or first_cause([self.findings], self.progress)
        self.progress, self.stage, self.begun, self.findings = Progress(), None, b"", Findings()


def _starts(chunk: bytes, needle: bytes) -> Iterator[int]:
    """Yield the starts of the lines that contain ``needle``."""
    at = chunk.find(needle)
    while at >= 0:
        yield chunk.rfind(b"\n", 0, at) + 1
        end = chunk.find(b"\n", at)
        at = chunk.find(needle, end) if end >= 0 else -1
