"""Which levels count only after another one of the same code has passed, in the same request or in an earlier run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from .checkouts import State
from .description import Description


def missing(description: Description, wanted: Sequence[int], runs: Path, states: Sequence[State]) -> list[str]:
    """Return a sentence for each level of ``wanted`` whose earlier level is neither in ``wanted`` nor passed below ``runs``."""
    marks, problems = {state.name: state.fingerprint for state in states}, []
    for number in wanted:
        before = [level for level in description.levels[number].after if level not in wanted]
        if lost := [level for level in before if not _passed(description, level, runs, marks)]:
            all_of = ",".join(map(str, sorted({*wanted, *lost})))
            problems.append(
                f"level {number} counts only after level {lost[0]} of the same code, which has not passed below {runs}:"
                f" --level {all_of}"
            )
    return problems


def _passed(description: Description, level: int, runs: Path, marks: dict[str, str]) -> bool:
    """Tell whether a run of this description below ``runs`` passed every run of a level with checkouts of these fingerprints."""
    return any(_run_passed(description, level, summary, marks) for summary in runs.glob("*/summary.json"))


def _run_passed(description: Description, level: int, summary: Path, marks: dict[str, str]) -> bool:
    try:
        document = json.loads(summary.read_bytes())
        request = json.loads(summary.with_name("run.json").read_bytes())
        steps = [step for step in document["steps"] if step["name"].startswith(f"level-{level}-")]
        same = all(step["fingerprints"].get(name) == mark for step in steps for name, mark in marks.items())
        passed = bool(steps) and all(step["verdict"] == "Pass" for step in steps)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return passed and same and Path(request.get("description", "")).stem == description.name
