"""A slow out-of-memory before it happens: a host's memory that grows with the steps, and when it will be full."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..base.times import clock
from .resources import Sample

FULL = 0.95
"""The part of a host's memory at which Ray begins to kill processes. Source: RAY_memory_usage_threshold."""
LEAST_STEPS = 4
STRAIGHT = 0.98
"""How much of the memory's variance the steps must explain (r squared)."""
LEAST_GROWTH = 0.02
"""Of the host's memory, from the first step to the last: less is noise."""
SOON_S = 6 * 3600.0
MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class Growth:
    """The growth of one host's memory; ``full_s`` are the seconds until it is full, from the last sample on."""

    host: str
    bytes_per_step: float
    since_step: int
    full_s: float

    def describe(self) -> str:
        full = f"full in {clock(self.full_s)}" if self.full_s > 0 else "it is full"
        amount = (
            f"{self.bytes_per_step / GIB:.1f} GiB" if self.bytes_per_step >= GIB / 10 else f"{self.bytes_per_step / MIB:.3g} MiB"
        )
        grown = f"{amount} per step since step {self.since_step}"
        return f"{self.host}: host memory grew {grown}; {full}"


def soonest(samples: Sequence[Sample]) -> Growth | None:
    """Return the growth of the host that will be full first; None where none will be within ``SOON_S``."""
    hosts = sorted({sample.host for sample in samples})
    growths = [growth for host in hosts if (growth := _of_host([each for each in samples if each.host == host]))]
    return min((growth for growth in growths if growth.full_s <= SOON_S), key=lambda growth: growth.full_s, default=None)


def _of_host(samples: Sequence[Sample]) -> Growth | None:
    """Return the growth over the longest run of last steps in which it is steady."""
    points = _by_step(samples)
    for start in range(len(points) - LEAST_STEPS + 1):
        steps, used = [float(step) for step, _, _ in points[start:]], [float(bytes_) for _, _, bytes_ in points[start:]]
        if max(used) == min(used):
            continue
        slope, _ = statistics.linear_regression(steps, used)
        if slope <= 0 or statistics.correlation(steps, used) ** 2 < STRAIGHT:
            continue
        total, last = samples[-1].memory.total, samples[-1]
        if slope * (steps[-1] - steps[0]) < LEAST_GROWTH * total:
            return None
        seconds = (points[-1][1] - points[start][1]) / (steps[-1] - steps[0])
        left = (FULL * total - last.memory.used) / slope * seconds
        return Growth(last.host, slope, points[start][0], max(0.0, left))
    return None


def _by_step(samples: Sequence[Sample]) -> list[tuple[int, float, int]]:
    """Return step, moment, and the least memory used after each step: memory that a step gives back does not count."""
    steps = [(step, list(group)) for step, group in itertools.groupby(samples, key=lambda sample: sample.step)]
    least = [(step, min(group, key=lambda sample: sample.memory.used)) for step, group in steps if step]
    return [(step, sample.at, sample.memory.used) for step, sample in least]
