"""The summary of a run: did the requested deliverables pass? In the procedure's own format, as text, Markdown and JSON. Pure."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from ..base.errors import Blocked
from ..base.verdict import Check

Overall = Literal["Pass", "Fail", "Blocked"]
EXIT_CODES: dict[str, int] = {"Pass": 0, "Fail": 1, "Blocked": 3}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report; its fields are those of the format, in that order."""

    result: Overall
    sentence: str
    coverage: str
    model: str
    deliverables: list[Check]
    evidence: list[tuple[str, str]]
    limitations: list[str]
    follow_ups: list[str]
    run: str
    steps: list[dict[str, Any]] = []


def overall(verdicts: Sequence[str], requested: Sequence[str]) -> Overall:
    """Return the first Blocked or Fail; Pass only when everything requested passed."""
    for verdict in verdicts:
        if verdict == "Blocked":
            return "Blocked"
        if verdict == "Fail":
            return "Fail"
    return "Pass" if requested and all(verdict == "Pass" for verdict in requested) else "Blocked"


def in_log(log: str) -> tuple[str, int]:
    """Return the summary at the end of a run's output, text or JSON, and its verdict's exit code. Raises Blocked without one."""
    for begin in reversed(list(re.finditer(r"^(?:Result: (\w+) - |\{$)", log, re.M))):
        if begin[1]:
            return log[begin.start() :].rstrip(), EXIT_CODES[begin[1]]
        with contextlib.suppress(ValueError):
            document, end = json.JSONDecoder().raw_decode(log, begin.start())
            if "result" in document:
                return log[begin.start() : end], EXIT_CODES[document["result"]]
    raise Blocked("the log contains no summary: the procedure did not reach its end")


def exit_code(ended: int, verdict: int) -> int:
    """Return the exit code of a procedure that ran elsewhere: ``ended`` is how its job ended, ``verdict`` what its log says.

    Ray knows only 0 and 1, so there the log decides, and a job without a summary proves nothing. Any other exit code is kept.
    """
    return verdict if ended in (0, 1) else ended


def text(summary: Summary) -> str:
    """Return the summary in the format of the procedure."""
    return "\n".join(
        [
            f"Result: {summary.result} - {summary.sentence}",
            f"Requested coverage: {summary.coverage}",
            f"Model: {summary.model}",
            "",
            "Deliverables:",
            *(f"- {one.name}: {one.verdict} - {one.reason}" for one in summary.deliverables),
            "",
            "Evidence:",
            *(f"- {name}: {value}" for name, value in summary.evidence),
            "",
            "Limitations:",
            *(f"- {one}" for one in summary.limitations or ["none"]),
            "",
            "Follow-ups:",
            *(f"- {one}" for one in summary.follow_ups or ["none"]),
        ]
    )


def markdown(summary: Summary) -> str:
    """Return the summary for a pull request."""

    def cell(words: str) -> str:
        return words.replace("|", "\\|").replace("\n", " ")

    return "\n".join(
        [
            f"**Result: {summary.result}** - {summary.sentence}",
            "",
            f"**Requested coverage:** {summary.coverage}",
            "",
            f"**Model:** `{summary.model}`",
            "",
            "### Deliverables",
            "",
            "| deliverable | verdict | evidence |",
            "|---|---|---|",
            *(f"| {one.name} | {one.verdict} | {cell(one.reason)} |" for one in summary.deliverables),
            "",
            "### Evidence",
            "",
            *(f"- {name}: `{value.replace('`', '')}`" for name, value in summary.evidence),
            "",
            "### Limitations",
            "",
            *(f"- {one}" for one in summary.limitations or ["none"]),
            "",
            "### Follow-ups",
            "",
            *(f"- {one}" for one in summary.follow_ups or ["none"]),
            "",
        ]
    )


def as_json(summary: Summary) -> bytes:
    """Return one JSON object, with the evidence as a mapping."""
    plain = msgspec.to_builtins(summary)
    plain["evidence"] = dict(summary.evidence)
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"
