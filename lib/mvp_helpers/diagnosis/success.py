"""What proves that the last run in a log succeeded, and what contradicts it.

Pass is what was proven: the run's own report of its end, every step up to it with its metrics, all of them finite, and nothing
that speaks against it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from ..trainers.log_patterns import TRAINERS, VERL
from . import log_lines
from .log_lines import ByWords
from .signatures import Signatures
from .step_record import StepRecord

TAIL = 1 << 16
"""Bytes at the end of a log that are kept."""
BROKEN_OFF = "Error executing job with overrides"
"""Hydra prints this before a job's last exception."""
# How programs report a bad end, whatever else the log contains.
_BAD_END = re.compile(
    rb"(?i)(?:exit(?:ed|ing|s)?(?: with)?(?: non-zero)?(?: exit)?[ _-]?(?:code|status)|return(?:ed|s)?[ -]?code|\brc)"
    rb"[ :=]+(?!0\b)-?\d+"
    rb"|^make: \*\*\* |Job failed\b|status: FAILED|\bJob '.*' failed|^\++ exit (?!0\b)\d|^timeout: sending signal"
    rb"|\bCANCELLED AT\b|^##\[error\]|^" + BROKEN_OFF.encode()
)
_NEXT_STEP = re.compile(rb" step:(\d{1,12}) - ")
_UNDER_WAY = re.compile(VERL.under_way.encode())
_BEGINNING = 400
"""Bytes of a line in which its step is looked for."""
_ZERO_NORM = re.compile(rb"norm:0(?:\.0)?(?:\s|$)")
_DIGITS = b"0123456789.+-eE" + bytes(range(128, 256))
"""What numbers (1.5e-07) and progress bars consist of."""
_UNUSUAL = re.compile(
    rb"(?i)nan|[:=(\[](?:inf|non|null)|[:=(\[]\s+(?:inf(?:inity)?|non|null)(?![a-z_/])"
    rb"|rror|['\"]|norm:np|%\||loss.* val|grad_norm.* val| val.*(?:loss|grad_norm)"
)
"""What makes a line of metrics more than a report of a step, in a line without ``_DIGITS`` ("non" is "none")."""
FLAT = (
    "the rewards and some answers (./scripts/58_samples.sh {id} --worst 5): equal rewards within every group give no gradient; "
    "then the learning rate, and which parameters are trained"
)
"""What to look at when nothing was updated."""
MOST_ORDINARY = 256
"""At most this many kinds of ordinary lines are remembered."""
_PLACE = b"::"
"""The rest of a line's number and offset, ``12:345:``, without ``_DIGITS``."""
_PERCENT = re.compile(VERL.percent.encode())
_CHECK_ROW = re.compile(r"^\W*PASS\W+\S.*[│|]")
_CHECK_VALUE = re.compile(r"[│|]\s*['\"]?[+-]?(?:nan|inf(?:inity)?|none|n/a)['\"]?\s*[│|]", re.IGNORECASE)
_TABLE_ENDS = re.compile(r"^\W*[└+╰][─-]{3}")
_CLAIM = r"(?i)learning[- ]signal (?:passed|ok)|rewards? (?:rose|improved|increased|(?:is|are) (?:rising|improving))"
_CLAIM_WORDS = (
    *("earning-signal", "earning signal", "eward is ", "ewards are "),
    *(f"eward{plural} {verb}" for plural in ("", "s") for verb in ("rose", "improved", "increased")),
)
WORDS = (
    *{word for lines in TRAINERS.values() for word in (*lines.resumed_words, *lines.mention_words)},
    *{word for lines in TRAINERS.values() for kind in lines.ended_well for word in kind.words},
    *("Metric Checks", "PASS ", "└─", *_CLAIM_WORDS),
)
"""Lines that prove or contradict a success contain one of these, except lines of metrics."""

_SAID = ByWords(
    ((what, re.compile(pattern)), words)
    for what, pattern, words in (
        *(("furthest", lines.mentions, lines.mention_words) for lines in TRAINERS.values()),
        *(("after", lines.position, lines.mention_words) for lines in TRAINERS.values()),
        *(("after", lines.resumed, lines.resumed_words) for lines in TRAINERS.values()),
        *(("before", lines.goes_on, lines.mention_words) for lines in TRAINERS.values()),
        *(("end", kind.pattern, kind.words) for lines in TRAINERS.values() for kind in lines.ended_well),
        ("claim", _CLAIM, _CLAIM_WORDS),
    )
    if pattern
)
"""What lines say of a run: the furthest step, the one before or after which it goes on, its end; and their patterns."""


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """Why a log that reports success does not pass."""

    verdict: Literal["Fail", "Unknown"]
    rule: str = ""
    evidence: str
    advice: str
    next: str = ""
    """What to look at, if not simply at the complete log."""


