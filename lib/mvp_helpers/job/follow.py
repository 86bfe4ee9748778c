"""Wait for a job: one live line on a terminal, one plain line per phase elsewhere; the job folder decides the end."""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import msgspec

from ..base import chart
from ..base.errors import BadInput, Blocked, MvpError, TimedOut
from ..base.paths import JobFolder
from ..base.terminal import shown
from ..base.times import clock
from ..cluster.ray_api import RayApi
from ..plan import plan
from ..record import job_folder, metrics, reconcile, stall
from ..record.job_folder import Result, elapsed_s

Say = Callable[[str], None]

POLL_S = (0.1, 1.0)
"""Shortest and longest pause between two reads of the job folder; in between, a twentieth of the time waited."""
ASK_RAY_S = 3.0
PLAIN_LINE_S = 10.0
CURVE_FROM, CURVE_LINES = 3, 6
"""Steps from which on a chart is shown at the end, and its height."""
SILENT_S = 60.0
"""A runner writes at least every 10 s; the rest allows for a network file system that shows it late."""


def follow(
    folder: JobFolder, api: RayApi | None, *, timeout_s: float | None = None, pending_timeout_s: float | None = 120.0, say: Say
) -> Result:
    """Wait until the job has ended and return its result, whether it succeeded or not.

    ``timeout_s`` limits the wait, ``pending_timeout_s`` the part of it before the job runs (seconds; None: no limit). Leaving
    early never stops the job.

    Raises:
        TimedOut: a limit passed; for a job that does not start the message has Ray's reason.
        BadInput: the job folder is gone.
        Blocked: the job's state is unknown (see ``Watch.look``).
        KeyboardInterrupt: Ctrl-C, after a message that the job continues.
    """
    with Watch(folder, api, say) as watch:
        while not (result := watch.look()).ended:
            waited = watch.waited_s
            if pending_timeout_s is not None and waited > pending_timeout_s and result.state != "RUNNING":
                raise TimedOut(watch.why_pending(result), hint=watch.ways_on())
            if timeout_s is not None and waited > timeout_s:
                still = f"job '{folder.submission_id}' still runs ({watch.phase(result)}) after {clock(waited)}"
                raise TimedOut(still, hint=watch.ways_on())
            # The pause grows with the wait: quick for short jobs, cheap for long ones.
            pause = min(POLL_S[1], max(POLL_S[0], waited / 20))
            time.sleep(pause if timeout_s is None else max(0.0, min(pause, timeout_s - waited + 0.01)))
        watch.sum_up(result)
    return result


def how_to_follow(folder: JobFolder) -> str:
    return f"./scripts/51_logs.sh {folder.submission_id} -f"


def summary(folder: JobFolder, result: Result, steps: metrics.Metrics) -> str:
    """Return ``SUCCEEDED in 1m12s: 20 steps, reward 0.12 → 0.15; /path``."""
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


