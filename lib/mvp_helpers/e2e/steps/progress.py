"""Progress of a training for the person who watches: each step that is done, and now and then that it still runs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from ...base import redact, times
from ...learning.metric_lines import LogMetrics
from ...trainers.trainer import Trainer

QUIET_S = 60.0
"""After this many seconds without a new step the log's last line is shown."""


class Progress:
    """Takes pieces of a growing log; ``say`` gets the lines."""

    def __init__(self, trainer: Trainer, name: str, last_step: int, say: Callable[[str], None]) -> None:
        self._trainer, self._name, self._last_step, self._say = trainer, name, last_step, say
        self._metrics, self._shown, self._rest, self._line = LogMetrics(), 0, b"", b""
        self._began = self._spoke = time.monotonic()

    def feed(self, piece: bytes) -> None:
        step = self._step(piece)
        self._line = next((line for line in reversed(piece.splitlines()) if line.strip()), self._line)
        now = time.monotonic()
        if now - self._spoke > QUIET_S:
            self._spoke = now
            text = redact.text(self._line.decode(errors="replace").strip()[:120])
            self._say(f"{self._name}: {times.clock(now - self._began)}, its log's last line: {text}")
        if step > self._shown:
            self._shown, self._spoke = step, now
            self._say(f"{self._name}: step {step}/{self._last_step}{self._headline(step)}")

    def _step(self, piece: bytes) -> int:
        """Return the last step that is done."""
        if self._trainer.lines.metrics:
            self._metrics.feed(piece)
            return max(self._metrics.steps, default=0)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        done = [self._trainer.step_done(line.decode(errors="replace")) for line in lines]
        return max([self._shown, *(step for step in done if step)])

    def _headline(self, step: int) -> str:
        metrics = self._metrics.steps.get(step, {})
        name = next((name for name in sorted(metrics) if re.search(self._trainer.metrics.rewards, name)), "")
        return f", {name} {metrics[name]:.4g}" if name else ""
