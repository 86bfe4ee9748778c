"""Whether the losses of a run are those of weights that never change.

Weights that an optimizer moves give each epoch other losses. Where every epoch has the digits of the one before, or every step
the same digits, nothing was updated: the parameters are frozen or not the optimizer's, the learning rate is 0, or the lines were
copied.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MOST = 2000
"""So many steps are compared."""
FEWEST = 4
"""Fewer equal numbers, or of fewer digits, may be chance."""
_NUMBER = r"['\"]?\s{0,3}[:=|]?\s{0,3}['\"]?(?P<value>-?\d+\.\d+(?:e[-+]?\d+)?)"
_LOSS = re.compile(
    rf"(?i)(?<![a-z/_])(?:(?:avg|train(?:ing)?|total|mean|lm|mlm|running|epoch|batch)[_ /-]{{1,2}})?(?P<name>loss){_NUMBER}"
)
_GRADIENT = re.compile(rf"(?i)(?P<name>grad[_ ]norm){_NUMBER}")
"""What reinforcement learning logs has no loss that must differ."""


_REWARDS = re.compile(
    r"(?i)reward|advantage|\bkl\b|/kl|score|margin|policy|actor"
    r"|grad[_ ]?norm['\"]?\s{0,3}[:=]\s{0,3}['\"]?(?!0(?:\.0{0,20})?(?![\d.]))[\d.]"
)
_RATE = re.compile(
    r"(?i)(?<![a-z/_])(?:learning[_ ]rate|lr)['\"]?\s{0,3}[:=]\s{0,3}['\"]?"
    r"(?:(?P<none>0(?:\.0)?(?![\d.e])|0(?:\.0{1,20})?e[+-]?0{1,3}(?!\d))|\d)"
)
"""A learning rate; one that is rounded (0.0000) may be of a run that learns."""


@dataclass
class Losses:
    """The training losses of one run, or else its gradients' norms, as its lines of metrics write them, one for each step."""

    name: str = ""
    written: list[str] = field(default_factory=list)
    of_rewards: bool = False
    """Its lines show rewards, advantages or a gradient, with which a loss of 0 may be right."""
    rates: set[bool] = field(default_factory=set)
    """Whether a learning rate was 0."""

    @property
    def full(self) -> bool:
        """Whether there are as many as are compared."""
        return len(self.written) >= MOST

    def add(self, metrics: str) -> None:
        """Note the first training loss, or else the first gradient's norm, among the metrics of a further step."""
        self.of_rewards = self.of_rewards or bool(_REWARDS.search(metrics))
        if len(self.rates) < 2:
            self.rates.update(match["none"] is not None for match in _RATE.finditer(metrics))
        if not self.full and (found := _LOSS.search(metrics) or _GRADIENT.search(metrics)):
            name = found["name"].lower()
            self.name = self.name or name
            if name == self.name:
                self.written.append(found["value"])

    @property
    def repeated(self) -> str:
        """What speaks for weights that never changed; "" if nothing does."""
        numbers = self.written
        if len(numbers) > 1 and self.name == "loss" and not self.of_rewards and not any(map(float, numbers)):
            return f"{self.name} is 0 in all {len(numbers)} steps: nothing shows that it learned"
        if len(numbers) > 2 and self.rates == {True}:
            return f"the learning rate is 0 in all {len(numbers)} steps: nothing was updated"
        exact = sum(_significant(number) >= FEWEST for number in numbers)
        if len(numbers) < FEWEST or exact * 2 < len(numbers):
            return ""  # rounded numbers may be equal
        if len(set(numbers)) == 1:
            which = "the first" if self.full else "all"
            return f"{self.name} is {numbers[0]} in {which} {len(numbers)} steps: nothing was updated"
        for period in range(FEWEST, len(numbers) - FEWEST + 1):
            if numbers[period] == numbers[0] and numbers[period:] == numbers[:-period]:
                first = ", ".join(numbers[:3])
                return (
                    f"{self.name} of {period} steps ({first}, …) comes again after them, to the last digit: nothing was updated"
                )
        return ""


def _significant(number: str) -> int:
    return len(number.partition("e")[0].lstrip("-").replace(".", "").strip("0"))
