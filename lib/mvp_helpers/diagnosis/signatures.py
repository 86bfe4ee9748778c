"""Failure signatures as data: ``templates/failure_signatures.yaml`` maps the words of a log to causes, verdicts and advice."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ..base.documents import convert, parse
from ..base.errors import BadInput
from ..base.project import PROJECT
from ..log_text import log_lines
from ..log_text.log_lines import ByWords, Line
from ..log_text.tracebacks import IMPORTS, Chain, Frame, Link
from .phases import PHASES, Mark, OutlivedBy, Phase, later, trainer_marks

FILE = PROJECT / "templates" / "failure_signatures.yaml"

Whose = Literal["environment", "user", "unknown"]
Literals = Annotated[list[str], msgspec.Meta(min_length=1)]


class Boundary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An error raised in code whose ``file:function`` matches ``frames`` is in ``boundary``; without frames, its text decides."""

    boundary: str
    frames: str
    says: str = ""
    """Regular expression of the error's source and text."""
    layer: bool = False
    """Many operations run through this code, so one of them, in any frame outside of it, says more."""
    operation: str = ""
    """An error within a function that matches this is in ``boundary``, when a layer (or unknown code) raised it."""


class Stage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run is in ``phase`` that is in a function that matches ``frames`` (``file:function``, or Ray's ``ray::Class.method``), or
    whose error ``says`` so.
    """

    phase: Phase
    frames: str = ""
    says: str = ""


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One signature. It fits a text that contains one of ``any`` and matches ``regex``, in one of the phases ``phase``."""

    id: str
    boundary: str
    whose: Whose
    verdict: Literal["Blocked", "Fail", "by phase", "if built", "Noise"]
    """``by phase``: Blocked before the model is built, Fail afterwards; ``if built``: Unknown before, Fail afterwards."""
    any: list[str] = []
    search: list[str] = []
    """Words to search for if its lines may contain none of ``errors``."""
    regex: str = ""
    exception: str = ""
    """Fits only exceptions whose whole class name matches this."""
    frames: str = ""
    """… that have a frame, written ``file:function``, that matches this."""
    raised_in: str = ""
    """… whose innermost file outside of libraries matches this."""
    innermost: str = ""
    """… whose innermost file of all matches this."""
    phase: list[Phase] = msgspec.field(default_factory=lambda: list(PHASES))
    level: Literal["error", "any"] = "error"
    """``any``: fits also lines that call themselves a warning or information."""
    secondary: bool = False
    """An effect of something else; every other error takes precedence."""
    ends: bool = False
    """A launcher reports with it that its program failed: what comes later cannot have caused what the program raised before."""
    effect_of: list[str] = []
    """Ids of rules; an error that one of them knows takes precedence, whatever comes first."""
    summary: bool = False
    """A summary of what other lines explain (pytest's); every exception takes precedence."""
    kind: bool = False
    """A kind of error rather than a known cause; an unknown exception before it takes precedence."""
    outlived_by: OutlivedBy = "steps"
    """What proves that the run went on: two more steps (before training the first one), the next phase, or nothing."""
    advice: str
    next: str
    limitation: str = ""
    """What the run that ``next`` proposes does not show."""

    def verdict_in(self, phase: Phase) -> Literal["Blocked", "Fail", "Noise", "Unknown"]:
        """Return the verdict for an error in ``phase``."""
        if self.verdict == "by phase":
            return "Blocked" if phase == "start" else "Fail"
        if self.verdict == "if built":
            return "Unknown" if phase == "start" else "Fail"
        return self.verdict


class Hit(msgspec.Struct, frozen=True):
    """A rule that fits, the line, and the named groups of its regex. ``remark``: the line calls itself less than an error."""

    rule: Rule
    number: int
    evidence: str
    link: Link | None
    groups: dict[str, str]
    remark: bool = False

    @property
    def rank(self) -> int:
        """Return how little it explains: 0 a cause, 1 what does not end a run by itself, 2 a kind, 3 an effect, 4 noise."""
        if self.rule.verdict == "Noise":
            return 4
        if self.rule.secondary or self.rule.summary:
            return 3
        return 2 if self.rule.kind else 1 if self.remark or self.rule.outlived_by == "nothing" else 0


class Judgement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The verdict on an error that no rule knows; every field that is given must fit."""

    evidence: str = ""
    """Regular expression of the error's text."""
    boundary: list[str] = []
    phase: list[Phase] = []
    code: str = ""
    """Regular expression of the file whose code raised it."""
    verdict: Literal["Blocked", "Fail"]
    confidence: Literal["medium", "low"]
    boundary_is: str = ""
    """The boundary that the error's text reveals."""

    def fits(self, evidence: str, boundary: str, phase: str, code: str) -> bool:
        """Return whether every field that is given fits."""
        return (
            bool(_pattern(self.evidence).search(evidence))
            and (not self.boundary or boundary in self.boundary)
            and (not self.phase or phase in self.phase)
            and bool(_pattern(self.code).search(code))
        )


class FollowUp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to run next after an error that no rule knows, if its text matches ``evidence``; and what that run does not show."""

    evidence: str = ""
    code: str = ""
    """Regular expression of the file whose code raised it."""
    run: str
    limitation: str = ""


class Sentence(FollowUp, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a library says for one reason only; ``verdict`` and ``boundary`` if the sentence shows them in these phases, too."""

    verdict: Literal["Blocked", "Fail"] | None = None
    boundary: str = ""
    phase: list[Phase] = []
    """Without any: all of them."""

    def judges(self, evidence: str, boundary: str, phase: str, code: str) -> list[Judgement]:
        """Return the judgement that it is, if that fits an error."""
        if self.verdict is None:
            return []
        own = Judgement(
            evidence=self.evidence, phase=self.phase, verdict=self.verdict, confidence="medium", boundary_is=self.boundary
        )
        return [own] if own.fits(evidence, boundary, phase, code) else []


class Signatures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The whole file."""

    errors: Literals
    """Nearly every line that reports an error contains one of these words."""
    libraries: str
    marks: list[Mark]
    ready: Literals
    """A server that is ready for requests prints one of these words."""
    stages: list[Stage]
    boundaries: list[Boundary]
    rules: list[Rule]
    judgements: list[Judgement]
    sentences: list[Sentence]
    """They take precedence over judgements, kinds and follow-ups; the first that fits counts."""
    kinds: list[FollowUp]
    """By the kind of an error, for a boundary that has nothing for that evidence; the first that fits counts."""
    meanings: dict[str, str]
    """What the boundary of an error that no rule knows says of it."""
    follow_ups: dict[str, list[FollowUp]]
    """By boundary: first those with evidence; what has none is for errors of no kind. The first that fits counts."""

    def effect_of(self, effect: str, cause: str) -> bool:
        """Return whether the rule ``effect`` can be an effect of what the rule ``cause`` knows."""
        return any(rule.id == effect and cause in rule.effect_of for rule in self.rules)

    def all_marks(self) -> list[Mark]:
        """Return the file's marks and those of every known trainer, in the order of the phases."""
        return sorted([*self.marks, *trainer_marks()], key=lambda mark: PHASES.index(mark.phase))

    def judgement(self, evidence: str, boundary: str, phase: str, code: str) -> Judgement | None:
        """Return the first judgement that fits an error, that of a sentence before any other; None when none fits."""
        facts = (evidence, boundary, phase, code)
        said = (judgement for each in self.sentences for judgement in each.judges(*facts))
        return next(said, None) or next((each for each in self.judgements if each.fits(*facts)), None)

    @functools.cached_property
    def notices(self) -> list[str]:
        """The words of notices that healthy runs print at their start, too."""
        return [word for rule in self.rules if rule.verdict == "Noise" and rule.boundary == "startup" for word in rule.any]

    def needles(self, *, since: Phase = "start", every: bool = False) -> list[bytes]:
        """Return the words to search for, none within another; a line without any of them is not looked at.

        ``since``: only those of rules of this phase or a later one; ``every``: also the words that ``errors`` make unnecessary.
        """
        rules = [rule for rule in self.rules if any(not later(since, phase) for phase in rule.phase)]
        wanted = {*self.errors, *(word for rule in rules for word in (rule.any if every else rule.search))}
        return [word.encode() for word in sorted(wanted) if not any(other != word and other in word for other in wanted)]

    @functools.cached_property
    def _rules_by_words(self) -> ByWords[Rule]:
        return ByWords((rule, rule.any or [""]) for rule in self.rules)

    def of_line(self, line: Line, phase: Phase) -> Hit | None:
        """Return the best rule for a line outside of tracebacks."""
        hits = (
            _fit(rule, line.text, phase, line.number, None, remark=line.quiet)
            for rule in self._rules_by_words.of(line.text.encode())
            if not rule.exception and (rule.level == "any" or not line.quiet)
        )
        return min((hit for hit in hits if hit), key=lambda hit: hit.rank, default=None)

    def of_chain(self, chain: Chain, phase: Phase) -> Hit | None:
        """Return the best rule for a chain of exceptions; of two that explain equally, the one for the earlier exception."""
        # Of two effects the first rule explains more.
        return min(
            (hit for link in chain.causes() for hit in self._of_link(link, phase)),
            key=lambda hit: (hit.rank, hit.number if hit.rank < 3 else 0),
            default=None,
        )

    def _of_link(self, link: Link, phase: Phase) -> Iterator[Hit]:
        for rule in self.rules:
            hit = self._of_exception(rule, link, phase)
            for line in [] if rule.exception else link.rest:
                if hit is None and (rule.level == "any" or not line.quiet):
                    hit = _fit(rule, line.text, phase, line.number, link)
                    # The lines after an exception may contain its cause; an effect among them only explains an effect.
                    if hit and hit.rank > 2 and not self._effect(link, phase):
                        hit = None
            if hit:
                yield hit

    def _of_exception(self, rule: Rule, link: Link, phase: Phase) -> Hit | None:
        """Return the hit if the rule fits the exception, without the lines after it unless it is a rule for exceptions."""
        if not rule.exception:
            return _fit(rule, link.text, phase, link.number, link)
        if link.guessed and (rule.raised_in or rule.innermost):
            return None  # the place that raised is not in the log
        if not re.fullmatch(rule.exception, link.class_name):
            return None
        if rule.frames and not any(re.search(rule.frames, f"{frame.file}:{frame.name}") for frame in link.frames):
            return None
        culprit = self.culprit(link.frames)
        if rule.raised_in and not (culprit and re.search(rule.raised_in, culprit.file)):
            return None
        if rule.innermost and not (link.frames and re.search(rule.innermost, link.frames[-1].file)):
            return None
        return _fit(rule, "\n".join([link.text, *(line.text for line in link.rest)]), phase, link.number, link)

    def _effect(self, link: Link, phase: Phase) -> bool:
        return any(self._of_exception(rule, link, phase) for rule in self.rules if rule.secondary)

    def culprit(self, frames: Iterable[Frame]) -> Frame | None:
        """Return the innermost frame outside of libraries, or outside of torch, or of all; None without frames."""
        every = list(frames)
        own = [frame for frame in every if not _pattern(self.libraries).search(frame.file)]
        own = own or [frame for frame in every if "/torch/" not in frame.file] or every
        return own[-1] if own else None

    def of_import(self, frames: Sequence[Frame]) -> bool:
        """Return whether code outside of packages imported one that is not under test, and that raised meanwhile."""
        outside = [at for at, frame in enumerate(frames) if not _PACKAGED.search(_call(frame))]
        at = outside[-1] if outside else len(frames) - 1
        inner = frames[at + 1 :]
        return bool(inner and IMPORTS.match(frames[at].code)) and not any(_TESTED.search(_call(frame)) for frame in inner)

    def boundary(self, frames: Iterable[Frame], says: str = "", carriers: str = "") -> str:
        """Return the boundary of the innermost frame that has one, else that of the text ``says``, else "unknown".

        ``carriers``: what carried the exception from another process; the methods called there are operations, too.
        """
        frames = list(frames)
        while len(frames) > 1 and _LOOKED_UP.search(_call(frames[-1])):
            frames.pop()  # the code that asks for what an object does not have shows more
        calls = [_call(frame) for frame in frames]
        if frames and _IMPORTED.search(calls[-1]):
            return "dependency"
        operations = [*calls, *(f"ray:{method}" for method in _REMOTE_METHOD.findall(carriers))]
        by_call = (each for call in reversed(calls) for each in self.boundaries if _pattern(each.frames).search(call))
        inner = next(by_call, None)
        if inner is None or inner.layer:
            for each in self.boundaries:
                if each.operation and any(_pattern(each.operation).search(call) for call in operations):
                    return each.boundary
        if inner:
            return inner.boundary
        text = f"{says} {carriers}"
        by_text = (each.boundary for each in self.boundaries if each.says and _pattern(each.says).search(text))
        return next(by_text, "unknown")

    def follow_up(self, boundary: str, evidence: str = "", code: str = "") -> FollowUp | None:
        """Return what to run next after an error in ``boundary`` that the file ``code`` raised; None if nothing follows."""
        own = self.follow_ups.get(boundary, [])
        known = [*self.sentences, *(each for each in own if each.evidence), *self.kinds, *own]
        fitting = (each for each in known if _pattern(each.evidence).search(evidence) and _pattern(each.code).search(code))
        return next(fitting, None)

    def stage(self, chain: Chain) -> Phase | None:
        """Return the phase of the first stage that fits a function in the chain, or its text; None when none fits."""
        # A module that is only imported shows nothing.
        calls = [_call(frame) for link in chain.links for frame in link.frames if frame.name != "<module>"]
        calls += [chain.header, *(link.text for link in chain.links if link.wrapper)]
        said = " ".join(link.text for link in chain.causes())
        return next((stage.phase for stage in self.stages if _is_in(stage, calls, said)), None)

    def stage_said(self, text: str) -> Phase | None:
        """Return the phase of the first stage that fits an error's text; None when none fits."""
        return next((stage.phase for stage in self.stages if _is_in(stage, (), text)), None)


_TESTED = re.compile(r"^-packages/(verl|nemo_rl|megatron)/")
_PACKAGED = re.compile(r"^-packages/|^<frozen\b")
_IMPORTED = re.compile(rf"(?!{_TESTED.pattern})^-packages/.*:<module>$|^<frozen importlib\b")
"""A module of another package that raised while it was imported, or one that Python did not find or load."""
_LOOKED_UP = re.compile(r"-packages/.*:__getattr(ibute)?__$")
_REMOTE_METHOD = re.compile(r"\bray::[\w.:-]*?(\w+)\(")
_INSTALLED = re.compile(r"^.*(?=-packages/)|^.*/(?=lib/python3\.\d+/(?!site-packages/))")


def _call(frame: Frame) -> str:
    """Return ``file:function``; ignore where a package or Python is installed, e.g. an environment's name."""
    return f"{_INSTALLED.sub('', frame.file)}:{frame.name}"


_pattern = functools.lru_cache(maxsize=None)(re.compile)


def _is_in(stage: Stage, calls: Iterable[str], said: str) -> bool:
    """Return whether a run whose error says ``said``, raised in ``calls``, is in ``stage``."""
    by_frames = stage.frames and any(_pattern(stage.frames).search(call) for call in calls)
    return bool(by_frames or (stage.says and _pattern(stage.says).search(said)))


def _fit(rule: Rule, text: str, phase: Phase, number: int, link: Link | None, remark: bool = False) -> Hit | None:
    if phase not in rule.phase or (rule.any and not log_lines.has_any(text, rule.any)):
        return None
    match = _pattern(rule.regex).search(text)
    if match is None:
        return None
    evidence = link.headline if link else text.strip()
    groups = {key: value for key, value in match.groupdict().items() if value}
    return Hit(rule, number, evidence, link, groups, remark)


def load(file: Path = FILE) -> Signatures:
    """Return the signatures in ``file``.

    Raises:
        BadInput: the file has a mistake, e.g. a rule that can never fit, a duplicate id, or an invalid regular expression.
    """
    try:
        signatures = convert(parse(file.read_bytes(), str(file)), Signatures, str(file))
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}") from None
    seen = set()
    for rule in signatures.rules:
        if rule.id in seen:
            raise BadInput(f"{file}: duplicate rule '{rule.id}'")
        seen.add(rule.id)
        if not (rule.any or rule.exception):
            raise BadInput(f"{file}: rule '{rule.id}' needs 'any' or 'exception'")
        if (rule.frames or rule.raised_in or rule.innermost) and not rule.exception:
            raise BadInput(f"{file}: rule '{rule.id}': 'frames', 'raised_in' and 'innermost' need 'exception'")
    for rule in signatures.rules:
        if unknown := [cause for cause in rule.effect_of if cause not in seen]:
            raise BadInput(f"{file}: rule '{rule.id}': 'effect_of' names no rule: {', '.join(unknown)}")
    for text in _expressions(signatures):
        try:
            re.compile(text)
        except re.error as error:
            raise BadInput(f"{file}: '{text}' is not a regular expression: {error}") from None
    return signatures


def _expressions(signatures: Signatures) -> Iterator[str]:
    yield signatures.libraries
    for boundary in signatures.boundaries:
        yield from (boundary.frames, boundary.says, boundary.operation)
    for stage in signatures.stages:
        yield from (stage.frames, stage.says)
    yield from (mark.regex for mark in signatures.marks)
    for rule in signatures.rules:
        yield from (rule.regex, rule.exception, rule.frames, rule.raised_in, rule.innermost)
    yield from (judgement.evidence for judgement in signatures.judgements)
    listed: list[Sequence[FollowUp]] = [signatures.sentences, signatures.kinds, *signatures.follow_ups.values()]
    yield from (each.evidence for several in listed for each in several)
