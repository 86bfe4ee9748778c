"""The table in which NeMo-RL's check_metrics reports its checks, as a log shows it."""

from __future__ import annotations

import math
import operator
import re

WORDS = ("Metric Checks", "PASS ", "└─")
"""Each line of it that matters contains one of these."""
_ROW = re.compile(r"^\W*PASS\W*[│|](?P<check>.*)[│|](?P<value>[^│|]*)[│|][^│|]*[│|]\W*$")
_LIMIT = re.compile(r"(?P<sign><=?|>=?) *(?P<limit>-?\d[\d.]*(?:e[+-]?\d+)?)$")
_ENDS = re.compile(r"^\W*[└+╰][─-]{3}")
_SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class MetricChecks:
    """How many checks of the last table passed, and the first whose value says something else."""

    def __init__(self) -> None:
        self.passed = 0
        self.open = False
        """A table has begun, and not ended."""
        self.bad = ""

    def read(self, text: str) -> None:
        """Read a line that contains one of ``WORDS``; others change nothing."""
        if WORDS[0] in text:
            self.open, self.passed = True, 0
        elif self.open and "PASS" in text:
            self.passed += 1
            self.bad = self.bad or ("" if _holds(text) else text.strip())
        elif self.open and _ENDS.search(text):
            self.open = False


def _holds(text: str) -> bool:
    """Return whether the value in a row is a finite number, and within the limit that its check names."""
    if not (row := _ROW.search(text)):
        return False
    limit = _LIMIT.search(row["check"].strip())
    try:
        value = float(row["value"].strip(" '\""))
        return math.isfinite(value) and (not limit or bool(_SIGNS[limit["sign"]](value, float(limit["limit"]))))
    except ValueError:
        return False
