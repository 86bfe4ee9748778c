"""The form of an answer to "why did this end so", and the sentences that several kinds of answers contain."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from .phases import Phase
from .signature_files import Whose

Verdict = Literal["Pass", "Fail", "Blocked", "Noise", "Unknown", "Skipped"]
Confidence = Literal["high", "medium", "low"]
TWO_RUNS = (
    "The log contains several runs: an earlier one failed like this, and the last one's output does not explain that failure."
)
LAST_ERROR = "No signature matches it. The program printed this error and ended before a model was built."
COMPLETE_LOG = "the complete log with the command's exit status"
AGAIN = "a baseline run of the unchanged checkout with the same data, seed and sizes"


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. "" and None mean unknown."""

    verdict: Verdict
    boundary: str = ""
    """The part of the system where the cause is."""
    whose: Whose = "unknown"
    phase: Phase | Literal[""] = ""
    step: int | None = None
    """The last step done before the cause."""
    rule: str = ""
    log: str = ""
    """The file with the evidence."""
    line: int | None = None
    """The evidence's line in ``log``, from 1."""
    evidence: str = ""
    recorded: bool = False
    """The logger of a program printed the evidence."""
    caught: str = ""
    """The exception of which the evidence is only the text, with its class."""
    code_file: str = ""
    """The code that raised."""
    code_line: int | None = None
    raised: str = ""
    """The call that raised, and a line of code that led to it, each on a line."""
    values: str = ""
    """What to look at in that line of code."""
    confidence: Confidence = "low"
    """high: a known signature; medium: a known kind of error; low: unknown, or only an effect was found."""
    advice: str = ""
    next: str = ""
    """What to run next."""
    limitation: str = ""
    """What the run that ``next`` proposes does not show."""
    learning: list[str] = []
    """Sentences about the metrics."""


_ONLY_WITH = re.compile(r"\{(\w+)\?((?:[^{}]|\{\w+\})*)\}")


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text of the signatures with its placeholders replaced; ``{name?text}`` is the text if ``name`` has a value."""
    text = _ONLY_WITH.sub(lambda match: match[2] if values.get(match[1]) else "", text)
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], "ID" if match[1] == "id" else match[0]), text)
