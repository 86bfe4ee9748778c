"""Does a series rise? The Mann-Kendall test: how many later values are above earlier ones, and could that be chance?

Its null hypothesis is that the values are independent draws from one distribution, like the rewards of an unchanged policy: every
step samples other answers. It assumes neither a straight line nor normal noise, and an outlier counts as one value.
Source: Kendall, Rank Correlation Methods (1975): variance with ties, continuity correction, normal approximation.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 10
"""With fewer values the normal approximation is poor, so no verdict is given."""
ALPHA = 0.01
"""The accepted chance of seeing a rise where there is none."""


@dataclass(frozen=True)
class Trend:
    """The result of the test. ``p`` is one-sided: how often values without a trend seem to rise at least this clearly."""

    count: int
    left_out: int
    """Values that are not finite numbers."""
    s: int
    """Rising pairs minus falling pairs."""
    z: float
    p: float
    window: int
    """``first`` and ``last`` are the means of this many values at each end: a fifth of all, at least one."""
    first: float
    last: float

    @property
    def rises(self) -> bool:
        return self.count >= FEWEST and self.p < ALPHA and self.last > self.first

    def tell(self, name: str) -> str:
        """Return the verdict on ``name`` with its numbers, one line."""
        left_out = f" ({self.left_out} more are not finite)" if self.left_out else ""
        if self.count < FEWEST:
            return f"{name}: too few steps for a verdict: {self.count}{left_out}, the test needs {FEWEST}"
        numbers = (
            f"Mann-Kendall S={self.s:+d}, z={self.z:.2f}, one-sided p={self.p:.2g}; "
            f"mean of the first {self.window} {self.first:.3f}, of the last {self.window} {self.last:.3f}"
        )
        verdict = "rose" if self.rises else "no proven rise"
        return f"{name}: {verdict} over {self.count} steps{left_out}: {numbers} (needed: p < {ALPHA} and a higher mean)"


def of(values: Sequence[float | None]) -> Trend:
    """Return the trend of ``values`` in their order without None, NaN and infinities; a constant or empty series has p = 1."""
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    n, s = len(known), 0
    before: list[float] = []
    for value in known:
        smaller, not_larger = bisect.bisect_left(before, value), bisect.bisect_right(before, value)
        s += smaller - (len(before) - not_larger)
        before.insert(not_larger, value)
    ties = sum(t * (t - 1) * (2 * t + 5) for t in Counter(known).values())
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
    z = (s - math.copysign(1, s)) / math.sqrt(variance) if s and variance > 0 else 0.0
    window = max(1, n // 5)
    return Trend(
        count=n,
        left_out=len(values) - n,
        s=s,
        z=z,
        p=math.erfc(z / math.sqrt(2)) / 2 if s else 1.0,
        window=window,
        first=_mean(known[:window]),
        last=_mean(known[-window:]),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
