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
_LOSS = re.compile(
    r"(?i)(?<![a-z/_])(?:(?:avg|train(?:ing)?|total|mean|lm|mlm|running|epoch|batch)[_ /-]{1,2})?"
    r"loss['\"]?\s{0,3}[:=|]?\s{0,3}['\"]?(?P<value>-?\d+\.\d+(?:e[-+]?\d+)?)"
)


@dataclass
class Losses:
    """The training losses of one run, as its lines of metrics write them, one for each step."""

    written: list[str] = field(default_factory=list)

    def add(self, metrics: str) -> None:
        """Note the first training loss among the metrics of a further step."""
        if len(self.written) < MOST and (loss := _LOSS.search(metrics)):
            self.written.append(loss["value"])

    @property
    def repeated(self) -> str:
        """What speaks for weights that never changed; "" if nothing does."""
        losses = self.written
        exact = sum(_significant(loss) >= FEWEST for loss in losses)
        if len(losses) < FEWEST or exact * 2 < len(losses):
            return ""  # rounded numbers may be equal
        if len(set(losses)) == 1:
            return f"the loss is {losses[0]} in all {len(losses)} steps: nothing was updated"
        for period in range(FEWEST, len(losses) - FEWEST + 1):
            if losses[period] == losses[0] and losses[period:] == losses[:-period]:
                first = ", ".join(losses[:3])
                return f"the losses of {period} steps ({first}, …) come again after them, to the last digit: nothing was updated"
        return ""


def _significant(number: str) -> int:
    return len(number.partition("e")[0].lstrip("-").replace(".", "").strip("0"))
