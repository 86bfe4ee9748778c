"""Failure signatures are data: ``templates/failure_signatures.yaml`` says which words mean which cause, and what to do then."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ..base.documents import convert, parse
from ..base.errors import BadInput
from ..base.project import PROJECT
from .log_lines import Chain, Frame, Line, Link

FILE = PROJECT / "templates" / "failure_signatures.yaml"

Phase = Literal["start", "build", "train", "done"]
PHASES: tuple[Phase, ...] = ("start", "build", "train", "done")
"""Before the model is built; until the first step is done; until the run says that it succeeded; after that."""
Whose = Literal["environment", "user", "unknown"]
Literals = Annotated[list[str], msgspec.Meta(min_length=1)]


class Mark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line that holds one of ``any`` and matches ``regex`` begins ``phase``; the group ``step`` is the step just done.

    After training ``start`` means that another run begins in the same log; its words stand for themselves, without a regex."""

    phase: Phase
    any: Literals
    regex: str = ""

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.regex)


class Boundary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Code whose ``file:function`` matches ``frames`` belongs to ``boundary``; so does one that ``says`` so where none does."""

    boundary: str
    frames: str
    says: str = ""


class Stage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run in a function that matches ``frames`` (``file:function``, or Ray's ``ray::Class.method``) had come to ``phase``."""

    phase: Phase
    frames: str


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One signature. It fits a text that holds one of ``any`` and matches ``regex``, in one of the ``phase``s."""

    id: str
    boundary: str
    whose: Whose
    verdict: Literal["Blocked", "Fail", "by phase", "if built", "Noise"]
    """``by phase``: Blocked before the model is built, Fail afterwards; ``if built``: before that it tells nothing."""
    any: list[str] = []
    search: list[str] = []
    """Words to search for where its lines may hold none of ``errors``."""
    regex: str = ""
    exception: str = ""
    """Fits only exceptions whose class name matches this from its beginning to its end."""
    frames: str = ""
    """… and of which a frame, written ``file:function``, matches this."""
    raised_in: str = ""
    """… and of which the innermost file that is no library's matches this."""
    phase: list[Phase] = msgspec.field(default_factory=lambda: list(PHASES))
    level: Literal["error", "any"] = "error"
    """``any``: also a line that calls itself a warning or information."""
    secondary: bool = False
    """An effect of something else: never wins over another error."""
    kind: bool = False
    """A kind of error rather than a known one: gives way to an unknown exception before it."""
    outlived_by: Literal["steps", "phase", "nothing"] = "steps"
    """What shows that the run went on: two more steps (before training the first one), the next phase, or nothing."""
    advice: str
    next: str

    def verdict_in(self, phase: Phase) -> str:
        if self.verdict in ("by phase", "if built"):
            return "Fail" if phase != "start" else "Blocked" if self.verdict == "by phase" else "Unknown"
        return self.verdict


class Hit(msgspec.Struct, frozen=True):
    """A rule that fits, where, and the named groups of its regex. ``remark``: the line calls itself no error."""

    rule: Rule
    number: int
    evidence: str
    link: Link | None
    groups: dict[str, str]
    remark: bool = False

    @property
    def rank(self) -> int:
        """The lower, the more it explains: known causes, what did not end the run by itself, kinds of errors, effects, noise."""
        if self.rule.verdict == "Noise":
            return 4
        if self.rule.secondary:
            return 3
        return 2 if self.rule.kind else 1 if self.remark or self.rule.outlived_by == "nothing" else 0


