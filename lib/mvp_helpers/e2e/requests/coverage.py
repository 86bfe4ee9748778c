"""Which levels count only after another one of the same code and model passed, in the same request or in an earlier run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .checkouts import State
from .description import Description, model_of
from .request import Request


def missing(description: Description, request: Request, runs: Path, states: Sequence[State]) -> list[str]:
    """Return a sentence for each requested level whose earlier level is neither requested nor passed below ``runs``."""
    marks, wanted, problems = {state.name: state.fingerprint for state in states}, request.levels, []
    model = _model(description, request)
    for number in wanted:
        before = [level for level in description.levels[number].after if level not in wanted]
        if lost := [level for level in before if not _passed(description, level, runs, marks, model)]:
            all_of = ",".join(map(str, sorted({*wanted, *lost})))
            named = f" ({model})" if model else ""
            problems.append(
                f"level {number} counts only after level {lost[0]} of the same code and model{named}, which has not passed"
                f" below {runs}: --level {all_of}"
            )
    return problems


def _model(description: Description, request: Request) -> str:
    return model_of(description, {**description.env, **request.env}, request.overrides)


def _passed(description: Description, level: int, runs: Path, marks: dict[str, str], model: str) -> bool:
    """Tell whether a run below ``runs`` passed every run of a level with this model and checkouts of these fingerprints."""
    return any(_run_passed(description, level, summary, marks, model) for summary in runs.glob("*/summary.json"))


def _run_passed(description: Description, level: int, summary: Path, marks: dict[str, str], model: str) -> bool:
    try:
        document = json.loads(summary.read_bytes())
        request = msgspec.json.decode(summary.with_name("run.json").read_bytes(), type=Request)
        steps = [step for step in document["steps"] if step["name"].startswith(f"level-{level}-")]
        same = all(step["fingerprints"].get(name) == mark for step in steps for name, mark in marks.items())
        passed = bool(steps) and all(step["verdict"] == "Pass" for step in steps)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # msgspec's errors are ValueErrors
        return False
    return passed and same and Path(request.description).stem == description.name and _model(description, request) == model
