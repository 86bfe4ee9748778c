"""What the lines of one log say of its runs: how far each came, its errors, and where the next one begins."""

from __future__ import annotations

import dataclasses
import os
import re
from dataclasses import dataclass, field
from typing import BinaryIO

from ..log_text import log_lines
from ..log_text.exceptions import IMPORT_ERRORS, Chain
from ..log_text.log_lines import ByWords, Line
from ..log_text.tracebacks import SYNTAX, Tracebacks
from ..success.bad_ends import BROKEN_OFF
from ..success.proven import Success
from ..trainers.patterns.of_scripts import SCRIPTS
from .causes import STOPPED, Finding, Findings, first_cause, program
from .phases import PHASES, Mark, Phase, Progress, later
from .signatures import Signatures

_REPLACES = re.compile(r"^(?!.*\b(?:cannot|unable|failed|no)\b).*\b[Ff]all(?:s|ing) back\b")
"""A program goes on with something else, after the line before it called an error."""
_TRIES_SMALLER = "retrying with smaller batch size"
"""llama.cpp's server prints this a few lines after the batch that did not fit, and goes on."""
_NOT_OPENED = ": can't open file '"
"""Python's message when it does not find the script."""
_REFUSED = "command-line-refused"
"""The rule of a program that refuses its command line, and names itself."""
SAID_LINES, SAID_BYTES = 5, 2048
"""Of what is before a traceback only this much may be about it."""
_LACKS = re.compile(
    r"(?i)^(?!\S+: line \d+: |.*(?:%\||job with overrides|failed to start|examples/s|gated repo|\bretry|warnings\.warn))"
    r"(?!\W*(?:0|no) (?:error|warning)).{0,200}?"
    r"(?:\b(?:not found|does(?: not|n't) exist|no such|could(?: not|n't)|cannot|unable to"
    r"|failed to|missing|not set|is empty|no \w+ (?:found|left)|(?<![\d.])0 (?:files|samples"
    r"|rows|examples|images))\b|(?:\[\]|\{\})\)?$)"
)
_OPTIONAL = re.compile(
    r"(?i)\bimport(?:s|ed|ing)?\b|\b(?:could not|cannot|failed to|unable to) load\b|\bnot (?:available|installed|found)\b"
)
"""What a program says of a module without which it goes on."""
_WITHOUT = re.compile(r"(?i)\b(?:will not|won't) be (?:enabled|used|available)\b|\b(?:is|are|will be) disabled\b")
"""What it says of the part of itself that it leaves out then."""
_BEFORE_HEADER = re.compile(r"(\S.{10,200}?: \S.{10,}?)[:,]?\s+Traceback \(most recent call last\)")
"""What a program says of an error in the line that begins its traceback, as vLLM's workers do; it counts if that breaks off."""
_JOB_ENDED = re.compile(r"slurmstepd: error: \*\*\* JOB (\d+) ON \S+ CANCELLED AT ")
"""The last line of a Slurm job that was cancelled; lines of its processes may follow."""


@dataclass(frozen=True)
class Before:
    """What the lines before a traceback say."""

    lacks: str = ""
    """The last of them in which something is missing."""
    warned: bool = False
    """The last of them warns that a module cannot be imported."""
    without: bool = False
    """It says what the program goes on without."""


