"""Does a series rise? The Mann-Kendall test: how many later values are above earlier ones, and could that be chance?

Its null hypothesis is that the values are independent draws from one distribution. That is what rewards of a policy that does not
change are: every step samples other answers. It asks for no straight line and no normal noise, and one outlier counts as one.
Source: Kendall, Rank Correlation Methods (1975): variance with ties, continuity correction, normal approximation.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 10
"""Below so many values the normal approximation is no good, and nothing is said."""
ALPHA = 0.01
"""The chance one takes to see a rise where there is none."""


@dataclass(frozen=True)
class Trend:
    """What a series showed. ``p`` is one-sided: how often values without a trend would seem to rise at least so clearly."""

    count: int
    left_out: int
    """Values that are no finite number."""
    s: int
    """Pairs that rise less pairs that fall."""
    z: float
    p: float
    window: int
    """``first`` and ``last`` are the means of so many values at each end: a fifth of them, one at least."""
    first: float
    last: float

    @property
    def rises(self) -> bool:
        return self.count >= FEWEST and self.p < ALPHA and self.last > self.first

    def tell(self, name: str) -> str:
        """The verdict on ``name`` with its numbers, one line."""
        left_out = f" ({self.left_out} more are no number)" if self.left_out else ""
        if self.count < FEWEST:
            return f"{name}: nothing can be said of {self.count} steps{left_out}: the test needs {FEWEST}"
        numbers = (
            f"Mann-Kendall S={self.s:+d}, z={self.z:.2f}, one-sided p={self.p:.2g}; "
            f"mean of the first {self.window} {self.first:.3f}, of the last {self.window} {self.last:.3f}"
        )
        verdict = "rose" if self.rises else "no rise is shown"
        return f"{name}: {verdict} over {self.count} steps{left_out}: {numbers} (needed: p < {ALPHA} and a higher mean)"


def of(values: Sequence[float | None]) -> Trend:
    """The trend of ``values`` in their order; None, NaN and infinities are left out. A constant or empty series has p = 1."""
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
