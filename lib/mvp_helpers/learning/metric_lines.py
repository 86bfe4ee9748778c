"""The metrics in a console log, by the trainer's lines of metrics."""

from __future__ import annotations

import re
from pathlib import Path

from ..base import files
from ..base.errors import BadInput
from ..trainers.patterns.of_trainers import VERL

Steps = dict[int, dict[str, float]]
"""Metrics by step."""
CHUNK = 1 << 20

_METRICS = re.compile(VERL.metrics.encode())
_WORD = VERL.metrics_word.encode()
_PAIR = re.compile(
    rb"([A-Za-z_][\w@./-]*):(?:np\.(?:float|int)\d+\()?(-?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|nan|inf|NaN|Infinity))\)?(?=\s|$)",
    re.I,
)
_TRAINABLE = re.compile(VERL.trainable.encode())


def metrics_of(line: bytes) -> tuple[int, dict[str, float]]:
    """Return step and metrics of one line; (0, {}) if it is not a line of metrics."""
    match = _METRICS.search(line)
    if not match:
        return 0, {}
    return int(match["step"]), {key.decode(): float(value) for key, value in _PAIR.findall(line[match.end() :])}


class LogMetrics:
    """Collects the metrics of a console log from pieces of any size."""

    def __init__(self) -> None:
        self.steps: Steps = {}
        self.trainable: float | None = None
        """Trainable parameters (or their percentage) by the log; None if it has no such line."""
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """Read the next piece of the log."""
        data = self._rest + piece
        cut = data.rfind(b"\n") + 1
        self._rest = data[cut:][-CHUNK:]
        self._lines(data[:cut])

    def finish(self) -> LogMetrics:
        """Read a last line without an end of line."""
        self._lines(self._rest)
        self._rest = b""
        return self

    def _lines(self, data: bytes) -> None:
        for word, take in ((_WORD, self._step), (b"rainable", self._parameters), (b"dapter parameters", self._parameters)):
            at = data.find(word)
            while at >= 0:
                start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
                end = len(data) if end < 0 else end
                take(data[start:end])
                at = data.find(word, end)

    def _step(self, line: bytes) -> None:
        step, metrics = metrics_of(line)
        if metrics:
            self.steps.setdefault(step, {}).update(metrics)

    def _parameters(self, line: bytes) -> None:
        if match := _TRAINABLE.search(line):
            self.trainable = float((match[1] or match[2]).replace(b",", b"").replace(b"_", b""))


def read(path: Path) -> Steps:
    """Return the metrics of a console log. Raises BadInput if it cannot be read or has none."""
    log = LogMetrics()
    try:
        with path.open("rb") as stream:
            while piece := stream.read(CHUNK):
                log.feed(piece)
                if piece.endswith(b"\0"):
                    files.skip_hole(stream)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    if not log.finish().steps:
        raise BadInput(f"{path} has no lines of metrics (step:N - key:value - ...)")
    return log.steps