@dataclass
class Runs:
    """The runs of one log, of which the last one counts.

    ``known_only``: an error counts only if a rule knows it (Ray's own logs are full of others).
    """

    signatures: Signatures
    name: str
    rank: int = 0
    known_only: bool = False
    progress: Progress = field(default_factory=Progress)
    findings: Findings = field(default_factory=Findings)
    success: Success = field(default_factory=Success)
    stage: Phase | None = None
    """The phase, by the functions in its tracebacks."""
    earlier: Finding | None = None
    """The cause of the end of the last run before this one that failed."""
    broken: Finding | None = None
    """The first line in which Hydra reports that it ended the job."""
    served: bool = False
    """A server of this run was ready for requests."""
    refused: Finding | None = None
    """The first error of one of its requests."""
    begun: str = ""
    """The mark of this run's beginning, empty before the first one."""
    stepped: bool = False
    """A line showed a step of this run as done."""
    runs: int = 1
    """How many runs the log contains so far."""
    at: int = 1
    """The line that is read."""
    job: str = ""
    """The Slurm job that was cancelled last."""
    before: Findings = field(default_factory=Findings)
    """The errors up to its last line."""
    text_before: tuple[bytes | BinaryIO, int] = b"", 0
    """What contains the line that is read, and where in that it begins."""

    def __post_init__(self) -> None:
        marks = self.signatures.all_marks
        self._marks = self.signatures.once("marks", lambda: ByWords(((mark, mark.pattern), mark.any) for mark in marks()))
        self._ready = tuple(word.encode() for word in self.signatures.reading.ready)
        self._tracebacks = Tracebacks()
        self._started: dict[int, tuple[Progress, Before]] = {}

    @property
    def _failed(self) -> bool:
        """Return whether this run has an error, or a traceback that is not yet complete."""
        return self.findings.known_or_unknown or self._tracebacks.waiting

    def _echo(self, mark: Mark) -> bool:
        """Return whether another process or logger of this run reports its beginning, before any step."""
        same = self.begun == mark.any[0] and self.progress.phase == "train"
        return same and not (self.stepped or self.success.record.steps or self.findings.known_or_unknown)

    def _step_done(self, step: int) -> None:
        """Note a step that a line showed as done; -1 if it showed none."""
        if step < 0:
            return
        self.stepped = True
        self.progress = Progress("train", max(step, self.progress.step or 0))

    def _mark(self, raw: bytes) -> None:
        """Record how far the run is, if the line shows it."""
        if log_lines.has_any(raw, self._ready):
            self.served = True
            self.findings.overcome(program(log_lines.clean(raw, 0).source))
        texts: tuple[str, ...] = ()
        for mark, pattern in self._marks.of(raw):
            if (mark.after_end and self.progress.phase != "done") or (mark.phase != "start" and not self._further(mark)):
                continue
            if not texts:  # a bar may be drawn over what a line says
                texts = (log_lines.clean(raw, 0).text, log_lines.plain(raw), log_lines.plain(raw.partition(b"\r")[0]))
            if not (match := next(filter(None, map(pattern.search, texts)), None)):
                continue
            if mark.phase == "start":
                # Tests may start Ray many times; only after an error does the same beginning again mean another run.
                again = self.begun == mark.any[0] and self._failed
                # What is measured before the first step, as a validation, is of the same run.
                trained = self.progress.phase == "done" or (self.progress.phase == "train" and self.progress.step != 0)
                if (trained and not self._echo(mark)) or again:
                    self._another_run()
                self.begun = self.begun or mark.any[0]
            else:
                self._reach(mark, match)

    def _further(self, mark: Mark) -> bool:
        """Return whether the mark can advance the progress."""
        here = self.progress.phase
        return later(mark.phase, here) or (mark.phase == here and (mark.phase == "done" or "step" in mark.regex))

    def _reach(self, mark: Mark, match: re.Match[str]) -> None:
        if mark.phase == "done" and mark.trainer in SCRIPTS and mark.trainer not in self.success.record.trained:
            return  # a script may call a part of its work a training
        groups, known = match.groupdict(), self.progress.step
        step = int(groups["step"]) if groups.get("step") else None
        step = int(groups["next_step"]) - 1 if groups.get("next_step") else step
        if step is None and mark.phase == "train" and "begun" not in groups:
            step = 1  # at least
        self.stepped |= bool(groups.get("step"))
        self.progress = Progress(mark.phase, known if step is None else max(step, known or 0))
        if mark.phase == "done":
            self.success.end(mark.trainer, match)

    def _line(self, line: Line) -> bool:
        """Read a line that may report an error; return whether it belongs to a traceback."""
        before, opens = self.progress, not self._tracebacks.waiting
        belongs, chains = self._tracebacks.take(line)
        for chain in chains:
            self._chain(chain)
        if belongs:
            self._started.setdefault(line.number, (before, self._said_before(line) if opens else Before()))
            return True
        stage = self._reached(self.stage)
        if line.error and (said := self.signatures.stage_said(line.text)):
            stage = self._reached(said) or stage
        if _REPLACES.search(line.text):
            self.findings.replaced(line)
        if _TRIES_SMALLER in line.text:
            self.findings.replaced(line, 4, "failed to find a memory slot")
        if STOPPED in line.text:
            self.findings.stopped = program(line.source), line.number
        found = Finding(
            (self.rank, line.number), self.name, line.number, line.text.strip(), self.progress, line=line, stage=stage
        )
        if self.broken is None and line.text.startswith(BROKEN_OFF):
            self.broken = dataclasses.replace(found, stage=None)
        if not self._known(line, stage) and not self.known_only and line.error and self.progress.phase != "done":
            self.findings.add_error_line(found, self.progress)
        if (ended := _JOB_ENDED.match(line.text)) and ended[1] != self.job:
            self._job_ended(ended[1])
        return False

    def _known(self, line: Line, stage: Phase | None) -> bool:
        """Return whether a rule knows what the line says by itself, and add it if so."""
        hit = self.signatures.of_line(line, stage or self.progress.phase)
        if hit:
            at = (self.rank, line.number), self.name, line.number
            found = Finding(*at, hit.evidence, self.progress, hit, line=line, stage=stage)
            self.findings.add_known(found, hit.rule, self.progress)
        return bool(hit)

    def _said_before(self, line: Line) -> Before:
        """Return what the same program says in the lines before ``line``."""
        text, at = self.text_before
        length = min(at, SAID_BYTES)
        said = text[at - length : at] if isinstance(text, bytes) else os.pread(text.fileno(), length, at - length)
        lines = (log_lines.clean(raw, 0) for raw in said.splitlines()[-SAID_LINES:])
        own = [each for each in lines if each.source == line.source]
        found = [each.text.strip() for each in own if not each.quiet and _LACKS.search(each.text)]
        last = own[-1].text if own and own[-1].warns else ""
        return Before(found[-1] if found else "", bool(_OPTIONAL.search(last)), bool(_WITHOUT.search(last)))

    def _job_ended(self, job: str) -> None:
        """Note that Slurm cancelled ``job``: what came before the last line of an earlier job does not explain its end."""
        for chain in self._tracebacks.rest():
            self._chain(chain)
        if self.job:
            self.earlier = first_cause([self.before], Progress()) or self.earlier
            self.runs += 1
        self.job, self.before, self.findings = job, self.findings, Findings()

    def _chain(self, chain: Chain) -> None:
        if chain.ignored and (self.progress.phase == "done" or not any(link.at_exit for link in chain.links)):
            return
        progress, before = self._started.pop(chain.number, (self.progress, Before()))
        if self._starts_again(chain):
            progress = self._another_start(progress)
        self._started = {number: at for number, at in self._started.items() if number > chain.number}
        self.stage = max((self.stage, self.signatures.stage(chain)), key=lambda stage: PHASES.index(stage) if stage else -1)
        stage = self._reached(self.stage)
        hit = self.signatures.of_chain(chain, stage or progress.phase)
        cause = chain.causes()[0]
        announced = _BEFORE_HEADER.match(chain.header) if hit is None and (cause.cut_off or cause.guessed) else None
        if announced and self._known(Line(chain.number, announced[1], source=chain.source, level="ERROR"), stage):
            return
        if before.without and cause.class_name in IMPORT_ERRORS:
            return
        if chain.of_cpp and hit is None and not self.signatures.a_sentence_knows(cause, None):
            return  # that the process ended so says more
        number, evidence = (hit.number, hit.evidence) if hit else (cause.number, cause.headline)
        finding = Finding(
            (self.rank, chain.number), self.name, number, evidence, progress, hit, chain, stage=stage, said_before=before.lacks
        )
        if self.served and self.progress.phase == "start" and finding.of_request:
            self.refused = self.refused or finding
        elif before.warned and cause.class_name in IMPORT_ERRORS:
            self.findings.add_warned(finding)
        elif hit:
            self.findings.add_known(finding, hit.rule, self.progress)
        elif cause.cut_off:
            self.findings.add_cut_off(finding, self.progress)
        elif not self.known_only:
            self.findings.add_unknown(finding, self.progress)

    def _starts_again(self, chain: Chain) -> bool:
        """Return whether the exception shows that its program was started again after an earlier one.

        Python parses a script before it runs any of it, a program that an import ended imports something else only later, and
        one whose script was not found, or that refused its command line, ran nothing.
        """
        cause = chain.causes()[0]
        refused = self.findings.known.get(_REFUSED)
        program = refused.hit.groups.get("program") if refused and refused.hit else None
        if any(os.path.basename(frame.file) == program for frame in cause.frames):
            return True
        earlier = [each.chain.causes()[0] for each in self.findings.every if each.chain and each.source == chain.source]
        if SYNTAX.match(cause.text):
            ran = {frame.file for link in earlier if not SYNTAX.match(link.text) for frame in link.frames}
            return any(frame.file in ran for frame in cause.frames)
        if cause.begins and self.findings.every and all(_NOT_OPENED in each.evidence for each in self.findings.every):
            return True
        begins = cause.begins if cause.class_name in IMPORT_ERRORS else ""
        failed = [link for link in earlier if begins and link.begins == begins and link.class_name in IMPORT_ERRORS]
        return bool(failed) and all(link.text != cause.text for link in failed)

    def _another_start(self, progress: Progress) -> Progress:
        """Begin another run at an exception that was raised at ``progress``; return the progress of that run."""
        if progress.phase != "start":
            self._another_run()
            return self.progress
        # Lines below the exception, such as the first step, may have been read already: keep them.
        self.earlier, self.broken = first_cause([self.findings], progress) or self.broken or self.earlier, None
        self.findings, self.runs = Findings(), self.runs + 1
        return progress

    def _reached(self, stage: Phase | None) -> Phase | None:
        """Return ``stage`` if it is later than the phase of the log's lines."""
        return stage if stage and later(stage, self.progress.phase) else None

    def _another_run(self) -> None:
        """Begin another run: the cause of the previous run's end does not explain the end of this one."""
        for chain in self._tracebacks.rest():
            self._chain(chain)
        self.earlier = first_cause([self.findings], self.progress) or self.broken or self.earlier
        self.broken = None
        self.runs += 1
        self.success.another_run(self.at)
        self.progress, self.stage, self.begun, self.findings = Progress(), None, "", Findings()
        self.before, self.refused = Findings(), None
        self.served = self.stepped = False
