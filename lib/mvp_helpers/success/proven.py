"""What proves that the last run in a log succeeded, and what contradicts it.

Pass is what was proven: the run's own report of its end, every step up to it with its metrics, all of them finite, and nothing
that speaks against it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from ..log_text import doubts, log_lines
from ..log_text.log_lines import Line
from ..log_text.step_record import StepRecord
from ..trainers.patterns.of_trainers import VERL
from . import announced, bad_ends, counted, finished, known_reports, missing_steps, only_warnings, said, script_runs
from .metric_checks import MetricChecks

TAIL = 1 << 16
"""Bytes at the beginning and at the end of a log that are kept."""
NOT_FINITE = "not-finite"
FLAT = (
    "some answers, and what the reward function makes of them{job? (./scripts/58_samples.sh {id} --worst 5)}: equal rewards in"
    " every group give no gradient (answers that the length limit cuts off, a parser that finds nothing in them); where they"
    " differ, the learning rate, and which parameters are trained"
)
"""What to look at when nothing was updated."""
UNMOVED = (
    "one weight before and after a step (print its sum): whether the optimizer was given the model's parameters (after they were"
    " wrapped or moved), which of them have requires_grad and a gradient that is not None, the learning rate of that step, and"
    " whether the loss was detached"
)
"""… although the losses do not depend on rewards."""
MANY_STEPS = 20
"""At the beginning of a run with 16 bits an optimizer skips some updates, until it has found a loss scale."""
_PERCENT = re.compile(VERL.percent.encode())


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """Why a log that reports success does not pass."""

    verdict: Literal["Fail", "Unknown"]
    rule: str = ""
    evidence: str
    advice: str
    next: str = ""
    """What to look at, if not simply at the complete log."""
    line: int | None = None


class Success:
    """Collects what proves the success of the last run in a log, and what contradicts it, while the log is read."""

    def __init__(self) -> None:
        self.record = StepRecord()
        self.spoilt_at: int | None = None
        """The line with the first number that is not finite."""
        self._begin, self._end = b"", b""
        self._log: list[bytes] | None = []
        """All of it, unless it is long."""
        self.first_line = 1
        """Of the last run."""
        self._tests = ""
        self._checks = MetricChecks()

    def read(self, lines: bytes) -> None:
        """Read the next complete lines of the log."""
        self._begin = self._begin or lines[:TAIL]
        self._end = lines[-TAIL:] if len(lines) >= TAIL else (self._end + lines)[-TAIL:]
        if self._log is not None:
            self._log.append(lines)
            self._log = self._log if sum(map(len, self._log)) <= finished.LONGEST else None

    def read_ends(self, begin: bytes, end: bytes) -> None:
        """Read the beginning and the end of a log of which only some lines were looked at."""
        self._log, self._begin = None, begin
        self.read(end)

    @property
    def text(self) -> tuple[bytes, bool]:
        """Return the log, or its end if it is long, and whether that is all of it."""
        return (self._end, False) if self._log is None else (b"".join(self._log), True)

    @functools.cached_property
    def _last_run(self) -> bytes:
        """Return the last run's part of a log that is not long, once all of it is read."""
        log, _ = self.text
        return log if self.first_line == 1 else b"\n".join(log.split(b"\n")[self.first_line - 1 :])

    @property
    def _head(self) -> bytes:
        return self._begin if self._log is None else self._last_run[:TAIL]

    @property
    def _tail(self) -> bytes:
        return self._end if self._log is None else self._last_run[-TAIL:]

    @property
    def work_done(self) -> str:
        """Return the line that reports the end of work without a training; "" without one."""
        record = self.record
        if self._log is None or record.trained or record.ends or record.doubtful or self._tests or self._checks.open:
            return ""
        log = self._last_run
        if announced.last(self._tail):
            return ""
        return finished.report(log) or known_reports.report(log) or ("" if record.losses else finished.words(log))

    def mentions(self, words: re.Pattern[bytes]) -> bool:
        """Return whether the log's beginning or end contains ``words``."""
        return bool(words.search(self._head) or words.search(self._tail))

    def ends_with(self, text: str, lines: int) -> bool:
        """Return whether one of the log's last ``lines`` lines with text contains ``text``."""
        last = [line for line in self._tail.splitlines() if line.strip()][-lines:]
        return any(text in log_lines.clean(line, 0).text for line in last)

    def another_run(self, line: int) -> None:
        """Forget the previous run; the next one begins with this ``line``."""
        self.first_line = line
        self.record, self._tests, self._checks, self.spoilt_at = StepRecord(), "", MetricChecks(), None

    def take(self, text: str) -> int | None:
        """Read a line that contains one of the words; return the step that it shows as done, None if it shows none."""
        record = self.record
        for what, pattern in said.OF_RUNS.of(text.encode()):
            if what == "end":
                record.ended_well |= bool(pattern.search(text))
            elif what == "claim":
                record.claims_learning |= bool(pattern.search(text))
            elif what == "loss":
                for match in pattern.finditer(text):
                    record.losses |= bool(match["number"])
                    if not match["number"] and record.steps and not re.match(doubts.BAR_AT_0, text):
                        record.no_number = record.no_number or text.strip()[:300]
            elif what == "epochs":
                record.epochs_stated.update(said.numbers(pattern, text))
            elif what == "steps":
                record.steps_stated.update(said.numbers(pattern, text))
            elif what == "interval":
                record.intervals.update(said.numbers(pattern, text))
            elif what == "furthest":
                record.furthest = max(record.furthest, *said.numbers(pattern, text), 0)
            elif not said.NOT_RESUMED.search(text):
                record.resumed.update(step - (what == "before") for step in said.numbers(pattern, text))
        self._checks.read(text)
        return record.take(text)

    def suspect(self, raw: bytes) -> None:
        """Read a line outside of tracebacks that may speak against a run without faults."""
        if not self.record.doubtful:
            self.record.doubtful = doubts.doubtful(raw, bool(self.record.ends))

    def end(self, trainer: str, match: re.Match[str]) -> None:
        """Note the line that reports the end of a trainer's run, or of tests (trainer "")."""
        if trainer:
            self.record.end(trainer, match)
        else:
            self._tests = match[0].strip(" =")

    @property
    def known(self) -> str:
        """Return what the log shows of the steps; "" if it has no metrics."""
        record = self.record
        shown = record.trained.values()
        return f"{', '.join(series.words() for series in shown)} logged, all finite" if shown and not record.not_finite else ""

    @property
    def proven(self) -> str:
        """Return what the log proves, without what may contradict it; "" if it reports no end."""
        if self.record.ends:
            return f"{self.known}; the log reports that the run reached its end" if self.known else "the log reports the end"
        if self._tests:
            return self._tests
        if self._checks.passed and not self._checks.open:
            return f"{self._checks.passed} metric checks passed"
        return f"{self.known}, up to the last one" if self.known and self._all_steps else ""

    @functools.cached_property
    def _all_steps(self) -> bool:
        """Return whether a script's lines of metrics reach the last one that there was to be."""
        return bool(script_runs.of(self.record)) and not script_runs.gap(self.record, self._head, self._tail)

    def not_finite(self) -> Doubt | None:
        """Return what a number that is not finite means; None without one."""
        evidence = self.record.not_finite or self._checks.bad
        advice = "The run cannot pass: later steps learn nothing."
        if not evidence and self._last >= MANY_STEPS:
            evidence, advice = self._skipped(), "An optimizer skips an update whose gradients are not finite; it learns nothing."
        if not evidence:
            return None
        line = self.spoilt_at if self.record.not_finite else None
        return Doubt(verdict="Fail", rule=NOT_FINITE, evidence=evidence, advice=advice, line=line)

    def doubt(self) -> Doubt | None:
        """Return what contradicts success; None if nothing does."""
        if spoilt := self.not_finite():
            return spoilt
        if bad_end := bad_ends.last(self._tail):
            return not_a_pass(bad_end, "the log reports that the run reached its end, and also that it ended badly")
        percents = _PERCENT.findall(self._tail)
        if percents and int(percents[-1]) < 100:
            return not_a_pass(
                f"Training Progress: {int(percents[-1])}% is the last progress", "the last run in the log did not reach its end"
            )
        if self._checks.open:
            return not_a_pass("the table of metric checks is incomplete", "the log stops within it")
        if self.record.no_number and (self.record.ends or self._all_steps):
            return not_a_pass(self.record.no_number, "a loss or another metric is not a number")
        if self.record.ends and (gap := missing_steps.gap(self.record, self._head, self._tail)):
            return not_a_pass(gap, "the log reports the end of the run, but does not show every step before it")
        whole = self.text[0].decode(errors="replace").splitlines() if self.record.ends or self._all_steps else []
        if left := counted.parts_left(whole):
            return not_a_pass(left, "the last training in the log is one of several, and more were to come")
        if not self.record.ends and (unfinished := missing_steps.unfinished(self.record)):
            return not_a_pass(unfinished, "tests or checks passed, but the log does not show that the training before them ended")
        if (self.record.ends or self._all_steps) and (begun := announced.last(self._tail)):
            return not_a_pass(begun, "the log ends with a part of the work that this line begins, without its result")
        if contradiction := self._nothing_learned():
            look = UNMOVED if contradiction == self.record.by_step.repeated else FLAT
            return not_a_pass(contradiction, "the run reached its end and hardly changed what it trains", look)
        return None

    def unexplained(self) -> Doubt | None:
        """Return what a line before the end of a training run says that no signature explains; None without one."""
        if not (self.record.doubtful and (self.record.ends or self._all_steps)):
            return None
        return not_a_pass(self.record.doubtful[:300], "the run reached its end, but this line says that something went wrong")

    def _nothing_learned(self) -> str:
        record = self.record
        for name, zeros in record.zero_gradients.items():
            if zeros * 2 > record.steps and record.steps:
                updated = "nothing was updated" if zeros >= record.steps else "most of them updated nothing"
                return f"{name} is zero in {zeros} of {record.steps} steps: {updated}"
        if skipped := self._skipped():
            return skipped
        if record.by_step.repeated:
            return record.by_step.repeated
        if record.claims_learning and len(record.rewards) == 1 and record.steps > 1:
            return f"the log claims learning, but the reward is {next(iter(record.rewards))} in all steps"
        return ""

    def warning(self, harmless: Sequence[str]) -> str:
        """Return a warning among the last lines, if those say little more; "" otherwise.

        ``harmless``: words of notices that count as warnings, whatever else they say.
        """
        return only_warnings.of(self._tail, harmless)

    @property
    def said_to_fail(self) -> str:
        """Return the first line of the log's beginning or end in which a program says that something failed; "" without one."""
        return bad_ends.said_to_fail((self._head + self._tail).splitlines())

    def line_of(self, text: str) -> int | None:
        """Return the first line of the last run that contains ``text``, from 1; None if none does, or the log is long."""
        if self._log is None:
            return None
        lines = enumerate(self._last_run.split(b"\n"), self.first_line)
        return next((number for number, raw in lines if text in log_lines.clean(raw, 0).text), None)

    def after(self, ends: Sequence[re.Pattern[str]]) -> list[Line]:
        """Return the lines of the log's end after the last one that matches one of ``ends``."""
        lines: list[Line] = []
        for raw in reversed(self._tail.split(b"\n")):
            line = log_lines.clean(raw, 0)
            if any(end.search(line.text) or end.search(log_lines.plain(raw)) for end in ends):
                break
            lines.insert(0, line)
        return lines

    @property
    def _last(self) -> float:
        """Return the last step with metrics."""
        return max((series.last for series in self.record.trained.values()), default=0)

    def _skipped(self) -> str:
        """Return how many updates were skipped if those are most; "" otherwise."""
        return f"{self.record.skipped} of {self._last:g} updates were skipped" if self.record.skipped * 2 > self._last > 0 else ""


def not_a_pass(evidence: str, reason: str, next: str = "") -> Doubt:
    """Return the doubt that makes a success Unknown."""
    return Doubt(verdict="Unknown", evidence=evidence, advice=f"Not a pass: {reason}.", next=next)