class Watch:
    """Poll one job and report phases, progress, stalls and its end, whether the runner or Ray reports it.

    As a context manager it clears its live line, and after Ctrl-C prints that the job continues.
    """

    def __init__(self, folder: JobFolder, api: RayApi | None, say: Say) -> None:
        self.folder, self.api, self._say = folder, api, say
        self.metrics = metrics.Metrics(folder.metrics)
        self.line = _LiveLine(sys.stderr)
        self._began = time.monotonic()
        self._asked_at = self._began
        self._asking: threading.Thread | None = None
        self._settled: Result | None = None
        self._last_step_at: float | None = None
        self._stall_said, self._stall_text = False, ""
        self._note, self._noted_in = "", ""
        self._said_phase, self._said_at = "", 0.0
        self._runner_sign, self._sign_at = (0, 0.0), self._began
        try:
            the_plan = plan.read(folder)
            self._prechecked, self._limits = bool(the_plan.imports), the_plan.stall
        except BadInput:
            self._prechecked, self._limits = True, stall.StallLimits()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.line.clear()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._say(f"no longer following; the job continues: {how_to_follow(self.folder)}")

    @property
    def waited_s(self) -> float:
        return time.monotonic() - self._began

    def look(self) -> Result:
        """The job as it is now, shown to the person who waits. Never waits for Ray.

        Raises:
            BadInput: the job folder is gone.
            Blocked: the job's state is unknown: Ray does not answer, and the runner has stopped writing.
        """
        result, now = job_folder.read(self.folder), time.monotonic()
        if not result.ended:
            result = self._ask_ray(result, now)
        if self.metrics.refresh():
            self._last_step_at = now
        if not result.ended:
            self._show(result, now)
        return result

    def _ask_ray(self, result: Result, now: float) -> Result:
        """Return ``result`` as corrected by Ray, asked in the background: a Ray that hangs must not delay the log."""
        if self._asking is None:
            if now - self._asked_at >= ASK_RAY_S:
                self._asking = threading.Thread(target=self._settle, args=(result,), daemon=True)
                self._asking.start()
            return result
        if self._asking.is_alive():
            return result
        self._asking, self._asked_at = None, now
        settled = self._settled or result
        if settled.ended:
            return settled
        self._note, self._noted_in = settled.reason, settled.state
        if (sign := _last_change(self.folder.log_times)) != self._runner_sign or not settled.reason.startswith(reconcile.UNKNOWN):
            self._runner_sign, self._sign_at = sign, now
        elif now - self._sign_at > SILENT_S:
            raise Blocked(
                f"the state of job '{self.folder.submission_id}' is unknown (last known: {result.state}): "
                f"{settled.reason}; its runner has written nothing for {clock(now - self._sign_at)}",
                hint="./scripts/01_up.sh, then ./scripts/50_status.sh",
            )
        return result

    def _settle(self, result: Result) -> None:
        try:
            self._settled = reconcile.settle(self.folder, result, self.api)
        except OSError as error:  # The ending cannot be written now; the next poll tries again.
            self._settled = msgspec.structs.replace(result, reason=str(error))

    def sum_up(self, result: Result) -> None:
        """Print the last line, for a job that has ended."""
        self.line.clear()
        for line in self._curve() if self.line.live else ():
            self._say(line)
        self._say(summary(self.folder, result, self.metrics))

    def _curve(self) -> list[str]:
        """Return a chart of the reward or the loss; empty for fewer than three steps."""
        rewards = self.metrics.rewards()
        name, values = ("reward", rewards) if rewards else ("loss", self.metrics.losses())
        if sum(value is not None for value in values) < CURVE_FROM:
            return []
        width = min(80, shutil.get_terminal_size().columns)
        return [name, *chart.bars(values, width, CURVE_LINES, chart.encoding(os.environ, sys.stderr.encoding))]

    def phase(self, result: Result) -> str:
        total = f"/{result.steps_total}" if result.steps_total else ""
        if result.state != "RUNNING":
            return "queued"
        if self.metrics.steps:
            return "saving" if self.metrics.last == result.steps_total else f"step {self.metrics.last}{total}"
        if self._prechecked:
            return "loading model" if self.folder.precheck.exists() else "precheck"
        return "running"

    def _show(self, result: Result, now: float) -> None:
        phase, usual = self.phase(result), self.metrics.usual_step_s()
        silent_s = now - (self._last_step_at or now)
        # The runner's own word counts most: it may have seen the last step long before this view began.
        limit_s = stall.limit_s(self._limits, self.metrics, stall.usual_step_s(self.folder, self.metrics), result.steps_total)
        stalled = result.stall is not None or (bool(self.metrics.steps) and silent_s > limit_s)
        words = [phase, f"elapsed {clock(elapsed_s(result) or now - self._began)}"]
        if usual is not None:
            if result.steps_total and (left := result.steps_total - self.metrics.last) > 0:
                words.append(f"ETA {clock(max(0.0, left * usual - silent_s))}")
            words.append(f"{usual:.1f} s/step")
        if self.metrics.steps and (number := metrics.headline(self.metrics.steps[self.metrics.last])):
            words.append(f"{number[0]} {number[1]:.4g}")
        if result.stall:
            words.append(stall.describe(result.stall))
        elif stalled:
            words.append(f"no step for {clock(silent_s)}")
        elif self._note and self._noted_in == result.state:
            words.append(self._note.splitlines()[0])
        text = f"{self.folder.submission_id}: {', '.join(words)}"
        self._show_stall(result, stalled, silent_s, usual)
        if self.line.live:
            self.line.show(text)
        # All steps are one phase, so that a fast trainer does not fill a log file.
        elif (kind := phase.partition(" ")[0]) != self._said_phase or now - self._said_at >= PLAIN_LINE_S:
            self._said_phase, self._said_at = kind, now
            self._say(text)

    def _show_stall(self, result: Result, stalled: bool, silent_s: float, usual: float | None) -> None:
        """Say once that no step comes, once why, and once that the run continues."""
        text = ""
        if result.stall and result.stall.cause:
            text = (
                f"{stall.describe(result.stall)} in {self.folder.path}" if result.stall.bundle else stall.describe(result.stall)
            )
        elif stalled and not self._stall_said:
            text = f"no new step for {clock(silent_s)} (usually {usual:.1f} s)" if usual else f"no new step for {clock(silent_s)}"
            text += f": see {self.folder.driver_log}"
        elif not stalled and self._stall_said:
            text = "a new step came; the run goes on"
        self._stall_said = stalled
        if text and text != self._stall_text:
            self._stall_text = text
            self.line.clear()
            self._say(text)

    def why_pending(self, result: Result) -> str:
        reasons = [f"job '{self.folder.submission_id}' has not started after {clock(self.waited_s)}"]
        settled = reconcile.settle(self.folder, result, self.api)
        if settled.reason:
            reasons.append(settled.reason)
        if settled.reason.startswith("Ray reports RUNNING"):
            reasons.append(f"but its runner wrote nothing to {self.folder.path}: is that the same shared root on the worker?")
        if missing := unmet_demands(self.api):
            reasons.append(f"no free node for {', '.join(missing)}")
        return "; ".join(reasons)

    def ways_on(self) -> str:
        return f"{how_to_follow(self.folder)}; or stop it: ./scripts/52_stop.sh {self.folder.submission_id}"


def unmet_demands(api: RayApi | None) -> list[str]:
    """Return the resource requests that Ray cannot place, from its status text; empty for none or without an answer."""
    if api is None:
        return []
    try:
        text = api.cluster_status()
    except (MvpError, OSError, KeyError, TypeError):
        return []
    _, _, demands = text.partition("Demands:")
    return re.findall(r"^ *(\{.*\}.*)$", demands, re.MULTILINE)


def _last_change(path: Path) -> tuple[int, float]:
    """Return size and modification time of a file; compare them only with each other, as clocks differ."""
    try:
        facts = path.stat()
    except OSError:
        return 0, 0.0
    return facts.st_size, facts.st_mtime


class _LiveLine:
    """One line redrawn in place on a terminal; ``live`` is False elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = False

    def show(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{shown(text)[:width]}")
        self._stream.flush()
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False
