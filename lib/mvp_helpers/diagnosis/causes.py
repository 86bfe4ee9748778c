"""Errors found in logs, and which of them is the cause: the first in time that the run had not outlived."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..log_text.exceptions import CUT_OFF, GUESSED, Chain, Frame
from ..log_text.log_lines import Line
from .phases import Phase, Progress
from .signature_files import Rule
from .signatures import Hit, Signatures

KEPT = 200
"""Errors of a run that are kept."""
OFTEN = 5
"""An error that came so often while the run went on does not end it; samples of a rollout fail like this."""


_NUMBER = re.compile(r"\d+")
STOPPED = "trigger received signal="
"""A rollout engine prints this when it receives a signal to stop."""
_REQUEST = re.compile(r"/(uvicorn/protocols|starlette|fastapi)/|/entrypoints/(\w+/)*\w*serving\w*")
"""Files of a server that call what answers one request."""
_QUOTED = re.compile(r"['\"]([\w-]{3,})")
"""The beginning of a quoted name, such as the top package of a module."""
_NAMES = re.compile(r"^[\w-]+(?=: )|(?<=['\"])[\w-]+")
"""The program that a shell could not start, or the module that it could not load."""
_ENGINE = re.compile(r"\((EngineCore|A[Pp][Ii]Server|Worker|V[Ll]{2}[Mm]Worker(Process)?)(_\w+)?[ )]")
_OF_PROFILE = re.compile(
    r"^(?:\S*/)?(?:flatpak|gsettings|dbus-[\w-]+|xauth|lesspipe|tput|dircolors|locale|vim?)"
    r": error while loading shared libraries: "
    r"|\bmodule\(s\) (?:are unknown|exist but)|Unable to locate a modulefile"
)
"""What a shell prints at the beginning of a job, also where the job needs nothing of it."""
_MISTAKES = re.compile(r"(?:\w+\.)*(?:Syntax|Indentation|Tab|Name|UnboundLocal|Attribute|Type|Key|Index|ModuleNotFound)Error\b")
"""Exceptions for which no other program that did not start is the reason."""


def program(source: str) -> str:
    """Return the program that prints lines of ``source``."""
    return "engine" if _ENGINE.match(source) else source


@dataclass(frozen=True)
class Finding:
    """One error: its text and place, how far the run was, and the rule that knows it."""

    order: tuple[int, int]
    """Rank of the log, and the line where the error begins."""
    log: str
    number: int
    """The line that says most, from 1."""
    evidence: str
    progress: Progress
    hit: Hit | None = None
    chain: Chain | None = None
    line: Line | None = None
    stage: Phase | None = None
    """The phase by the functions that were running, if it is later than the phase of the log's lines."""
    said_before: str = ""
    """What the same program printed just before a traceback, if that says that something is missing."""

    @property
    def rule(self) -> Rule | None:
        return self.hit.rule if self.hit else None

    @property
    def source(self) -> str:
        return self.chain.source if self.chain else ""

    @property
    def program(self) -> str:
        """Return which program's output it is in; the processes of a rollout engine are one."""
        return program(self.chain.source if self.chain else self.line.source if self.line else "")

    @property
    def of_profile(self) -> bool:
        """Return whether a shell printed it before the programs of a job, which may do without what is missing."""
        return self.chain is None and bool(_OF_PROFILE.search(self.evidence))

    def without_profile(self, earlier: Finding) -> bool:
        """Return whether it ended a run whatever its shell said before, in ``earlier``."""
        outside = self.rule is not None and self.rule.secondary and self.rule.boundary in ("outside", "Slurm")
        mistake = self.uncaught and bool(_MISTAKES.match(self.evidence))
        named = any(name in self.evidence for name in _NAMES.findall(earlier.evidence))
        return self.order > earlier.order and (outside or mistake) and not named

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The calls in which the first of its exceptions was raised."""
        return self.chain.causes()[0].frames if self.chain else ()

    @property
    def uncaught(self) -> bool:
        """Return whether it went through the program's first line, and so ended that process."""
        links = self.chain.links if self.chain else ()
        return any(frame.name == "<module>" for link in links for frame in link.frames[:1])

    @property
    def first_words(self) -> str:
        """Return what errors of the same kind have in common: their first words, without numbers."""
        where = self.evidence.removeprefix(f"{CUT_OFF}: ")
        return _NUMBER.sub("", where[: 40 if len(where) == len(self.evidence) else 80])

    @property
    def of_request(self) -> bool:
        """Return whether it was raised while a server answered one request, which does not end the server."""
        return "EngineDead" not in self.evidence and any(_REQUEST.search(frame.file) for frame in self.frames)

    @property
    def of_command(self) -> bool:
        """Return whether it says that a command failed, whose own output is in the log."""
        raised = self.frames[-1] if self.frames else None
        shown = raised and raised.file.endswith("subprocess.py") and raised.name in ("run", "check_call")
        return bool(shown and self.evidence.startswith("subprocess.CalledProcessError: "))

    @property
    def says_little(self) -> bool:
        """Return whether every frame only passes calls on."""
        return self.chain is not None and self.chain.causes()[0].says_little

    @property
    def phase(self) -> Phase:
        return self.stage or self.progress.phase

    def repeats(self, other: Finding) -> bool:
        """Return whether it is the same error of the same process, raised at the same place."""
        return (self.evidence, self.source) == (other.evidence, other.source) and self.frames[-1:] == other.frames[-1:]

    def seen_in(self, stage: Phase, signatures: Signatures) -> Finding:
        """Return the same error, judged as one of the phase ``stage``."""
        hit = (
            signatures.of_chain(self.chain, stage) if self.chain else signatures.of_line(self.line, stage) if self.line else None
        )
        return dataclasses.replace(self, stage=stage, hit=hit or self.hit)


