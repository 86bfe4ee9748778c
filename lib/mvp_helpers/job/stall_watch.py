"""The job runner's side of a stall: notices that no step comes, starts the bundle, and notes when the run goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from ..base import processes
from ..base.documents import from_json
from ..base.paths import JobFolder
from ..base.times import clock, now
from ..plan.plan import Plan
from ..record import metrics, stall
from ..record.job_folder import Result
from ..record.stall import Stall
from . import stall_bundle
from .stopping import Stopping

PAUSE_S = 10.0
"""The runner looks twice a second: a longer gap means that it did not run itself, and says nothing about the trainer."""

USUAL_S = 5.0
"""Between two looks at the usual time of a step."""


class StallWatch:
    """Watches the steps of one training. ``look`` never waits: the bundle is taken by a process of its own."""

    def __init__(self, folder: JobFolder, plan: Plan, result: Result, stopping: Stopping, note: Callable[[str], None]) -> None:
        self.folder, self.plan, self.result, self.stopping, self._note = folder, plan, result, stopping, note
        self._metrics = metrics.Metrics(folder.metrics)
        self._last_step_at = self._looked_at = time.monotonic()
        self._step = 0
        self._usual_s: float | None = None
        self._usual_at = self._last_step_at
        self._stall: Stall | None = None
        self._bundles = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._child_until = 0.0
        self._warned = False
        self._active = _writes_metrics(folder, plan)

    def look(self) -> bool:
        """Notice a stall or its end; True when ``result.stalls`` changed."""
        if not self._active:
            return False
        at = time.monotonic()
        if (gap := at - self._looked_at) > PAUSE_S:
            self._last_step_at += gap
            self._child_until += gap
        self._looked_at = at
        changed = self._collect(at)
        if self._metrics.refresh() and self._metrics.last > self._step:
            silent_s, self._step, self._last_step_at = at - self._last_step_at, self._metrics.last, at
            return self._resume(silent_s) or changed
        # A trainer's own report counts the stalled step among its usual ones.
        if self._usual_s is None or (not self.result.stalls and at - self._usual_at > USUAL_S):
            self._usual_s, self._usual_at = stall.usual_step_s(self.folder, self._metrics), at
        limit_s = stall.limit_s(self.plan.stall, self._metrics, self._usual_s, self.result.steps_total)
        self._warn_of_limit(limit_s)
        if self._stall is None and not self.stopping.requested and at - self._last_step_at > limit_s:
            self._begin(limit_s, at)
            return True
        return changed

    def end(self) -> bool:
        """End a bundle that is still being taken: the trainer has ended. True when ``result.stalls`` changed."""
        self._child_until = 0.0
        return self._collect(time.monotonic())

    def _warn_of_limit(self, limit_s: float) -> None:
        after_s, usual = self.plan.stall.after_s, self._usual_s
        if not self._warned and after_s is not None and usual is not None and after_s <= usual:
            self._warned = True
            self._note(f"MVP_WARNING: stall.after_s {after_s:g} is shorter than a step ({usual:.1f} s): {limit_s:g} s is used")

    def _begin(self, limit_s: float, at: float) -> None:
        self._stall = Stall(step=self._step, noticed_at=now(), limit_s=round(limit_s, 1))
        del self.result.stalls[stall.MOST_RECORDED - 1 :]
        self.result.stalls.append(self._stall)
        if self._bundles >= stall.MOST_BUNDLES:
            self._stall.cause = f"no bundle: this job already has {stall.MOST_BUNDLES}"
            self._after_bundle()
            return
        self._bundles += 1
        argv = [sys.executable, "-m", "mvp_helpers.job.stall_bundle", str(self.folder.path)]
        try:
            self._child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=processes.die_with_parent,
            )
        except OSError as error:
            self._stall.cause = f"no bundle: {error}"
            self._after_bundle()
            return
        self._child_until = at + stall_bundle.LIMIT_S
        self._note(f"MVP_STALLED: {stall.describe(self._stall)}")

    def _collect(self, at: float) -> bool:
        """Take the child's answer; end it when its time is over. True when there was something to take."""
        child = self._child
        if child is None or (child.poll() is None and at < self._child_until):
            return False
        late = child.poll() is None
        if late:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        self._child = None
        # The latest stall, though a step may have come meanwhile.
        current = self.result.stalls[-1]
        assert child.stdout
        os.set_blocking(child.stdout.fileno(), False)  # a grandchild may hold it open
        try:
            answer = from_json((child.stdout.read() or b"").splitlines()[-1])
            current.cause = str(answer["finding"]["text"])
            if answer["bundle"]:
                current.bundle = os.path.relpath(answer["bundle"], self.folder.path)
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            ended = f"did not end within {stall_bundle.LIMIT_S:g} s" if late else f"ended with exit code {child.returncode}"
            current.cause = f"no bundle: the process that takes it {ended}"
        child.stdout.close()
        if self._stall is not None:
            self._after_bundle()
        return True

    def _after_bundle(self) -> None:
        """Say what was found; stop the job where its JobSpec asks for that."""
        assert self._stall
        self._note(f"MVP_STALLED: {stall.describe(self._stall)}")
        if self.plan.stall.on_stall == "stop":
            self.stopping.cause = f"stopped because of a stall (stall.on_stall): {stall.describe(self._stall)}"
            self.stopping.request()

    def _resume(self, silent_s: float) -> bool:
        if self._stall is None:
            return False
        self._stall.resumed_at = now()
        self._stall = None
        self._note(f"MVP_RESUMED: step {self._step} came after {clock(silent_s)}; the run goes on")
        return True


def _writes_metrics(folder: JobFolder, plan: Plan) -> bool:
    """Return whether this job's trainer was asked for metrics: without them nothing says that a step is done."""
    return any(str(folder.metrics) in text for text in (*plan.argv, *plan.env_vars.values()))
