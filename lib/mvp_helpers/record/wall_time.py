"""Where the wall time of a job, or of its whole chain of attempts, went: ``wall_time`` of ``result.json``.

The job runner accounts while the job runs; an attempt goes on from the account of the one before it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..base.documents import Damaged, as_number, read_json
from ..base.paths import JobFolder
from ..base.times import moment_of, seconds_of
from ..trainers import metric_names
from . import control
from .metrics import STEP_SECONDS
from .stall import Stall

PARTS = (
    "queue",
    "precheck",
    "start_up",
    "generation",
    "training",
    "weight_sync",
    "saving",
    "validation",
    "stalled",
    "repeated",
    "other",
)
"""See docs/jobs.md for what each contains."""
MOST_S = 1e9
"""Ignore a metric of more seconds: the sums must stay finite, or ``result.json`` could not be read again."""


class WallTime(msgspec.Struct, kw_only=True):
    """An account until ``until`` (UTC). ``seconds`` and ``percent`` have every part; they add up to ``total_s`` and 100."""

    until: str
    total_s: float
    attempts: int = 1
    last_step: int = 0
    """The highest step that an attempt trained."""
    seconds: dict[str, float]
    percent: dict[str, float]


class Account:
    """The account of one running attempt; moments are Unix times."""

    def __init__(self, claimed: float, started: float, before: WallTime | None = None, waited_s: float = 0.0) -> None:
        """``before``: the account of the attempts before it; ``waited_s``: the time from their end to the claim of this one."""
        self._before, self._waited_s = before, max(0.0, waited_s)
        self._claimed, self._started = min(claimed, started), started  # the claim is by the clock of another host
        self.trainer_started: float | None = None
        self._first_began = self._last_at = 0.0
        self._step = 0
        self._timed = False
        self._parts = dict.fromkeys(PARTS, 0.0)

    def step(self, step: int, data: Mapping[str, Any], at: float) -> None:
        """A step was done, and its metrics are there."""
        timing = {part: sum(_seconds(data, name) for name in names) for part, names in metric_names.STEP_PARTS.items()}
        whole = next((seconds for name in STEP_SECONDS if (seconds := _seconds(data, name))), 0.0)
        if not self._step:
            # When the first step began is not logged: its own time, and what verl times outside of it.
            began = at - whole - timing["validation"]
            self._first_began = self._last_at = max(self.trainer_started or self._started, began)
        if self._before and step <= self._before.last_step:
            self._parts["repeated"] += at - self._last_at
        else:
            self._timed = self._timed or any(timing.values())
            for part, seconds in timing.items():
                self._parts[part] += seconds
        self._step, self._last_at = max(step, self._step), at

    def so_far(self, at: float, stalls: Sequence[Stall], trainer: control.Trainer | None) -> WallTime:
        """Return the account until ``at``. ``trainer`` is what the trainer's process says of its saves."""
        trained_from = self.trainer_started or at
        parts = dict(self._parts)
        parts["queue"] = self._started - self._claimed + self._waited_s
        parts["precheck"] = trained_from - self._started
        parts["stalled"] = sum(_stalled_s(stall, at) for stall in stalls)
        began = self._first_began if self._step else at
        # A stall before the first step is part of the start.
        early = sum(_stalled_s(stall, at) for stall in stalls if stall.step == 0)
        parts["start_up"] = max(0.0, began - trained_from - early)
        if self._step and not self._timed:  # a trainer that times no parts: its steps are training, but for its saves
            saved_s, last_save_s = (trainer.saves_s, trainer.save_s or 0.0) if trainer else (0.0, 0.0)
            after = min(last_save_s, at - self._last_at)
            late = parts["stalled"] - early
            saved_s = min(max(0.0, saved_s), at - began)
            parts["saving"] = saved_s
            parts["training"] = max(0.0, self._last_at - began - parts["repeated"] - max(0.0, saved_s - after) - late)
        in_steps = ("generation", "training", "weight_sync", "saving", "validation", "repeated")
        room = max(0.0, at - began - max(0.0, parts["stalled"] - early))
        if (measured := sum(parts[part] for part in in_steps)) > room:
            # A step that stalled has the stall among its own parts; parts can also overlap.
            parts |= {part: parts[part] * room / measured for part in in_steps}
        total = at - self._claimed + self._waited_s
        parts["other"] = max(0.0, total - sum(parts[part] for part in PARTS if part != "other"))
        if before := self._before:
            parts = {part: parts[part] + before.seconds.get(part, 0.0) for part in PARTS}
            total += before.total_s
        attempts, last = (before.attempts, before.last_step) if before else (0, 0)
        return _of(at, total, attempts + 1, max(last, self._step), parts)


def _of(at: float, total: float, attempts: int, last_step: int, parts: Mapping[str, float]) -> WallTime:
    return WallTime(
        until=moment_of(at),
        total_s=round(total, 2),
        attempts=attempts,
        last_step=last_step,
        seconds={part: round(parts[part], 2) for part in PARTS},
        percent={part: round(100 * parts[part] / total, 1) if total > 0 else 0.0 for part in PARTS},
    )


def _seconds(data: Mapping[str, Any], name: str) -> float:
    number = as_number(data.get(name, 0.0))
    return number if number is not None and 0 < number < MOST_S else 0.0


def _stalled_s(stall: Stall, at: float) -> float:
    """Return the seconds without a step: also those before it was noticed."""
    end = seconds_of(stall.resumed_at) if stall.resumed_at else at
    return max(0.0, end - seconds_of(stall.noticed_at) + stall.limit_s)


def ended(account: WallTime, at: float) -> WallTime:
    """Return the account of a job whose runner was killed, with the time until ``at`` among ``other``."""
    more = max(0.0, at - seconds_of(account.until))
    parts = {**account.seconds, "other": account.seconds["other"] + more}
    return _of(max(at, seconds_of(account.until)), account.total_s + more, account.attempts, account.last_step, parts)


def attempt_before(folder: JobFolder, resumed: str | None) -> tuple[JobFolder | None, bool]:
    """Return the job that this one follows, and whether the time between them counts, as that of a chain with ``retry`` does.

    ``resumed`` is the job whose checkpoint it resumes.
    """
    with contextlib.suppress(OSError, Damaged, KeyError, TypeError):
        # Not from the chain's record, which names an attempt only after its submission.
        if previous := read_json(folder.provenance)["attempt"]["previous"]:
            return folder.shared.job(str(previous)), True
    return (folder.shared.job(resumed), False) if resumed else (None, False)


def start(claimed_at: str, before: tuple[str | None, WallTime | None], *, in_chain: bool) -> Account:
    """Return the account of an attempt that starts now. ``before``: when the attempt before it ended, and its account."""
    ended_at, account = before
    waited = seconds_of(claimed_at) - seconds_of(ended_at) if in_chain and ended_at else 0.0
    started = time.time()
    return Account(seconds_of(claimed_at) if claimed_at else started, started, account, waited)
