"""The form of the files in ``templates/signatures/``, which map the words of a log to causes, verdicts and advice."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from ..base.documents import convert, parse
from ..base.errors import BadInput
from ..base.project import PROJECT
from .phases import PHASES, Mark, OutlivedBy, Phase

FOLDER = PROJECT / "templates" / "signatures"

Whose = Literal["environment", "user", "unknown"]
Literals = Annotated[list[str], msgspec.Meta(min_length=1)]


T = TypeVar("T")

pattern = functools.lru_cache(maxsize=None)(re.compile)


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
    inside: str = ""
    """… and that one that matches this has called, if given."""
    says: str = ""


class FollowUp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to run next after an error that no rule knows, if its text matches ``evidence``; and what that run does not show."""

    evidence: str = ""
    code: str = ""
    """Regular expression of the file whose code raised it, of the call that raised (``file:function``), and of the line of code,
    each on a line of its own."""
    run: str
    """``{name}`` in it is what the group ``name`` of ``evidence`` found."""
    limitation: str = ""
    general: bool = False
    """It would be said of many errors: what the line of code that raised shows takes precedence."""

    def about(self, evidence: str) -> str:
        """Return what to run, with what was found in the error's text."""
        match = pattern(self.evidence).search(evidence)
        found = {name: text for name, text in match.groupdict().items() if text} if match else {}
        return functools.reduce(lambda run, name: run.replace(f"{{{name}}}", found[name]), found, self.run)


class Case(FollowUp, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cause among those that a rule knows together: what to run next if the error's text matches ``evidence``."""

    verdict: Literal["Blocked", "Fail"] | None = None
    boundary: str = ""
    advice: str = ""
    """What such an error means, where the rule's own words about all of them would be wrong."""
    phase: list[Phase] = []
    """Without any: all of them."""
    frames: str = ""
    """Regular expression of one of the calls (``file:function``) in which it was raised."""

    def fits(self, said: str, phase: str, code: str, calls: Sequence[str]) -> bool:
        """Return whether every field that is given fits."""
        in_phase = not self.phase or phase in self.phase
        called = not self.frames or any(pattern(self.frames).search(call) for call in calls)
        return in_phase and called and bool(pattern(self.evidence).search(said) and pattern(self.code).search(code))


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
    placed: bool = False
    """The boundary of the code that raised it counts, if that has one."""
    ends: bool = False
    """A launcher reports with it that its program failed: what comes later cannot have caused what the program raised before."""
    effect_of: list[str] = []
    """Ids of rules; an error that one of them knows takes precedence, whatever comes first."""
    summary: bool = False
    """A summary of what other lines explain (pytest's); every exception takes precedence."""
    kind: bool = False
    """A kind of error rather than a known cause; an unknown exception before it takes precedence."""
    unless_said: bool = False
    """Does not fit an exception of which a sentence says more, but none of its own cases."""
    outlived_by: OutlivedBy = "steps"
    """What proves that the run went on: two more steps (before training the first one), the next phase, or nothing."""
    advice: str
    next: str
    limitation: str = ""
    """What the run that ``next`` proposes does not show."""
    cases: list[Case] = []
    """Where the text of the error says more; the first that fits counts."""

    def verdict_in(self, phase: Phase) -> Literal["Blocked", "Fail", "Noise", "Unknown"]:
        """Return the verdict for an error in ``phase``."""
        if self.verdict == "by phase":
            return "Blocked" if phase == "start" else "Fail"
        if self.verdict == "if built":
            return "Unknown" if phase == "start" else "Fail"
        return self.verdict


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
            bool(pattern(self.evidence).search(evidence))
            and (not self.boundary or boundary in self.boundary)
            and (not self.phase or phase in self.phase)
            and bool(pattern(self.code).search(code))
        )


