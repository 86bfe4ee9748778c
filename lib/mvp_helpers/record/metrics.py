"""Reading ``metrics.jsonl`` while it grows: one JSON object a line, ``{"step": 1, "data": {...}}``.

verl's file logger writes NaN and infinity as ``null``, may log validation before training as step 0, and one step in two lines.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HEADLINES = (("critic/score/mean", "reward"), ("critic/rewards/mean", "reward"), ("train/loss", "loss"), ("val/loss", "loss"))
STEP_SECONDS = ("timing_s/step", "perf/time_per_step")


class Metrics:
    """The steps of one metrics file; ``refresh`` reads only what was added since."""

    def __init__(self, path: Path) -> None:
        self.steps: dict[int, dict[str, Any]] = {}
        """Metrics by step, in the order of the file; lines of the same step are merged."""
        self.damaged: list[int] = []
        """Numbers of lines (from 1) that are not a step."""
        self._path, self._offset, self._lines = path, 0, 0

    def refresh(self) -> bool:
        """Read complete new lines; True when there were any. A missing file has no steps."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                added = stream.read()
        except FileNotFoundError:
            return False
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            self._lines += 1
            try:
                record = json.loads(line)
                self.steps.setdefault(int(record["step"]), {}).update(record["data"])
            except (ValueError, KeyError, TypeError):
                self.damaged.append(self._lines)
        return bool(whole)

    @property
    def trained(self) -> list[int]:
        """Steps that trained something: 0 is the validation before them."""
        return [step for step in self.steps if step > 0]

    @property
    def last(self) -> int:
        return max(self.trained, default=0)

    def rewards(self) -> list[float | None]:
        """The mean reward of each step; None where the trainer could not tell. Empty when no step has one."""
        told = [headline(self.steps[step]) for step in sorted(self.trained)]
        rewards = [value if name == "reward" else None for name, value in (one or ("", 0.0) for one in told)]
        return rewards if any(value is not None for value in rewards) else []

    def usual_step_s(self) -> float | None:
        """Median seconds of the last 20 steps as the trainer measured them; None before two steps, the first one being slow."""
        timed = [seconds for step in self.trained[1:][-20:] if (seconds := _first(self.steps[step], STEP_SECONDS)) is not None]
        return statistics.median(timed) if timed else None


def read(path: Path) -> Metrics:
    """All complete lines of a metrics file."""
    metrics = Metrics(path)
    metrics.refresh()
    return metrics


def tail(path: Path, size: int = 65_536) -> tuple[int, dict[str, Any]]:
    """Last step and its metrics from the last ``size`` bytes; (0, {}) when there is none."""
    steps: dict[int, dict[str, Any]] = {}
    for line in tail_text(path, size).splitlines():
        try:
            record = json.loads(line)
            steps.setdefault(int(record["step"]), {}).update(record["data"])
        except (ValueError, KeyError, TypeError):
            continue
    last = max(steps, default=0)
    return last, steps.get(last, {})


def tail_text(path: Path, size: int) -> str:
    """The last ``size`` bytes of a file as text; empty when it cannot be read."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - size))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""


def headline(data: Mapping[str, Any]) -> tuple[str, float] | None:
    """The one number that tells how training goes: ``("reward", 0.125)`` or ``("loss", 5.02)``."""
    for key, name in HEADLINES:
        if isinstance(value := data.get(key), (int, float)):
            return name, float(value)
    return None


def _first(data: Mapping[str, Any], keys: tuple[str, ...]) -> float | None:
    return next((float(data[key]) for key in keys if isinstance(data.get(key), (int, float))), None)
