"""Show a bisection's plan and result, as text or as JSON."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from ..base import files, git
from ..base.shared_storage import writing
from ..gates.gates import Gates
from .record import Record, Request
from .search import SHORT, Search

MOST_LINES = 60
"""Lines of a difference that are printed; the file has all."""


def plan(request: Request, found: Gates, good_runs: int, place: Path) -> str:
    """Return what a search would do."""
    repository = Path(request.repository)
    count = len(git.suspects(repository, request.bad, [request.good]))
    lines = [
        f"commits of {request.kind} in {repository}: {count}; steps after the two ends: about {math.ceil(math.log2(count))}",
        *(f"{end} {_commit(repository, commit)}" for end, commit in (("good", request.good), ("bad ", request.bad))),
        f"JobSpec: {request.spec_name}; the good end is run {'once' if good_runs == 1 else f'{good_runs} times: the baseline'}",
        *(f"gate {name}: {gate.expect}" for name, gate in found.gates.items()),
        f"state: {place}",
    ]
    return "\n".join(lines)


def result(search: Search, page: str) -> dict[str, Any]:
    """Return the outcome as plain data, for JSON. Writes the difference of the first bad commit into the bisection's folder."""
    record, repository = search.record, search.repository
    assert record.outcome
    first = record.outcome.first_bad
    return {
        "state": "found" if first else "unclear",
        "first_bad": git.describe(repository, first) if first else None,
        "suspects": [git.describe(repository, commit) for commit in record.outcome.suspects],
        "repository": str(repository),
        "diff": str(_write_patch(search, first)) if first else None,
        "good": _neighbour(search, record, first),
        "bad": _tested(record, first) if first else None,
        "page": page or None,
        "steps": [msgspec.to_builtins(step) for step in record.steps],
        "folder": str(search.place),
    }


def _tested(record: Record, commit: str) -> dict[str, Any]:
    step = record.step(commit)
    assert step
    return {"commit": commit, "jobs": step.judged, "reason": step.reason}


def _neighbour(search: Search, record: Record, first: str | None) -> dict[str, Any] | None:
    return _tested(record, search.neighbour().commit) if first else None


def _write_patch(search: Search, commit: str) -> Path:
    path = search.place / "first-bad.patch"
    with writing(path):
        files.write_text(path, git.patch(search.repository, commit))
    return path


def text(found: dict[str, Any]) -> str:
    """Return the outcome for a person: the commit, its difference, the verdicts on both sides, the page."""
    lines = [f"{_verdict(step)}  {step['commit'][:SHORT]}  {step['subject']}: {step['reason']}" for step in found["steps"]]
    if not found["first_bad"]:
        lines.append("the first bad commit is one of these; those between the last good and it cannot be run:")
        lines += [f"  {each['commit']} {each['subject']}" for each in found["suspects"]]
        return "\n".join(lines)
    patch = Path(found["diff"]).read_text().splitlines()
    lines += ["", *patch[:MOST_LINES]]
    if len(patch) > MOST_LINES:
        lines.append(f"… {len(patch) - MOST_LINES} more lines")
    first = found["first_bad"]
    lines += ["", f"first bad commit: {first['commit']} {first['subject']} ({first['author']}, {first['date']})"]
    for end in ("good", "bad"):
        each = found[end]
        lines.append(f"{end}: {each['commit'][:SHORT]}, job {each['jobs'][0]}: {each['reason']}")
    return "\n".join([*lines, f"difference: {found['diff']}", f"comparison: {found['page']}"])


def _verdict(step: dict[str, Any]) -> str:
    return f"{step['verdict'] or '?':<7}"


def _commit(repository: Path, commit: str) -> str:
    facts = git.describe(repository, commit)
    return f"{commit[:SHORT]} {facts['subject']} ({facts['author']}, {facts['date']})"