class Sentence(FollowUp, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a library says for one reason only; ``verdict`` and ``boundary`` if the sentence shows them in these phases, too."""

    verdict: Literal["Blocked", "Fail"] | None = None
    boundary: str = ""
    phase: list[Phase] = []
    """Without any: all of them."""

    def judges(self, evidence: str, boundary: str, phase: str, code: str) -> list[Judgement]:
        """Return the judgement that it is, if that fits an error; ``code`` as for ``FollowUp.code``."""
        if self.verdict is None or not pattern(self.code).search(code):
            return []
        own = Judgement(
            evidence=self.evidence, phase=self.phase, verdict=self.verdict, confidence="medium", boundary_is=self.boundary
        )
        return [own] if own.fits(evidence, boundary, phase, "") else []


class Reading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``reading.yaml``: how a log is read."""

    errors: Literals
    """Nearly every line that reports an error contains one of these words."""
    libraries: str
    marks: list[Mark]
    ready: Literals
    """A server that is ready for requests prints one of these words."""
    shown: dict[str, str]
    """What a log may show of a run already, as a regular expression of a line, by the name of the placeholder."""
    set: dict[str, str]
    """What it may show of the run's settings."""
    packages: dict[str, str]
    """The package of pip that provides a module, where it has another name."""
    named_alike: list[str]
    """Modules that a package of the same name provides."""
    stages: list[Stage]
    boundaries: list[Boundary]


class UnknownErrors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``unknown_errors.yaml``: the verdict on an error that no rule knows."""

    judgements: list[Judgement]
    meanings: dict[str, str]
    """What the boundary of an error that no rule knows says of it."""


class NextSteps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``next_steps.yaml``: what to look at after such an error."""

    kinds: list[FollowUp]
    """By the kind of an error, for a boundary that has nothing for that evidence; the first that fits counts."""
    follow_ups: dict[str, list[FollowUp]]
    """By boundary: first those with evidence; what has none is for errors of no kind. The first that fits counts."""


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file in ``rules/``; of two effects the one in the earlier file explains more."""

    rules: list[Rule]


class Sentences(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file in ``sentences/``."""

    sentences: list[Sentence]


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """All of them."""

    reading: Reading
    rules: list[Rule]
    sentences: list[Sentence]
    """They take precedence over judgements, kinds and follow-ups; the first that fits counts."""
    unknown: UnknownErrors
    steps: NextSteps


def read(folder: Path) -> Files:
    """Return the signatures in ``folder``.

    Raises:
        BadInput: a file has a mistake, e.g. a rule that can never fit, a duplicate id, or an invalid regular expression.
    """
    files = Files(
        reading=_read(folder / "reading.yaml", Reading),
        rules=[],
        sentences=[each for file in sorted(folder.glob("sentences/*.yaml")) for each in _read(file, Sentences).sentences],
        unknown=_read(folder / "unknown_errors.yaml", UnknownErrors),
        steps=_read(folder / "next_steps.yaml", NextSteps),
    )
    places: dict[str, Path] = {}
    for file in sorted(folder.glob("rules/*.yaml")):
        for rule in _read(file, Rules).rules:
            if rule.id in places:
                raise BadInput(f"{file}: duplicate rule '{rule.id}', which is in {places[rule.id]}, too")
            if not (rule.any or rule.exception):
                raise BadInput(f"{file}: rule '{rule.id}' needs 'any' or 'exception'")
            if (rule.frames or rule.raised_in or rule.innermost) and not rule.exception:
                raise BadInput(f"{file}: rule '{rule.id}': 'frames', 'raised_in' and 'innermost' need 'exception'")
            places[rule.id] = file
            files.rules.append(rule)
    for rule in files.rules:
        if unknown := [cause for cause in rule.effect_of if cause not in places]:
            raise BadInput(f"{places[rule.id]}: rule '{rule.id}': 'effect_of' names no rule: {', '.join(unknown)}")
    for text in _expressions(files):
        try:
            pattern(text)
        except re.error as error:
            raise BadInput(f"{folder}: '{text}' is not a regular expression: {error}") from None
    return files


def _read(file: Path, kind: type[T]) -> T:
    try:
        return convert(parse(file.read_bytes(), str(file)), kind, str(file))
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}") from None


def _expressions(files: Files) -> Iterator[str]:
    yield files.reading.libraries
    yield from (*files.reading.shown.values(), *files.reading.set.values())
    for boundary in files.reading.boundaries:
        yield from (boundary.frames, boundary.says, boundary.operation)
    for stage in files.reading.stages:
        yield from (stage.frames, stage.inside, stage.says)
    yield from (mark.regex for mark in files.reading.marks)
    for rule in files.rules:
        yield from (rule.regex, rule.exception, rule.frames, rule.raised_in, rule.innermost)
        for case in rule.cases:
            yield from (case.evidence, case.code, case.frames)
    yield from (judgement.evidence for judgement in files.unknown.judgements)
    steps = files.steps
    listed: list[Sequence[FollowUp]] = [files.sentences, steps.kinds, *steps.follow_ups.values()]
    yield from (text for several in listed for each in several for text in (each.evidence, each.code))
