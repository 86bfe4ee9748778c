"""The steps that a run logged: which ones, whether their numbers are finite, whether anything was updated.

Pure over lines of text. A ``StepRecord`` holds one run; a step that comes again means that another run began in the same log.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..trainers.metric_names import VERL as NAMES
from ..trainers.patterns.lines import StepLine
from ..trainers.patterns.of_scripts import SCRIPTS
from ..trainers.patterns.of_trainers import TRAINERS
from .log_lines import ByWords
from .losses import Losses
from .series import Series

_BAD = re.compile(r"nan|inf|none|null|#ind|#[qs]nan|∞|n/?a\b|\bnil\b|undefined|\d[eE]\+?\d{3}", re.IGNORECASE)
_NOT_FINITE = re.compile(
    r"""(?P<name>[A-Za-z_][\w@./ -]*?)["']?\s*(?:[:=]|(?:\||(?<=loss)(?=\s))(?=\s*[+-]?(?:nan|inf)\b))\s*"""
    r"""(?:[^\[\](){}:=]{0,20}[\[(]{1,3}(?:[^\[\](){}:=]{0,200}?[\s,])?)?["'\[({<`*|]{0,3}(?:(?:np\.|numpy\.)?\w+\()?["']?"""
    r"""(?P<value>[+-]?(?:(?:[a-z]\w*)?\.)?(?:nan|inf(?:inity)?|none|null)(?!\w|\.\w)"""
    r"""|[+-]?(?:∞|\d+\.?#(?:inf|ind|[qs]nan)\b|(?P<large>\d[\d.]*e\+?\d{3,4})(?!\w))|(?P<missing>n/?a|nil|undefined)(?!\w))""",
    re.IGNORECASE,
)
"""A metric whose value is not a number, in every spelling: nan, -Infinity, tensor(nan), [1.0, nan], 1.#INF, 1e999, None, N/A."""
_MISSING = re.compile(r"(?i)loss|grad|reward|score|entropy|\bkl")
"""Metrics of which N/A means more than that something was not measured."""
_RATE = re.compile(r"\blearning_rate['\"]: '?(\d{1,9}(?:\.\d{0,20})?(?:e[+-]?\d{1,3})?)")
_LOST = re.compile(r"number of nan iterations: +[1-9]\d*")
_SKIPPED = re.compile(r"(?:skipped iterations: +|skipped=)(\d{1,12})")
_ZERO_GRADIENT = re.compile(
    r"""grad[ _]?norm["']?\s*[:=]\s*(?:[\w.]+\()?["'\[]{0,2}"""
    r"""[-+]?(?:(?:0+(?:[.,]0*)?|\.0+)(?:e[+-]?\d+)?(?![\d.]|,\d)|[\d.]+e-(?:[4-9]\d|\d{3})|zero\b)""",
    re.IGNORECASE,
)
"""A gradient of zero, or of less than a 32-bit number can be."""
_REWARD = re.compile(
    r"(?:critic/(?:score|rewards)/mean|['\"]reward['\"]|Avg (?:Total )?Reward)[:\s'\"]+(-?[\d.]+(?:[eE][+-]?\d+)?)"
)
_BAR = re.compile(r"%\|[^|\r\n]*\| *(?P<now>\d{1,12})/(?P<total>\d{1,12}) \[")
MANY = 3
"""A bar of fewer things may agree with a step by chance."""
_FINITE = re.compile(NAMES.finite)
_OF_ANSWERS = re.compile(r"^predict_(?!.*loss)")
"""A metric of transformers' prediction, after which nothing is trained."""


_ORDER = list(SCRIPTS)
_CAN_BE_BEFORE = {name: frozenset(_ORDER[_ORDER.index(name) :] if name in SCRIPTS else TRAINERS) for name in TRAINERS}
"""By trainer: those whose lines may come before, so that its own still count."""


