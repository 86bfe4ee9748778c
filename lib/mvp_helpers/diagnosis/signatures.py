"""Failure signatures: what ``templates/signatures/`` says of a line, an exception, and an error that no rule knows."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..log_text import log_lines
from ..log_text.exceptions import Chain, Frame, Link
from ..log_text.log_lines import ByWords, Line
from ..log_text.tracebacks import IMPORTS
from . import signature_files
from .phases import PHASES, Mark, Phase, later, trainer_marks
from .signature_files import FOLDER, Files, FollowUp, Judgement, Rule, Stage, pattern


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


T = TypeVar("T")


class Signatures(Files, frozen=True, kw_only=True, dict=True):
    """What they say of a line, an exception, or an error that no rule knows."""

    def effect_of(self, effect: str, cause: str) -> bool:
        """Return whether the rule ``effect`` can be an effect of what the rule ``cause`` knows."""
        return any(rule.id == effect and cause in rule.effect_of for rule in self.rules)

    def all_marks(self) -> list[Mark]:
        """Return the file's marks and those of every known trainer, in the order of the phases."""
        return sorted([*self.reading.marks, *trainer_marks()], key=lambda mark: PHASES.index(mark.phase))

    def judgement(self, evidence: str, boundary: str, phase: str, file: str, raised: str) -> Judgement | None:
        """Return the first judgement that fits an error, that of a sentence before any other; None when none fits.

        ``file``: whose code raised it; ``raised``: the call and the line of code, each on a line.
        """
        facts = (evidence, boundary, phase)
        said = (judgement for each in self.sentences for judgement in each.judges(*facts, f"{file}\n{raised}"))
        return next(said, None) or next((each for each in self.unknown.judgements if each.fits(*facts, file)), None)

    @functools.cached_property
    def notices(self) -> list[str]:
        """The words of notices that healthy runs print at their start, too."""
        return [word for rule in self.rules if rule.verdict == "Noise" and rule.boundary == "startup" for word in rule.any]

    def needles(self, *, since: Phase = "start", every: bool = False) -> list[bytes]:
        """Return the words to search for, none within another; a line without any of them is not looked at.

        ``since``: only those of rules of this phase or a later one; ``every``: also the words that ``errors`` make unnecessary.
        """
        rules = [rule for rule in self.rules if any(not later(since, phase) for phase in rule.phase)]
        wanted = {*self.reading.errors, *(word for rule in rules for word in (rule.any if every else rule.search))}
        return [word.encode() for word in sorted(wanted) if not any(other != word and other in word for other in wanted)]

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` makes of them, the first time; to prepare a search takes longer than to read a short log."""
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    @functools.cached_property
    def _made(self) -> dict[Hashable, Any]:
        return {}

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
            if rule.boundary == "startup" and link.frames:
                continue  # what a start prints as a notice may be the reason of an exception
            hit = self._of_exception(rule, link, phase)
            for line in [] if rule.exception else link.rest:
                if hit is None and (rule.level == "any" or not line.quiet):
                    hit = _fit(rule, line.text, phase, line.number, link)
                    if hit and not link.frames:  # the line says what a program's own words above it only announce
                        hit = msgspec.structs.replace(hit, evidence=line.text.strip())
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
        said = "\n".join([link.text, *(line.text for line in link.rest)])
        if rule.unless_said and self.a_sentence_knows(link, culprit) and not _in_cases(rule, said):
            return None
        return _fit(rule, said, phase, link.number, link)

    def a_sentence_knows(self, link: Link, culprit: Frame | None) -> bool:
        """Return whether a sentence that says more than a general one fits the exception."""
        code = f"{culprit.file}\n{call(link.frames[-1])}\n{culprit.code}" if culprit else ""
        return self.once(
            ("said", link.headline, code),
            lambda: any(
                pattern(each.evidence).search(link.headline) and pattern(each.code).search(code)
                for each in self.sentences
                if not each.general
            ),
        )

    def _effect(self, link: Link, phase: Phase) -> bool:
        return any(self._of_exception(rule, link, phase) for rule in self.rules if rule.secondary)

    def culprit(self, frames: Iterable[Frame]) -> Frame | None:
        """Return the innermost frame outside of libraries, or outside of torch, or of all; None without frames."""
        frames = list(frames)
        every = [frame for frame in frames if frame.line] or frames  # a path that the end of a line cut off has none
        own = self.outside(every)
        own = own or [frame for frame in every if "/torch/" not in frame.file] or every
        return own[-1] if own else None

    def outside(self, frames: Iterable[Frame]) -> list[Frame]:
        """Return the frames outside of libraries."""
        return [frame for frame in frames if not pattern(self.reading.libraries).search(frame.file)]

    def of_import(self, frames: Sequence[Frame]) -> bool:
        """Return whether code outside of packages imported one that is not under test, and that raised meanwhile."""
        outside = [at for at, frame in enumerate(frames) if not _PACKAGED.search(call(frame))]
        at = outside[-1] if outside else len(frames) - 1
        inner = frames[at + 1 :]
        return bool(inner and IMPORTS.match(frames[at].code)) and not any(_TESTED.search(call(frame)) for frame in inner)

    def boundary(self, frames: Iterable[Frame], says: str = "", carriers: str = "") -> str:
        """Return the boundary of the innermost frame that has one, else that of the text ``says``, else "unknown".

        ``carriers``: what carried the exception from another process; the methods called there are operations, too.
        """
        frames = list(frames)
        while len(frames) > 1 and _LOOKED_UP.search(call(frames[-1])):
            frames.pop()  # the code that asks for what an object does not have shows more
        calls = [call(frame) for frame in frames]
        if frames and _IMPORTED.search(calls[-1]):
            return "dependency"
        operations = [*calls, *(f"ray:{method}" for method in _REMOTE_METHOD.findall(carriers))]
        by_call = (each for call in reversed(calls) for each in self.reading.boundaries if pattern(each.frames).search(call))
        inner = next(by_call, None)
        if inner is None or inner.layer:
            for each in self.reading.boundaries:
                if each.operation and any(pattern(each.operation).search(call) for call in operations):
                    return each.boundary
        if inner:
            return inner.boundary
        text = f"{says} {carriers}"
        by_text = (each.boundary for each in self.reading.boundaries if each.says and pattern(each.says).search(text))
        return next(by_text, "unknown")

    def follow_up(self, boundary: str, evidence: str = "", code: str = "") -> FollowUp | None:
        """Return what to run next after an error in ``boundary`` that the file ``code`` raised; None if nothing follows."""
        own = self.steps.follow_ups.get(boundary, [])
        known = [*self.sentences, *(each for each in own if each.evidence), *self.steps.kinds, *own]
        fitting = (each for each in known if pattern(each.evidence).search(evidence) and pattern(each.code).search(code))
        return next(fitting, None)

    def stage(self, chain: Chain) -> Phase | None:
        """Return the phase of the first stage that fits a function in the chain, or its text; None when none fits."""
        # A module that is only imported shows nothing.
        calls = [call(frame) for link in chain.links for frame in link.frames if frame.name != "<module>"]
        calls += [chain.header, *(link.text for link in chain.links if link.wrapper)]
        said = " ".join(link.text for link in chain.causes())
        return next((stage.phase for stage in self.reading.stages if _is_in(stage, calls, said)), None)

    def stage_said(self, text: str) -> Phase | None:
        """Return the phase of the first stage that fits an error's text; None when none fits."""
        return next((stage.phase for stage in self.reading.stages if _is_in(stage, (), text)), None)


_TESTED = re.compile(r"^-packages/(verl|nemo_rl|megatron)/")
_PACKAGED = re.compile(r"^-packages/|^<frozen\b")
_IMPORTED = re.compile(
    rf"(?!{_TESTED.pattern})^-packages/(?!.*/(cli/|__main__\.py|main_\w+\.py)).*:<module>$|^<frozen importlib\b"
)
"""A module of another package, not a program, that raised while it was imported, or one that Python did not find or load."""
_LOOKED_UP = re.compile(r"-packages/.*:__getattr(ibute)?__$")
_REMOTE_METHOD = re.compile(r"\bray::[\w.:-]*?(\w+)\(")
_INSTALLED = re.compile(r"^.*(?=-packages/)|^.*/(?=lib/python3\.\d+/(?!site-packages/))")


def call(frame: Frame) -> str:
    """Return ``file:function``; ignore where a package or Python is installed, e.g. an environment's name."""
    return f"{_INSTALLED.sub('', frame.file)}:{frame.name}"


def _in_cases(rule: Rule, said: str) -> bool:
    """Return whether the words of one of the rule's cases are in what an exception said."""
    return any(case.evidence and pattern(case.evidence).search(said) for case in rule.cases)


def _is_in(stage: Stage, calls: Iterable[str], said: str) -> bool:
    """Return whether a run whose error says ``said``, raised in ``calls``, is in ``stage``."""
    calls = list(calls)
    by_frames = stage.frames and all(
        any(pattern(expression).search(call) for call in calls) for expression in (stage.frames, stage.inside)
    )
    return bool(by_frames or (stage.says and pattern(stage.says).search(said)))


def _fit(rule: Rule, text: str, phase: Phase, number: int, link: Link | None, remark: bool = False) -> Hit | None:
    if phase not in rule.phase or (rule.any and not log_lines.has_any(text, rule.any)):
        return None
    match = pattern(rule.regex).search(text)
    if match is None:
        return None
    evidence = link.headline if link else text.strip()
    groups = {key: value for key, value in match.groupdict().items() if value}
    return Hit(rule, number, evidence, link, groups, remark)


def load(folder: Path = FOLDER) -> Signatures:
    """Return the signatures in ``folder``. Raises BadInput if one of its files has a mistake."""
    return Signatures(**msgspec.structs.asdict(signature_files.read(folder)))
