"""Waiting for a job: one live line on a terminal, one plain line per phase elsewhere; the end comes from the job folder."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

from . import job_folder, metrics, plan, reconcile
from .errors import BadInput, MvpError, TimedOut
from .job_folder import Result
from .paths import JobFolder
from .ray_api import RayApi
from .times import clock, elapsed_s

Say = Callable[[str], None]

POLL_S = (0.1, 1.0)
"""Shortest and longest pause between two looks at the job folder: a twentieth of the time waited, within these."""
ASK_RAY_S = 3.0
PLAIN_LINE_S = 10.0
STALL_FACTOR, STALL_S = 5.0, 60.0


def follow(
    folder: JobFolder, api: RayApi | None, *, timeout_s: float | None = None, pending_timeout_s: float | None = 120.0, say: Say
) -> Result:
    """Wait until the job has ended and return its result, whatever the ending.

    ``timeout_s`` limits the wait, ``pending_timeout_s`` the part of it before the job runs (seconds; None: no limit). Leaving
    early never stops the job.

    Raises:
        TimedOut: a limit passed; says what Ray says about a job that does not start.
        BadInput: the job folder is gone.
        KeyboardInterrupt: Ctrl-C, after saying that the job goes on.
    """
    watch = _Watch(folder, api, say)
    try:
        result = watch.until_ended(timeout_s, pending_timeout_s)
    except KeyboardInterrupt:
        watch.line.clear()
        say(f"no longer following; the job goes on: {how_to_follow(folder)}")
        raise
    finally:
        watch.line.clear()
    say(summary(folder, result, watch.metrics))
    return result


def how_to_follow(folder: JobFolder) -> str:
    return f"./scripts/50_status.sh --follow {folder.submission_id}"


def summary(folder: JobFolder, result: Result, steps: metrics.Metrics) -> str:
    """``SUCCEEDED in 1m12s: 20 steps, reward 0.12 → 0.15; /path``."""
    facts = []
    if steps.trained:
        facts.append(f"{len(steps.trained)} steps")
        first, last = (metrics.headline(steps.steps[step]) for step in (steps.trained[0], steps.last))
        if first and last and first[0] == last[0]:
            facts.append(f"{last[0]} {first[1]:.4g} → {last[1]:.4g}")
    if result.reason and result.state != "SUCCEEDED":
        facts.append(result.reason)
    lasted = elapsed_s(result)
    head = result.state if lasted is None else f"{result.state} in {clock(lasted)}"
    return f"{': '.join([head, ', '.join(facts)] if facts else [head])}; {folder.path}"


class _Watch:
    """What is known about one job while it is followed."""

    def __init__(self, folder: JobFolder, api: RayApi | None, say: Say) -> None:
        self.folder, self.api, self._say = folder, api, say
        self.metrics = metrics.Metrics(folder.metrics)
        self.line = _LiveLine(sys.stderr)
        self._began = time.monotonic()
        self._last_step_at: float | None = None
        self._stall_said = False
        self._note = ""
        self._said_phase, self._said_at = "", 0.0
        try:
            self._prechecked = bool(plan.read(folder).imports)
        except BadInput:
            self._prechecked = True

    def until_ended(self, timeout_s: float | None, pending_timeout_s: float | None) -> Result:
        asked_at = self._began
        while not (result := job_folder.read(self.folder)).ended:
            now = time.monotonic()
            if now - asked_at >= ASK_RAY_S:
                settled = reconcile.settle(self.folder, result, self.api)
                asked_at = time.monotonic()
                if settled.ended:
                    result = settled
                    break
                self._note = settled.reason
            if self.metrics.refresh():
                self._last_step_at, self._stall_said = now, False
            self._show(result, now)
            waited = now - self._began
            if pending_timeout_s is not None and waited > pending_timeout_s and result.state != "RUNNING":
                raise TimedOut(self._why_pending(result, waited), hint=self._ways_on())
            if timeout_s is not None and waited > timeout_s:
                still = f"job '{self.folder.submission_id}' goes on ({self._phase(result)}) after {clock(waited)}"
                raise TimedOut(still, hint=self._ways_on())
            # The pause grows with the wait: a short job is noticed at once, a long one costs nothing.
            pause = min(POLL_S[1], max(POLL_S[0], waited / 20))
            time.sleep(pause if timeout_s is None else max(0.0, min(pause, timeout_s - waited + 0.01)))
        self.metrics.refresh()
        return result

    def _phase(self, result: Result) -> str:
        total = f"/{result.steps_total}" if result.steps_total else ""
        if result.state != "RUNNING":
            return "queued"
        if self.metrics.steps:
            return "saving" if self.metrics.last == result.steps_total else f"step {self.metrics.last}{total}"
        if self._prechecked:
            return "loading model" if self.folder.precheck.exists() else "precheck"
        return "running"

    def _show(self, result: Result, now: float) -> None:
        phase, usual = self._phase(result), self.metrics.usual_step_s()
        silent_s = now - (self._last_step_at or now)
        stalled = usual is not None and silent_s > max(STALL_S, STALL_FACTOR * usual)
        words = [phase, f"elapsed {clock(elapsed_s(result) or now - self._began)}"]
        if usual is not None:
            if result.steps_total and (left := result.steps_total - self.metrics.last) > 0:
                words.append(f"ETA {clock(max(0.0, left * usual - silent_s))}")
            words.append(f"{usual:.1f} s/step")
        if self.metrics.steps and (number := metrics.headline(self.metrics.steps[self.metrics.last])):
            words.append(f"{number[0]} {number[1]:.4g}")
        if stalled:
            words.append(f"no step for {clock(silent_s)}")
        elif self._note:
            words.append(self._note.splitlines()[0])
        text = f"{self.folder.submission_id}: {', '.join(words)}"
        if stalled and not self._stall_said:
            self._stall_said = True
            self.line.clear()
            self._say(f"no new step for {clock(silent_s)} (usually {usual:.1f} s): see {self.folder.driver_log}")
        if self.line.live:
            self.line.show(text)
        # Steps are one phase: a fast trainer must not fill a log file.
        elif (kind := phase.partition(" ")[0]) != self._said_phase or now - self._said_at >= PLAIN_LINE_S:
            self._said_phase, self._said_at = kind, now
            self._say(text)

    def _why_pending(self, result: Result, waited: float) -> str:
        told = [f"job '{self.folder.submission_id}' has not started after {clock(waited)}"]
        settled = reconcile.settle(self.folder, result, self.api)
        if settled.reason:
            told.append(settled.reason)
        if settled.reason.startswith("Ray says RUNNING"):
            told.append(f"but its runner wrote nothing to {self.folder.path}: is that the same shared root on the worker?")
        if missing := unmet_demands(self.api):
            told.append(f"no free node for {', '.join(missing)}")
        return "; ".join(told)

    def _ways_on(self) -> str:
        return f"{how_to_follow(self.folder)}; or give it up: ./scripts/52_stop.sh {self.folder.submission_id}"


def unmet_demands(api: RayApi | None) -> list[str]:
    """Resource requests that Ray cannot place, as its status text words them; empty when it has none or does not answer."""
    if api is None:
        return []
    try:
        text = api.cluster_status()
    except (MvpError, OSError, KeyError, TypeError):
        return []
    _, _, demands = text.partition("Demands:")
    return re.findall(r"^ *(\{.*\}.*)$", demands, re.MULTILINE)


class _LiveLine:
    """One line redrawn in place; does nothing where nobody watches."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = False

    def show(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{text[:width]}")
        self._stream.flush()
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False