@dataclass
class StepRecord:
    """What the lines of metrics of one run show."""

    series: dict[str, Series] = field(default_factory=dict)
    """By trainer."""
    begun: dict[str, int] = field(default_factory=dict)
    """The step that has begun, of trainers whose metrics do not name it."""
    before: dict[str, int] = field(default_factory=dict)
    """The steps of earlier epochs, of trainers whose steps begin with 1 in each."""
    heading: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The epoch that the last heading names, and of how many (0: not said), of trainers whose steps do not name theirs."""
    ends: dict[str, re.Match[str]] = field(default_factory=dict)
    """By trainer: the line that reports the end of its run."""
    ends_of_parts: bool = False
    """Steps are logged between two such lines."""
    ended_well: bool = False
    epochs_stated: set[int] = field(default_factory=set)
    """The numbers of epochs that the log says there are to be."""
    steps_stated: set[int] = field(default_factory=set)
    """The numbers of steps."""
    intervals: set[int] = field(default_factory=set)
    """Of how many steps one is logged, as the run's options say."""
    furthest: int = 0
    """The last step that any line mentions."""
    resumed: set[int] = field(default_factory=set)
    """Steps after which the run went on."""
    not_finite: str = ""
    zero_gradients: Counter[str] = field(default_factory=Counter)
    doubtful: str = ""
    """The first line that speaks against a run without faults."""
    skipped: int = 0
    """Updates that the optimizer skipped."""
    steps: int = 0
    by_step: Losses = field(default_factory=Losses)
    """The losses of its steps."""
    losses: bool = False
    """A line, of the script perhaps, shows a loss."""
    no_number: str = ""
    """The first line after a step in which a loss is None, null, nan or inf; a metric of answers that is not finite."""
    rewards: set[str] = field(default_factory=set)
    """At most two different rewards."""
    claims_learning: bool = False
    _zero_at: dict[str, float | None] = field(default_factory=dict)
    """By gradient: the last step in which it was zero."""
    _steps_at_end: int = 0

    @property
    def trained(self) -> dict[str, Series]:
        """Return the steps by trainer, of those that count: what a script prints itself only if no other trainer logged any."""
        shown = {name: series for name, series in self.series.items() if series.first is not None}
        others = {name: series for name, series in shown.items() if name not in SCRIPTS}
        return others or next(({name: shown[name]} for name in SCRIPTS if name in shown), {})

    def end(self, trainer: str, match: re.Match[str]) -> None:
        """Note the line that reports the end of a trainer's run."""
        earlier = self.ends.get(trainer)
        went_on = self.steps > self._steps_at_end
        self.ends_of_parts |= earlier is not None and went_on
        if went_on or not (earlier and earlier.groupdict().get("early")):  # else the same end, in more words
            self.ends[trainer] = match
        self._steps_at_end = self.steps

    def restarts(self, text: str) -> bool:
        """Return whether the line belongs to another run than this one."""
        before = self.trained.keys()
        for trainer, kind in _kinds_in(text):
            if before - _CAN_BE_BEFORE[trainer]:
                continue
            series = self.series.get(trainer)
            for match in re.finditer(kind.pattern, text):
                if series and (epoch := match.groupdict().get("heading")):
                    if series.epochs.now is not None and int(epoch) <= series.epochs.now:
                        return True
                    continue
                if _earlier_epoch(match, series):
                    return True
                step = self._step(trainer, match)
                begun, last = match.groupdict().get("begun"), self.begun.get(trainer)
                if begun and last is not None and int(begun) + self.before.get(trainer, 0) <= last:
                    return True
                if series is None or step is None or not _trained(kind, match):
                    continue
                if step == series.last and TRAINERS[trainer].redrawn:
                    continue
                if series.restarts(step) or (trainer in self.ends and step < series.last):
                    return True
        return False

    def take(self, text: str) -> int | None:
        """Add a line, and return the step that it shows as done; None if it is not a line of metrics."""
        done, before_it = None, self.trained.keys()
        for trainer, kind in _kinds_in(text):
            if before_it - _CAN_BE_BEFORE[trainer]:
                continue
            for match in re.finditer(kind.pattern, text):
                groups = match.groupdict()
                if groups.get("heading"):
                    self.heading[trainer] = int(groups["heading"]), int(groups.get("headings") or 0)
                    continue
                if groups.get("epoch_begun"):
                    done_before = self.series[trainer].last if trainer in self.series else 0
                    self.before[trainer] = int(done_before) if int(groups["epoch_begun"]) > 1 else 0
                    continue
                if groups.get("begun"):
                    before = self.before.get(trainer, 0)
                    self.begun[trainer] = before + int(groups["begun"])
                    if not before:  # which step of a later epoch is the last one, no line says
                        self._series(trainer).total = int(groups["total"] or 0)
                    continue
                values = groups.get("metrics") or groups.get("note") or ""
                step = self._step(trainer, match)
                if step is None:
                    step = self.begun.get(trainer)
                rounded = bool(groups.get("epoch"))  # of several lines with the same epoch each is another step
                self._numbers(values, step, rounded)
                if step is None or groups.get("note") or not _trained(kind, match):
                    continue
                series = self._series(trainer)
                if rounded or series.first is None or step != series.last:  # several lines may report one step
                    self.steps += 1
                    self.by_step.add(values)
                total = int(groups.get("total") or 0) or (
                    _total_of_bar(match, series) if trainer in SCRIPTS and groups.get("step") else 0
                )
                if epoch := self._epoch(trainer, groups):
                    series.epochs.enter(series, epoch[0], int(groups["step"]), total)
                    series.epochs.total = epoch[1]
                begins = series.first is None
                series.add(step)
                before_it = self.trained.keys() if begins else before_it
                if rounded and (rate := _RATE.search(values)):
                    series.rates.add(step, rate[1])
                if total:
                    series.total = total * (int(groups["round"]) + 1 if groups.get("round") else 1)
                done = int(step) if groups.get("step") or trainer in SCRIPTS else done
        return done

    def _step(self, trainer: str, match: re.Match[str]) -> float | None:
        groups = match.groupdict()
        if groups.get("epoch"):
            return float(groups["epoch"])
        if groups.get("step") is None:
            return None
        step, total = int(groups["step"]), int(groups.get("total") or 0)
        if epoch := self._epoch(trainer, groups):
            series = self.series.get(trainer) or Series()
            return series.epochs.place(series, epoch[0], step, total)
        return step + int(groups.get("round") or 0) * total

    def _epoch(self, trainer: str, groups: Mapping[str, str | None]) -> tuple[int, int] | None:
        """Return the epoch of a line's step, and of how many (0: not said), by the line or the last heading; None without one."""
        if groups.get("in_epoch"):
            return int(groups["in_epoch"] or 0), int(groups.get("epochs") or 0)
        return self.heading.get(trainer)

    def _series(self, trainer: str) -> Series:
        if trainer not in SCRIPTS and self.series.keys() & set(SCRIPTS):
            self.steps = 0
            for name in SCRIPTS:
                self.series.pop(name, None)
        return self.series.setdefault(trainer, Series(every_step=TRAINERS[trainer].every_step))

    def _numbers(self, values: str, step: float | None, rounded: bool) -> None:
        where = f" at {'epoch' if rounded else 'step'} {step:g}" if step is not None else ""
        if not values.isascii():
            values = unicodedata.normalize("NFKC", values)
        if not self.not_finite and _BAD.search(values):
            for match in _NOT_FINITE.finditer(values):
                if _OF_ANSWERS.search(match["name"].strip()):
                    self.no_number = self.no_number or f"{match['name'].strip()} is {match['value']}"
                elif _counts(match):
                    self.not_finite = f"{match['name'].strip()} is {match['value']}{where}"
                    break
        if "nan iterations" in values and not self.not_finite and (lost := _LOST.search(values)):
            self.not_finite = f"{lost[0]}{where}"
        if "rad" in values or "orm" in values:
            for name in {_name_at(values, match.start()) for match in _ZERO_GRADIENT.finditer(values)}:
                if self._zero_at.get(name) != step or step is None or rounded:  # other processes may log the same step
                    self._zero_at[name] = step
                    self.zero_gradients[name] += 1
        if "skipped" in values and (skipped := _SKIPPED.search(values)):
            self.skipped = int(skipped[1]) + (0 if skipped[0].startswith("skipped=") else self.skipped)
        if len(self.rewards) < 2:
            self.rewards.update(_REWARD.findall(values)[:2])