@dataclass
class Findings:
    """The errors of one run in a log that can be its cause."""

    known: dict[str, Finding] = field(default_factory=dict)
    """By rule: the first error that the run has not outlived."""
    first_unknown: Finding | None = None
    last_unknown: Finding | None = None
    cut_off: Finding | None = None
    """The first traceback that gives only a place."""
    error_line: Finding | None = None
    """The first line that calls itself an error, outside of any exception."""
    warned: Finding | None = None
    """The first import error below a warning: the program may go on without that module."""
    every: list[Finding] = field(default_factory=list)
    """The first errors, also those that the run outlived."""
    stopped: tuple[str, int] | None = None
    """A program that received a signal to stop, and the line that says so: the way it ends cannot be the cause."""

    @property
    def known_or_unknown(self) -> bool:
        """Return whether there is any exception or any error that a rule knows; harmless messages are none."""
        known = (finding.rule for finding in self.known.values())
        return self.first_unknown is not None or any(rule and rule.verdict != "Noise" for rule in known)

    def at(self, end: Progress) -> Findings:
        """Return the errors as those of a run that was as far as ``end``."""
        return dataclasses.replace(
            self, known={rule: dataclasses.replace(finding, progress=end) for rule, finding in self.known.items()}
        )

    seen: dict[str, tuple[int, Progress]] = field(default_factory=dict)
    """How often each error came, by its first words, and how far the run was at the first one."""

    def recurs(self, finding: Finding, now: Progress) -> bool:
        """Return whether the same error came often, and the run has outlived the first one."""
        count, first = self.seen.get(finding.first_words, (0, now))
        return count >= OFTEN and now.outlives(first, "steps")

    def _note(self, finding: Finding) -> None:
        count, first = self.seen.get(finding.first_words, (0, finding.progress))
        if count or len(self.seen) < KEPT:
            self.seen[finding.first_words] = count + 1, first

    def joined(self, later: Findings) -> Findings:
        """Return these errors of a run with those that it had later."""
        return Findings(
            known={**later.known, **self.known},
            first_unknown=self.first_unknown or later.first_unknown,
            last_unknown=later.last_unknown or self.last_unknown,
            cut_off=self.cut_off or later.cut_off,
            error_line=self.error_line or later.error_line,
            warned=self.warned or later.warned,
            every=[*self.every, *later.every],
            stopped=later.stopped or self.stopped,
            seen={**later.seen, **self.seen},
        )

    def replaced(self, line: Line, most: int = 1, says: str = "") -> None:
        """Forget the error lines with the text ``says`` among the ``most`` lines before ``line``: the program went on."""

        def counts(finding: Finding) -> bool:
            return bool(finding.chain) or finding.number < line.number - most or says not in finding.evidence

        self.every = list(filter(counts, self.every))
        if self.error_line and not counts(self.error_line):
            self.error_line = None

    def overcome(self, by: str) -> None:
        """Forget what lines of the program ``by`` called an error: it serves now. An exception counts, unless as a warning."""

        def counts(finding: Finding) -> bool:
            return finding.program != by or bool(finding.chain and not finding.chain.quiet)

        self.known = {rule: finding for rule, finding in self.known.items() if counts(finding)}
        self.first_unknown, self.last_unknown, self.cut_off, self.error_line = (
            finding if finding and counts(finding) else None
            for finding in (self.first_unknown, self.last_unknown, self.cut_off, self.error_line)
        )

    def outlived_before(self, cause: Finding) -> Finding | None:
        """Return the first exception of another kind before ``cause`` that says what went wrong; None without one."""
        before = (each for each in self.every if each.chain and each.order < cause.order and ": " in each.evidence)
        whole = (each for each in before if not any(words in each.evidence for words in (CUT_OFF, GUESSED)))
        return next((each for each in whole if each.first_words != cause.first_words), None)

    def _keep(self, finding: Finding) -> None:
        if len(self.every) < KEPT:
            self.every.append(finding)

    def _after_stop(self, finding: Finding) -> bool:
        return bool(self.stopped and finding.program == self.stopped[0] and finding.order[1] > self.stopped[1])

    def add_known(self, finding: Finding, rule: Rule, now: Progress) -> None:
        """Add an error that ``rule`` knows; ``now`` is how far the run is."""
        if self._after_stop(finding):
            return
        if finding.hit and not finding.hit.remark and rule.verdict != "Noise" and rule.outlived_by != "phase":
            self._keep(finding)
        earlier = self.known.get(rule.id)
        if earlier is None or now.outlives(earlier.progress, rule.outlived_by):
            self.known[rule.id] = finding
        elif finding.order < earlier.order and not now.outlives(finding.progress, rule.outlived_by):
            self.known[rule.id] = finding  # a traceback counts from its beginning, and is known at its end

    def add_warned(self, finding: Finding) -> None:
        """Add an import that failed below a warning."""
        self._keep(finding)
        self.warned = self.warned or finding

    def add_cut_off(self, finding: Finding, now: Progress) -> None:
        """Add a traceback that gives only a place."""
        if self._after_stop(finding):
            return
        self._keep(finding)
        self._note(finding)
        vague = self.cut_off and self.cut_off.frames and self.cut_off.says_little and not finding.says_little
        if _outlived(self.cut_off, now) or vague:
            self.cut_off = finding

    def add_error_line(self, finding: Finding, now: Progress) -> None:
        """Add a line that calls itself an error."""
        if self._after_stop(finding):
            return
        if finding.line and finding.line.loud:
            self._keep(finding)
        self._note(finding)
        if _outlived(self.error_line, now):
            self.error_line = finding

    def add_unknown(self, finding: Finding, now: Progress) -> None:
        """Add an exception that no rule knows."""
        if self._after_stop(finding):
            return
        self._keep(finding)
        self._note(finding)
        if self.recurs(finding, now):
            return
        if self.first_unknown is None or _outlived(self.first_unknown, now):
            self.first_unknown = finding
        elif finding.repeats(self.first_unknown) and len(finding.frames) > len(self.first_unknown.frames):
            first = self.first_unknown  # an excerpt began within its traceback, and a program printed it again
            whole = dataclasses.replace(first, chain=finding.chain, stage=finding.stage or first.stage)
            self.first_unknown, self.last_unknown = whole, whole if self.last_unknown is first else self.last_unknown
        # The same error, reported again by another process or one level up, is not a new one; nor is that a command failed.
        if self.last_unknown is None or not (self.last_unknown.evidence == finding.evidence or finding.of_command):
            self.last_unknown = finding


