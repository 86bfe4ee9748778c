"""Whether a log ends in a part of the work that its last lines only announce: an evaluation without its result."""

from __future__ import annotations

import itertools
import re

from ..log_text import log_lines

_WORK = r"(?:evaluat\w+|validati\w+|test(?:s|ing)?|inference|predict\w+|benchmarks?)"
_ANNOUNCES = re.compile(
    rf"(?i)^\W*(?:(?:now |next:? )?(?:running|starting|performing|begin\w*) (?:the |final |best )*{_WORK}\b[^:=|%]{{0,80}}\W*$"
    r"|(?:evaluating|validating|testing|predicting|benchmarking) [^=|%]{1,160}(?:\.\.\.|…)\W*$"
    rf"|.{{0,300}}\bfor (?:the |final )*{_WORK}\b\W*(?:\.\.\.|…)$"
    r"|(?:starting|running|launching) \S+\.(?:py|sh)\b\W*$"
    r"|(?:now |then |next:? )?(?:uploading|exporting|launching|switching to|loading) [^=|%]{1,160}(?:\.\.\.|…)\W*$"
    r"|.{0,60}\b(?:before )?(?:starting|running) (?:the )?next \w+\W*(?:\.\.\.|…)$)"
)
_NO_RESULT = re.compile(
    r"^\W*$|^\W*(?:Num examples|Batch size) = \d|^Ultralytics \S.*Python-|\bsummary(?: \(fused\))?: \d+ layers"
    r"|(?<!\d)(?!100)\d{1,2}%(?:\|| [─━╸╺])"
)
"""What is printed between an announcement and the result: sizes, the model, a bar that is not full."""


def last(tail: bytes) -> str:
    """Return the line that announces a part of the work whose result the end of a log lacks; "" if there is none."""
    texts = (log_lines.clean(raw, 0).text.strip() for raw in reversed(tail.splitlines()))
    text = next(itertools.dropwhile(_NO_RESULT.search, texts), "")
    return text[:300] if _ANNOUNCES.search(text) else ""
