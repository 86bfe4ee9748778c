"""The job runner's side of a stop: when the trainer is asked to save, when it is signalled, and what the end is called."""

from __future__ import annotations

import contextlib
import signal
import time

from ..base.errors import BadInput
from ..base.paths import JobFolder
from ..plan import workloads
from ..plan.plan import Plan
from ..record import control, metrics
from ..record.control import Saved
from ..trainers import verl_checkpoints

KILL_AFTER_S = 5.0
"""From SIGTERM to SIGKILL for a trainer that was asked to save and had its time."""


class Stopping:
    """One job's stop. A trainer that can be asked to save is asked and gets ``wait_s`` before any signal.

    Any other gets SIGTERM at once, and SIGKILL after ``wait_s``.
    """

    def __init__(self, folder: JobFolder, wait_s: float) -> None:
        self.folder = folder
        self.wait_s = wait_s
        self.requested_at: float | None = None
        self.asked = False
        self.signalled_at: float | None = None
        self.cause = ""
        """Why the job runner itself asked for the stop; empty when somebody else did."""

    @property
    def requested(self) -> bool:
        return self.requested_at is not None

    def request(self) -> None:
        """Note the stop; safe in a signal handler. A second one changes nothing."""
        if self.requested_at is None:
            self.requested_at = time.monotonic()

    def next_signal(self) -> signal.Signals | None:
        """The signal that the trainer must get now, if any; asks it to save when the stop is new."""
        if self.requested_at is None:
            return None
        if self.signalled_at is None:
            self.asked = self.asked or self._ask()
            waited = time.monotonic() - self.requested_at
            if self.asked and waited < self.wait_s and not _at_once(self.folder):
                return None
            self.signalled_at = time.monotonic()
            return signal.SIGTERM
        patience = KILL_AFTER_S if self.asked else self.wait_s
        return signal.SIGKILL if time.monotonic() - self.signalled_at > patience else None

    def _ask(self) -> bool:
        trainer = control.trainer(self.folder)
        if not trainer or not trainer.supported or _at_once(self.folder):
            return False
        with contextlib.suppress(OSError):
            control.ask_stop(self.folder)
            return True
        return False


def _at_once(folder: JobFolder) -> bool:
    request = control.stop_request(folder)
    return request is not None and request.now


def saved_step(folder: JobFolder, plan: Plan) -> int | None:
    """The step from which this job could be resumed (0: from none); None where the workload's checkpoints are not known."""
    try:
        layout = workloads.load(plan.workload).checkpoint
    except BadInput:  # a workload of the user's own, whose file this host does not have
        return None
    if layout is None:
        return None
    whole = next((each.step for each in verl_checkpoints.every(folder.checkpoints, layout) if not each.problem), None)
    return whole if whole is not None else plan.resume.step if plan.resume else 0


def steps_unsaved(folder: JobFolder, plan: Plan) -> tuple[int, int] | None:
    """The last saved step, and how many steps were trained since; None where that is not known."""
    saved = saved_step(folder, plan)
    if saved is None:
        return None
    return saved, max(0, metrics.tail(folder.metrics)[0] - saved)


def describe_unsaved(unsaved: tuple[int, int] | None, verb: str) -> str:
    """``"the last checkpoint is step 10, 9 steps are lost"``; empty where that is not known. ``verb``: are, will be."""
    if unsaved is None:
        return ""
    step, lost = unsaved
    checkpoint = f"the last checkpoint is step {step}" if step else "no checkpoint was saved"
    if not lost:
        return f"{checkpoint}, no step {'is' if verb == 'are' else verb} lost"
    return f"{checkpoint}, {lost} step{'' if lost == 1 else 's'} {'is' if verb == 'are' and lost == 1 else verb} lost"


def reason(folder: JobFolder, plan: Plan, stopping: Stopping, code: int) -> str:
    """Why the job is STOPPED and what is saved; empty when it was not stopped. ``code`` is the trainer's exit code.

    A trainer that was asked to save and reached its last step by itself was not stopped.
    """
    saved = control.saved(folder)
    if saved and saved.ends:
        return _reason_saved(saved, saved_step(folder, plan), stopping.cause)
    asked_only = stopping.asked and stopping.signalled_at is None
    if not stopping.requested or (asked_only and code == 0):
        return ""
    why = stopping.cause or "stopped by 52_stop or by the end of its node"
    if asked_only:
        why += f"; the trainer ended with exit code {code} before it had saved"
    elif stopping.asked and not _at_once(folder):
        why += f"; not saved within {stopping.wait_s:g} s (stop_wait_s)"
    lost = describe_unsaved(steps_unsaved(folder, plan), "are")
    return f"{why}; {lost}" if lost else why


def _reason_saved(saved: Saved, whole_step: int | None, cause: str) -> str:
    why = cause or "stopped on request" if saved.reason == "stop" else f"stopped before its deadline ({saved.source})"
    if whole_step is not None and whole_step != saved.step:
        return f"{why}; the checkpoint of step {saved.step} is not whole: {saved.path}"
    return f"{why}, saved at step {saved.step}"
