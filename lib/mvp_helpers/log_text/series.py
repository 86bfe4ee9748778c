"""The steps of one trainer's lines of metrics: which ones were logged, and whether one between them is missing.

Steps may be numbers, fractions of epochs, or numbers that begin again with each epoch.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal


@dataclass
class Epochs:
    """The epochs that the lines of a script name, where its steps may begin again with each."""

    now: int | None = None
    """The epoch of the last line."""
    first: int = 0
    """0 if they are counted from 0, else 1."""
    total: int = 0
    """How many there are to be."""
    before: float = 0
    """The steps of the run before this epoch."""
    run_on: bool = False
    """The steps do not begin again."""
    length: float = 0
    """The last step of the epochs before, in their own count, if no line says how many steps an epoch has."""
    cut: str = ""
    """How the log shows that an epoch, or the end of one, is missing."""

    def place(self, series: Series, epoch: int, step: int, steps: int) -> float:
        """Return which step of the run ``step`` of an epoch is; ``steps``: how many an epoch has, 0 if no line says so."""
        if self.now is None:
            return max(epoch - 1, 0) * steps + step
        if epoch == self.now or self.run_on or step > series.last:
            return step + (self.before if epoch == self.now else 0)
        return step + (steps * (epoch - self.first) if steps else series.last + (series.usual if series.first == 0 else 0))

    def enter(self, series: Series, epoch: int, step: int, steps: int) -> None:
        """Note the epoch of a line, before its step is added to ``series``."""
        if epoch == self.now:
            return
        before = self.place(series, epoch, step, steps) - step
        if self.now is None:
            self.first = min(epoch, 1)
            if epoch > 1 and not steps:
                self.cut = f"the metrics begin with epoch {epoch}"
        elif epoch > self.now + 1 and not self.cut:
            self.cut = f"no metrics of epoch {self.now + 1}"
        elif not steps and before:
            self.cut = self.cut or self.shorter(series)
            self.length = series.last - self.before
        self.run_on = self.now is not None and not before
        self.now, self.before = epoch, before

    def shorter(self, series: Series) -> str:
        """Return that the last epoch has fewer steps than those before it; "" if it does not."""
        last = series.last - self.before
        fewer = self.length and last <= self.length - series.usual
        return (
            f"the last metrics of epoch {self.now} are of step {last:g}, those of the one before of {self.length:g}"
            if fewer
            else ""
        )

    def missing(self, series: Series, wanted: int) -> str:
        """Return what the lines of a run that ended, of ``wanted`` epochs (0: not known), do not show; "" if they show all."""
        done = 0 if self.now is None else self.now + 1 - self.first
        if self.now is not None and wanted and done != wanted:
            return f"the last metrics are of epoch {done} of {wanted}"
        return self.cut or self.shorter(series)


@dataclass
class Rates:
    """The learning rates of the last four lines: where rounded epochs hide that a line is not there, a schedule does not."""

    last: list[tuple[float, str]] = field(default_factory=list)
    """The epoch and the rate of each, as it was written."""
    leap: str = ""
    """Between which lines the rate changes by twice as much as before and after them."""

    def add(self, epoch: float, rate: str) -> None:
        """Add the rate of a line."""
        self.last = [*self.last[-3:], (epoch, rate)]
        if len(self.last) < 4 or self.leap:
            return
        first, second, third, fourth = (float(text) for _, text in self.last)
        before, there, after = second - first, third - second, fourth - third
        if before * there > 0 < there * after and abs(there) > 1.6 * max(abs(before), abs(after)):
            rounded_to = 10.0 ** min(int(Decimal(text).as_tuple().exponent) for _, text in self.last)
            if abs(there) > 20 * rounded_to:
                self.leap = f"the learning rate leaps between epoch {self.last[1][0]:g} and {self.last[2][0]:g}"


@dataclass
class Series:
    """The steps of one trainer's lines of metrics, in the order of the log. A step may be a fraction (an epoch)."""

    every_step: bool = False
    first: float | None = None
    second: float = 0
    last: float = 0
    total: int | None = None
    gaps: Counter[float] = field(default_factory=Counter)
    widest: tuple[float, float] = (0, 0)
    """The widest gap, and the step before it."""
    lines: int = 1
    """How many lines the last step has."""
    lines_of_first: int = 0
    """How many the first one had, once the next began."""
    uneven: bool = False
    """Another step had more lines, or fewer, than the first."""
    exact: bool = False
    """The steps are fractions that are not rounded to two decimals."""
    rates: Rates = field(default_factory=Rates)

    epochs: Epochs = field(default_factory=Epochs)

    def restarts(self, step: float) -> bool:
        """Return whether a line of ``step`` belongs to another run than the lines before."""
        return self.first is not None and (step <= self.last if self.every_step else step <= self.first < self.last)

    def add(self, step: float) -> None:
        """Add a step that was logged; several processes may log the same one."""
        self.exact |= round(step, 2) != step
        if self.first is None:
            self.first = self.last = step
        elif step == self.last:
            self.lines += 1
        elif step > self.last:
            self.uneven |= self.lines != (self.lines_of_first or self.lines)
            self.lines_of_first, self.lines = self.lines_of_first or self.lines, 1
            gap = round(step - self.last, 6)
            self.second = self.second or step
            self.gaps[gap] += 1
            if gap > self.widest[0]:
                self.widest = (gap, self.last)
            self.last = step

    @property
    def repeated(self) -> bool:
        """Return whether steps have several lines, and not all of them as many."""
        return self.uneven or self.lines != (self.lines_of_first or 1)

    def add_next(self, steps: Sequence[int]) -> bool:
        """Add steps that follow those before and each other; return False, and add none, if they do not."""
        if self.first is None or steps[0] <= self.last or any(map(operator.ge, steps, steps[1:])):
            return False
        self.add(steps[0])
        if steps[-1] - steps[0] == len(steps) - 1:  # each is the next one
            self.gaps[1] += len(steps) - 1
            self.widest = max(self.widest, (1, steps[0]), key=lambda gap: gap[0])
            self.last = steps[-1]
        else:
            for step in steps[1:]:
                self.add(step)
        return True

    @property
    def usual(self) -> float:
        """Return the distance between two steps that are logged."""
        return 1 if self.every_step or not self.gaps else max(self.gaps, key=lambda gap: (self.gaps[gap], -gap))

    @property
    def average(self) -> float:
        """Return the mean distance between two steps that are logged; epochs are rounded, so that each distance is not exact."""
        return round((self.last - (self.first or 0)) / self.gaps.total(), 6) if self.gaps else self.usual

    def missing(self) -> str:
        """Return which step within the series was not logged; "" if none is missing."""
        gap, after = self.widest
        if not self.every_step and self.gaps.total() == 1 and self.first and not self._even(gap):
            return f"no metrics between step {after:g} and {after + gap:g}"
        if self.epochs.now is not None and self.total and after % self.total + gap > self.total:
            gap -= self.total % self.usual  # an epoch whose last steps are fewer than those between two lines
        if gap <= self.usual * 1.5 + (0 if self.exact or float(after).is_integer() else 0.011):
            return self.rates.leap
        return (
            f"no metrics of step {after + 1:g}" if self.every_step else f"no metrics between step {after:g} and {after + gap:g}"
        )

    def _even(self, gap: float) -> bool:
        """Return whether a run that logs every n-th step, and perhaps the first, could have logged only these two."""
        steps = (gap, gap + 1) if self.first == 1 and gap > 2 else (gap,)  # of three steps the second one is missing
        return any(abs(self.last / step - round(self.last / step)) < 0.05 for step in steps)

    @property
    def in_epochs(self) -> bool:
        """Return whether the steps are fractions of epochs."""
        return not all(gap.is_integer() for gap in map(float, self.gaps))

    def words(self) -> str:
        """Return the steps for a person."""
        first = self.first or 0
        unit = "epoch" if self.in_epochs else "step"
        return f"{unit} {first:g}" if self.last <= first else f"{unit}s {first:g}-{self.last:g}"
