"""Decides, at the end of each step of a training, whether to save now and whether to end; says what was done.

Nothing here knows verl: ``trainers.py`` calls it from verl's trainers. Requests and answers are files (``record/control.py``).
A file that cannot be read or written is reported on stderr and never ends the training.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mvp_helpers.base.paths import JobFolder
    from mvp_helpers.record.control import Deadline, Reason

UNKNOWN_SAVE_S = 60.0
"""How long a save is taken to last before one was measured; verl's own assumption (``should_save_ckpt_esi``)."""
ENDING_S = 30.0
"""How long the trainer's processes and the job runner may take to end after the last save, on a busy host."""
REMEMBERED_STEPS = 10
REPORT_S = 5.0
"""Between two reports of the usual times."""


def margin_s(step_s: float, save_s: float | None) -> float:
    """Return how long before a deadline the last save begins: two saves, one more step, and the end of the processes."""
    return 2 * (UNKNOWN_SAVE_S if save_s is None else save_s) + step_s + ENDING_S


class Watch:
    """One training in one process. ``ending`` is True from the step at which the trainer must stop."""

    def __init__(self, folder: JobFolder, trainer: str, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.trainer = trainer
        self.ending = False
        self._clock = clock
        self._step = 0
        self._last_step = False
        self._mark = clock()
        self._step_times: deque[float] = deque(maxlen=REMEMBERED_STEPS)
        self._save_s: float | None = None
        self._saves_s = 0.0
        self._reported_at = 0.0
        self._answered: set[str] = set()
        self._asked: tuple[Reason, str, str] | None = None

    def unsupported(self, problem: str) -> None:
        """Say that this trainer cannot be asked to save, and why."""
        _warn(f"{self.trainer} cannot be asked to save: {problem}")
        self._report(problem)

    def begin(self) -> None:
        """Say that this trainer can be asked to save; the first step begins."""
        self._mark = self._clock()
        self._report()

    def step_done(self, step: int, last: bool) -> bool:
        """True when step ``step``, just trained, must be saved now. ``last``: the trainer saves and ends by itself after it."""
        if step == self._step:
            return False
        self._step, self._last_step = step, last
        self._step_times.append(self._clock() - self._mark)
        self._mark = self._clock()
        if self._mark - self._reported_at >= REPORT_S:
            self._report()
        self._look()
        return self._asked is not None

    def saved(self, path: str, seconds: float) -> None:
        """A checkpoint of the last step is written: answer whoever asked for it, also those who asked meanwhile."""
        self._save_s = seconds
        self._saves_s += seconds
        self._mark = self._clock()
        self._look()
        self._report()
        if self._asked:
            self._answer(path, seconds)
        self._remove_older()

    @property
    def _step_s(self) -> float:
        return max(self._step_times, default=0.0)

    def _look(self) -> None:
        """Note the requests; one to end takes precedence over one for a checkpoint."""
        from mvp_helpers.record import control

        stop, save, deadline = control.stop_request(self.folder), control.save_request(self.folder), control.deadline(self.folder)
        if stop and not stop.now and not self._last_step:
            self._asked = ("stop", "", stop.id)
        elif deadline and not self._last_step and self._is_near(deadline):
            self._asked = ("deadline", deadline.source, "")
        elif save and save.id not in self._answered:
            self._asked = ("save", "", save.id)
        self.ending = self.ending or (self._asked is not None and self._asked[0] != "save")

    def _is_near(self, deadline: Deadline) -> bool:
        return self._clock() + margin_s(self._step_s, self._save_s) > deadline.at

    def _answer(self, path: str, seconds: float) -> None:
        from mvp_helpers.base.times import now
        from mvp_helpers.record import control

        assert self._asked
        reason, source, request_id = self._asked
        self._asked = None
        self._answered.add(request_id)
        print(f"MVP_SAVED: step {self._step} in {seconds:.1f} s ({reason}{f', {source}' if source else ''}): {path}", flush=True)
        answer = control.Saved(
            step=self._step,
            path=path,
            seconds=round(seconds, 3),
            reason=reason,
            source=source,
            request_id=request_id,
            saved_at=now(),
        )
        try:
            control.set_saved(self.folder, answer)
        except OSError as error:
            _warn(f"cannot write {self.folder.control}/saved.json: {error.strerror}")

    def _remove_older(self) -> None:
        from mvp_helpers.base.errors import MvpError
        from mvp_helpers.retry import checkpoints

        try:
            for removed in checkpoints.remove_older(self.folder):
                print(f"MVP_REMOVED: a checkpoint that the chain no longer keeps: {removed}", flush=True)
        except (MvpError, OSError, ValueError) as error:
            _warn(f"cannot remove checkpoints of earlier attempts: {error}")

    def _report(self, problem: str = "") -> None:
        from mvp_helpers.base.times import now
        from mvp_helpers.record import control

        self._reported_at = self._clock()
        report = control.Trainer(
            supported=not problem,
            trainer=self.trainer,
            problem=problem,
            host=os.environ.get("MVP_HOST") or socket.gethostname(),
            pid=os.getpid(),
            written_at=now(),
            step_s=round(self._step_s, 3) if self._step_times else None,
            save_s=None if self._save_s is None else round(self._save_s, 3),
            saves_s=round(self._saves_s, 3),
        )
        try:
            control.set_trainer(self.folder, report)
        except OSError as error:
            _warn(f"cannot write {self.folder.control}/trainer.json: {error.strerror}")


def _warn(message: str) -> None:
    print(f"MVP_WARNING: {message}", file=sys.stderr, flush=True)