def _outlived(finding: Finding | None, now: Progress) -> bool:
    return finding is None or now.outlives(finding.progress, "steps")


def first_cause(logs: Sequence[Findings], end: Progress) -> Finding | None:
    """Return the cause among the errors that a run whose progress was ``end`` had not outlived; None without one."""
    known = [
        finding
        for log in logs
        for finding in log.known.values()
        if finding.rule and not end.outlives(finding.progress, finding.rule.outlived_by)
    ]

    causes = {finding.rule.id for finding in known if finding.rule}
    known = [finding for finding in known if finding.rule and causes.isdisjoint(finding.rule.effect_of)]

    def left(log: Findings, *findings: Finding | None) -> list[Finding]:
        new = (finding for finding in findings if finding and not log.recurs(finding, end))
        return [finding for finding in new if not end.outlives(finding.progress, "steps")]

    unknown = [finding for log in logs for finding in left(log, log.first_unknown, log.last_unknown)]
    known = [finding for finding in known if not any(_after_end(finding, first, known) for first in unknown)]
    known = [
        finding
        for finding in known
        if not (finding.of_profile and any(each.without_profile(finding) for each in (*known, *unknown)))
    ]
    vague = [each for log in logs for each in left(log, log.cut_off)] or [
        each for log in logs for each in left(log, log.error_line)
    ]
    cause = _choose(sorted(known, key=_order), sorted(unknown, key=_order), min(vague, key=_order, default=None))
    warned = min((each for log in logs for each in left(log, log.warned)), key=_order, default=None)
    return warned if warned and _explains(warned, cause) else cause