class Signatures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. ``errors`` are words of which nearly every line holds one that tells of an error."""

    errors: Literals
    libraries: str
    marks: list[Mark]
    stages: list[Stage]
    boundaries: list[Boundary]
    rules: list[Rule]

    def needles(self, *, since: Phase = "start", every: bool = False) -> list[bytes]:
        """Texts of which a line must hold one to be looked at, none within another.

        ``since``: only for rules of this phase or a later one; ``every``: all their words, also those beside one of ``errors``.
        """
        rules = [rule for rule in self.rules if any(PHASES.index(phase) >= PHASES.index(since) for phase in rule.phase)]
        wanted = {*self.errors, *(word for rule in rules for word in (rule.any if every else rule.search))}
        return [word.encode() for word in sorted(wanted) if not any(other != word and other in word for other in wanted)]

    def of_line(self, line: Line, phase: Phase) -> Hit | None:
        """The best rule for a line that belongs to no traceback."""
        hits = (
            _fit(rule, line.text, phase, line.number, None, remark=line.quiet)
            for rule in self.rules
            if not rule.exception and (rule.level == "any" or not line.quiet)
        )
        return min((hit for hit in hits if hit), key=lambda hit: hit.rank, default=None)

    def of_chain(self, chain: Chain, phase: Phase) -> Hit | None:
        """The best rule for exceptions that belong together: of two that explain equally, the one for what came first."""
        # Of effects that say the same the first rule is the one that says more.
        return min(
            (hit for link in chain.causes() for hit in self._of_link(link, phase)),
            key=lambda hit: (hit.rank, hit.number if hit.rank < 3 else 0),
            default=None,
        )

    def _of_link(self, link: Link, phase: Phase) -> Iterator[Hit]:
        for rule in self.rules:
            if rule.exception:
                if not re.fullmatch(rule.exception, link.class_name):
                    continue
                if rule.frames and not any(re.search(rule.frames, f"{frame.file}:{frame.name}") for frame in link.frames):
                    continue
                culprit = self.culprit(link.frames)
                if rule.raised_in and not (culprit and re.search(rule.raised_in, culprit.file)):
                    continue
                text = "\n".join([link.text, *(line.text for line in link.rest)])
                if hit := _fit(rule, text, phase, link.number, link):
                    yield hit
                continue
            hit = _fit(rule, link.text, phase, link.number, link)
            for line in link.rest:
                if hit is None and (rule.level == "any" or not line.quiet):
                    hit = _fit(rule, line.text, phase, line.number, link)
                    # What follows an exception may tell its cause; an effect there only says more about an effect.
                    if hit and hit.rank > 2 and not self._effect(link, phase):
                        hit = None
            if hit:
                yield hit

    def _effect(self, link: Link, phase: Phase) -> bool:
        own = (_fit(rule, link.text, phase, link.number, link) for rule in self.rules if rule.secondary)
        return any(own)

    def culprit(self, frames: Iterable[Frame]) -> Frame | None:
        """The innermost frame outside of libraries; the innermost of all when they are all libraries'."""
        found = list(frames)
        own = [frame for frame in found if not _pattern(self.libraries).search(frame.file)]
        return own[-1] if own else found[-1] if found else None

    def boundary(self, frames: Iterable[Frame], says: str = "") -> str:
        """Whose code raised, from the innermost frame that tells, else from what it says; "unknown" when neither does."""
        for frame in reversed(list(frames)):
            # Below a package's own folder nothing of where it is installed tells.
            _, installed, file = frame.file.rpartition("-packages/")
            for boundary in self.boundaries:
                if _pattern(boundary.frames).search(f"{installed}{file}:{frame.name}"):
                    return boundary.boundary
        told = (one.boundary for one in self.boundaries if one.says and _pattern(one.says).search(says))
        return next(told, "unknown")

    def stage(self, chain: Chain) -> Phase | None:
        """How far the run was, by the functions it was in; the first stage that fits any of them. None when they do not tell."""
        calls = [f"{frame.file}:{frame.name}" for link in chain.links for frame in link.frames]
        calls += [chain.header, *(link.text for link in chain.links if link.wrapper)]
        return next((one.phase for one in self.stages if any(_pattern(one.frames).search(call) for call in calls)), None)


_pattern = functools.lru_cache(maxsize=None)(re.compile)


def _fit(rule: Rule, text: str, phase: Phase, number: int, link: Link | None, remark: bool = False) -> Hit | None:
    if phase not in rule.phase or (rule.any and not any(word in text for word in rule.any)):
        return None
    match = _pattern(rule.regex).search(text)
    if match is None:
        return None
    evidence = link.headline if link else text.strip()
    groups = {key: value for key, value in match.groupdict().items() if value}
    return Hit(rule, number, evidence, link, groups, remark)


def load(file: Path = FILE) -> Signatures:
    """The signatures in ``file``.

    Raises:
        BadInput: a mistake in the file, e.g. a rule that could never fit, an id that stands twice, or a regex that is none.
    """
    try:
        found = convert(parse(file.read_bytes(), str(file)), Signatures, str(file))
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}") from None
    seen = set()
    for rule in found.rules:
        if rule.id in seen:
            raise BadInput(f"{file}: the rule '{rule.id}' stands twice")
        seen.add(rule.id)
        if not (rule.any or rule.exception):
            raise BadInput(f"{file}: rule '{rule.id}' needs 'any' or 'exception'")
        if (rule.frames or rule.raised_in) and not rule.exception:
            raise BadInput(f"{file}: rule '{rule.id}': only exceptions have frames")
    for text in (
        found.libraries,
        *(text for boundary in found.boundaries for text in (boundary.frames, boundary.says)),
        *(stage.frames for stage in found.stages),
        *(mark.regex for mark in found.marks),
        *(pattern for rule in found.rules for pattern in (rule.regex, rule.exception, rule.frames, rule.raised_in)),
    ):
        try:
            re.compile(text)
        except re.error as error:
            raise BadInput(f"{file}: '{text}' is not a regular expression: {error}") from None
    return found