class Success:
    """Collects what proves the success of the last run in a log, and what contradicts it, while the log is read."""

    def __init__(self) -> None:
        self.record = StepRecord()
        self._tail = b""
        self._tests = ""
        self._checks = 0
        self._table = False
        self._bad_check = ""
        self._ordinary: dict[bytes, bool] = {}
        """Lines of metrics without their numbers, and whether such a line shows that its step was trained."""

    def read(self, lines: bytes) -> None:
        """Read the next complete lines of the log."""
        self._tail = lines[-TAIL:] if len(lines) >= TAIL else (self._tail + lines)[-TAIL:]

    def next_step(self, raw: bytes) -> int | None:
        """Add a line with nothing but a later step, of a run in training; return that step, None for any other line.

        These lines are the most frequent ones. The letters of a line decide most of it, and they are the same in every step.
        """
        if b"step:" not in raw:
            bar = _UNDER_WAY.fullmatch(raw) if b"%|" in raw else None
            if bar is None:
                return None
            step = int(bar["step"])
            self.record.furthest = max(self.record.furthest, step)
            return step
        if not _NEXT_STEP.search(raw, 0, _BEGINNING):
            return None
        letters = _PLACE + raw.removesuffix(b"\n").translate(None, _DIGITS)
        trained = self._ordinary.get(letters)
        if trained is None:
            if _UNUSUAL.search(letters, len(_PLACE)) or letters.count(b" stp:") > 1:
                return None
            trained = b"loss" in raw or b"grad_norm" in raw
            if len(self._ordinary) >= MOST_ORDINARY:
                self._ordinary.clear()
            self._ordinary[letters] = trained
        return self._add_ordinary(raw, [trained])

    def next_steps(self, lines: bytes) -> tuple[int, int | None]:
        """Add the lines up to the first one that may be more than lines which ``next_step`` has added.

        ``lines`` are like ``12:345:line``, by number and offset. Return how many bytes were added, and the last step in them.
        """
        first = lines[: lines.find(b"\n") + 1 or len(lines)].translate(None, _DIGITS)
        kind = self._ordinary.get(first.removesuffix(b"\n"))
        if kind is None:
            return 0, None
        letters = lines.translate(None, _DIGITS)
        count = len(letters) // len(first)
        if letters == first * count:  # as most often
            kinds: list[bool | None] = [kind] * count
        else:
            kinds = list(map(self._ordinary.get, letters.removesuffix(b"\n").split(b"\n")))
        if None in kinds:
            kinds = kinds[: kinds.index(None)]
            lines = lines[: len(lines) - len(lines.split(b"\n", len(kinds))[-1])]
        step = self._add_ordinary(lines, kinds)
        return (0 if step is None else len(lines)), step

    def _add_ordinary(self, lines: bytes, trained: Sequence[bool | None]) -> int | None:
        """Add lines with ordinary letters, and return their last step; None, and add none, where each needs a look of its own.

        ``trained``: whether each line shows that its step was trained.
        """
        record = self.record
        may_be_flat = any(trained) and len(record.rewards) < 2 and b"/mean:" in lines
        if may_be_flat and not (len(trained) == 1 and self._same_reward(lines)):
            return None
        steps = list(map(int, _NEXT_STEP.findall(lines)))
        if len(steps) != len(trained) or _ZERO_NORM.search(lines):
            return None
        if of_training := list(itertools.compress(steps, trained)):
            series = record.series.get("verl")
            if series is None or not series.add_next(of_training):
                return None
            record.steps += len(of_training)
        last = max(steps)
        record.furthest = max(record.furthest, last)
        return last

    def _same_reward(self, raw: bytes) -> bool:
        """Return whether the line's reward is the one that all lines before had."""
        at = raw.find(b"critic/score/mean:")
        return at >= 0 and self.record.rewards == {raw[at + 18 : raw.find(b" ", at)].decode(errors="replace")}

    def another_run(self) -> None:
        """Forget the previous run."""
        self.record, self._tests, self._checks, self._table = StepRecord(), "", 0, False

    def take(self, text: str) -> int | None:
        """Read a line that contains one of the words; return the step that it shows as done, None if it shows none."""
        record = self.record
        for what, pattern in _SAID.of(text.encode()):
            if what == "end":
                record.ended_well |= bool(pattern.search(text))
            elif what == "claim":
                record.claims_learning |= bool(pattern.search(text))
            elif what == "furthest":
                record.furthest = max(record.furthest, *_numbers(pattern, text), 0)
            else:
                record.resumed.update(step - (what == "before") for step in _numbers(pattern, text))
        self._check(text)
        return record.take(text)

    def _check(self, text: str) -> None:
        """Read a line of the table that NeMo-RL's check_metrics prints."""
        if "Metric Checks" in text:
            self._table, self._checks = True, 0
        elif self._table and _CHECK_ROW.search(text):
            self._checks += 1
            self._bad_check = self._bad_check or (text.strip() if _CHECK_VALUE.search(text) else "")
        elif self._table and _TABLE_ENDS.search(text):
            self._table = False

    def end(self, trainer: str, match: re.Match[str]) -> None:
        """Note the line that reports the end of a trainer's run, or of tests (trainer "")."""
        if trainer:
            self.record.ends[trainer] = match
        else:
            self._tests = match[0].strip(" =")

    @property
    def known(self) -> str:
        """Return what the log shows of the steps; "" if it has no metrics."""
        record = self.record
        shown = [series for series in record.series.values() if series.first is not None]
        return f"{', '.join(series.words() for series in shown)} logged, all finite" if shown and not record.not_finite else ""

    @property
    def proven(self) -> str:
        """Return what the log proves, without what may contradict it; "" if it reports no end."""
        if self.record.ends:
            return f"{self.known}; the log reports that the run reached its end" if self.known else "the log reports the end"
        if self._tests:
            return self._tests
        return f"{self._checks} metric checks passed" if self._checks and not self._table else ""

    def not_finite(self) -> Doubt | None:
        """Return what a number that is not finite means; None without one."""
        evidence = self.record.not_finite or self._bad_check
        advice = "The run cannot pass: later steps learn nothing."
        return Doubt(verdict="Fail", rule="not-finite", evidence=evidence, advice=advice) if evidence else None

    def doubt(self, signatures: Signatures, ended: bool) -> Doubt | None:
        """Return what contradicts success, None if nothing does; ``ended``: the log reports that the run reached its end."""
        if spoilt := self.not_finite():
            return spoilt
        bad_ends = [line for line in self._tail.splitlines() if _BAD_END.search(line)]
        if bad_ends:
            return _not_a_pass(
                bad_ends[-1].decode(errors="replace").strip()[:300],
                "the log reports that the run reached its end, and also that it ended badly",
            )
        percents = _PERCENT.findall(self._tail)
        if percents and int(percents[-1]) < 100:
            return _not_a_pass(
                f"Training Progress: {int(percents[-1])}% is the last progress", "the last run in the log did not reach its end"
            )
        if self._table:
            return _not_a_pass("the table of metric checks is incomplete", "the log stops within it")
        if self.record.ends and (gap := self._gap()):
            return _not_a_pass(gap, "the log reports the end of the run, but does not show every step before it")
        if contradiction := self._nothing_learned():
            return _not_a_pass(contradiction, "the run reached its end without changing what it trains", FLAT)
        failure = self._later_failure(signatures) if ended else ""
        return _not_a_pass(failure, "after its end the log reports that something could not start") if failure else None

    def _gap(self) -> str:
        """Return which steps of the trainer that reports its end are missing; "" if none are."""
        gaps = [self._gap_of(trainer, match) for trainer, match in self.record.ends.items()]
        return "" if "" in gaps else gaps[0]

    def _gap_of(self, trainer: str, end: re.Match[str]) -> str:
        record = self.record
        series = record.series.get(trainer)
        if trainer == "deepspeed" and series is None:  # its launcher starts other trainers, too
            series = next(iter(record.series.values()), None)
        if series is None or series.first is None:
            return "no training step with its metrics is in the log"
        first = series.first
        if first > max(1, series.usual * 1.5) and not any(first - series.usual <= step < first for step in record.resumed):
            return f"{series.words()}: nothing shows why the metrics do not begin with step 1"
        if missing := series.missing():
            return missing
        groups = end.groupdict()
        last = float(groups["last"]) if groups.get("last") else float(groups["epoch"]) if groups.get("epoch") else series.total
        wanted = max(last or 0, record.furthest if trainer in _MENTIONING else 0)
        if groups.get("last") and last is not None and series.last > last:
            return f"the end reports {last:g} steps, but step {series.last:g} is logged"
        between = max(series.average, 0.02) if groups.get("epoch") else max(series.usual, 1)
        if wanted and round(wanted - series.last, 6) >= between:
            return f"the last step with metrics is {series.last:g} of {wanted:g}"
        return ""

    def _nothing_learned(self) -> str:
        record = self.record
        for name, zeros in record.zero_gradients.items():
            if zeros * 2 > record.steps and record.steps:
                return f"{name} is zero in {zeros} of {record.steps} steps: nothing was updated"
        if record.claims_learning and len(record.rewards) == 1 and record.steps > 1:
            return f"the log claims learning, but the reward is {next(iter(record.rewards))} in all steps"
        return ""

    def _later_failure(self, signatures: Signatures) -> str:
        """Return the first error after the run's end that only occurs at a start; "" without one."""
        rules_of_start = [rule for rule in signatures.rules if rule.phase == ["start"]]
        early = msgspec.structs.replace(signatures, rules=rules_of_start)
        ends = [mark.pattern for mark in signatures.all_marks() if mark.phase == "done"]
        failure = ""
        for raw in reversed(self._tail.split(b"\n")):
            line = log_lines.clean(raw, 0)
            if any(end.search(line.text) or end.search(log_lines.plain(raw)) for end in ends):
                break
            if hit := early.of_line(line, "start"):
                failure = hit.evidence[:300]
        return failure


_MENTIONING = frozenset(name for name, lines in TRAINERS.items() if lines.mentions)


def _numbers(pattern: re.Pattern[str], text: str) -> list[int]:
    """Return the groups that match, of every match of ``pattern``."""
    return [int(group) for match in pattern.finditer(text) for group in match.groups() if group]


def _not_a_pass(evidence: str, reason: str, next: str = "") -> Doubt:
    return Doubt(verdict="Unknown", evidence=evidence, advice=f"Not a pass: {reason}.", next=next)