def _explains(warned: Finding, cause: Finding | None) -> bool:
    """Return whether the module that could not be imported is the cause: only effects follow, or an error that names it."""
    if cause is None or (cause.rule and (cause.rule.verdict == "Noise" or cause.rule.secondary)):
        return True
    texts = [cause.evidence, *(link.text for link in (cause.chain.links if cause.chain else ()))]
    return warned.order < cause.order and any(name in text for text in texts for name in _QUOTED.findall(warned.evidence))


def _after_end(finding: Finding, first: Finding, known: Sequence[Finding]) -> bool:
    """Return whether a launcher reported in between that the program which raised ``first`` had failed."""
    return any(
        end.rule and end.rule.ends and first.order < end.order < finding.order and not (finding.rule and finding.rule.secondary)
        for end in known
    )


def _choose(known: list[Finding], unknown: list[Finding], vague: Finding | None) -> Finding | None:
    """Return the first cause in time; an effect only if nothing else was found, and noise only if no effect was."""
    by_rank: dict[int, Finding] = {}
    for finding in known:
        if finding.hit:
            by_rank.setdefault(finding.hit.rank, finding)
    earliest, latest = (unknown[0], unknown[-1]) if unknown else (None, None)
    if earliest and latest and earliest.frames and not latest.frames and latest.evidence.startswith("Error:"):
        latest = earliest  # a line that only says that something failed
    kind = by_rank.get(2)
    if kind and earliest and earliest.order < kind.order:
        latest = max((finding for finding in unknown if finding.order < kind.order), key=_order)
        kind = None
    causes = [finding for finding in (by_rank.get(0), kind) if finding]
    if causes:
        return min(causes, key=_order)
    of_tests = any(finding.rule and finding.rule.summary for finding in known)  # each test raises for itself
    if earliest and latest and (of_tests or earliest.source != latest.source):
        latest = earliest  # The first of several processes to raise counts; one that raises again had overcome its first error.
    return by_rank.get(1) or latest or by_rank.get(3) or vague or by_rank.get(4)


def _order(finding: Finding) -> tuple[int, int]:
    return finding.order