def shows_step(text: str) -> bool:
    """Return whether a line shows a step with its metrics."""
    record = StepRecord()
    record.take(text)
    return bool(record.trained)


def _total_of_bar(match: re.Match[str], series: Series) -> int:
    """Return how many steps the bar counts that a script's line is written behind; 0 without one that counts them.

    A bar of something else may agree with a step by chance: it has to with every one, or no total is known.
    """
    bars = list(_BAR.finditer(match.string, 0, match.start("step")))
    if not bars:
        return 0
    total = int(bars[-1]["total"])
    if bars[-1]["now"] == match["step"] and total >= MANY and (series.first is None or series.total == total):
        return total
    series.total = None
    return 0


def _counts(match: re.Match[str]) -> bool:
    """Return whether the value spoils the training: numbers of the machine, and of what was not measured, do not."""
    name = match["name"].strip()
    if match["missing"] and not _MISSING.search(name):
        return False
    if match["large"] and math.isfinite(float(match["large"])):
        return False
    return bool(_FINITE.search(name))


def _name_at(values: str, at: int) -> str:
    """Return the metric's name whose last word begins at ``at``; a pattern for all of it would be slow on long lines."""
    return values[max(0, at - 80) : at].replace("'", " ").replace('"', " ").rpartition(" ")[2] + "grad_norm"


def _kinds_in(text: str) -> list[tuple[str, StepLine]]:
    return [each for kinds in _BY_WORDS.of(text.encode()) for each in kinds]


def _earlier_epoch(match: re.Match[str], series: Series | None) -> bool:
    """Return whether a script's line names an earlier epoch than the lines before it, unless its steps go on with the next."""
    groups = match.groupdict()
    epoch, step = groups.get("in_epoch"), groups.get("step")
    if not (epoch and series and series.epochs.now is not None and int(epoch) < series.epochs.now):
        return False
    return not (step and float(step) == series.last - series.epochs.before + series.usual)


def _trained(kind: StepLine, match: re.Match[str]) -> bool:
    return not kind.trained or bool(re.search(kind.trained, match["metrics"] or ""))


def _kinds() -> dict[str, list[tuple[str, StepLine]]]:
    kinds: dict[str, list[tuple[str, StepLine]]] = {}
    for trainer, lines in TRAINERS.items():
        for kind in lines.logged:
            kinds.setdefault(kind.word, []).append((trainer, kind))
    return kinds


KINDS = _kinds()
"""The trainers' lines of metrics, by the word that each contains."""
_BY_WORDS = ByWords((kinds, [word]) for word, kinds in KINDS.items())
