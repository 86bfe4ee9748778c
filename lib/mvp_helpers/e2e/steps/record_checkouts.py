"""Step "checkouts": record the state of every checkout under test."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ...base import files
from ..context import Context
from ..requests import checkouts, coverage
from ..step import Step, step_of


def run(context: Context, place: Path) -> Step:
    """Pass with commit, branch, dirty files and submodules; Blocked when a folder that Python imports from is empty."""
    description = context.description
    keys = {name: name for name in context.paths}
    paths = dict(context.paths)
    if any(one.baseline for one in context.planned):
        keys["baseline"], paths["baseline"] = description.subject, Path(context.request.baseline)
    context.states = [checkouts.record(name, path, place) for name, path in paths.items()]
    evidence = [f"{state.name}: {state.path} {state.summary()}" for state in context.states]
    evidence += [f"{state.name}: submodule {line.strip()}" for state in context.states for line in state.submodules]
    files.write_bytes(place / "checkouts.json", msgspec.json.format(msgspec.json.encode(context.states), indent=2) + b"\n")
    empty = [
        f"{state.path}/{folder}"
        for state in context.states
        for folder in checkouts.unready(Path(state.path), description.checkouts[keys[state.name]])
    ]
    for state in context.states:
        if other := checkouts.not_as_recorded(description.checkouts[keys[state.name]], state):
            step = step_of("Blocked", f"{state.path}/{other[0]} is not at the commit that this checkout records", evidence)
            step.fixes = [f"git -C {state.path} submodule update {other[0]}, or commit the change of the submodule"]
            return step
    evidence += _copies(context)
    own = [state for state in context.states if state.name in context.paths]
    early = coverage.missing(description, context.request, context.folder.path.parent, own)
    if early and not empty:
        step = step_of("Blocked", early[0], evidence)
        step.fixes = early
        return step
    if not empty:
        return step_of("Pass", "; ".join(evidence[: len(context.states)]), evidence)
    step = step_of("Blocked", f"{empty[0]} is empty: its submodule is not checked out", evidence)
    step.fixes = ["git submodule update --init --recursive"]
    return step


def _copies(context: Context) -> list[str]:
    """Return for each copy of a checkout inside another one whether it could be imported instead of the change under test."""
    found = [(name, copy) for name in context.paths for copy in checkouts.copies(context.description, name, context.paths)]
    differences = [(name, copy, checkouts.copy_problem(copy, context.paths[name])) for name, copy in found]
    return [f"{name}: its copy {copy}: {problem or 'same commit and changes'}" for name, copy, problem in differences]
