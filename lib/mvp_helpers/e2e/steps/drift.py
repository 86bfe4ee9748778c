"""Step "drift", before a GPU is used: does this revision read the runs' variables, and accept every override?"""

from __future__ import annotations

from pathlib import Path

from ...base import files
from ...trainers.trainer import ABSENT, at_key
from ..context import Context
from ..step import Step, step_of


def run(context: Context, place: Path) -> Step:
    """Compare every run with this revision; keep the resolved configs. Blocked when none of them can be done."""
    lost = {one.number for one in context.planned if context.checked(one).problems}
    possible = 0
    problems: list[str] = []
    evidence: list[str] = []
    ignored: list[str] = []
    for one in context.planned:
        checked = context.checked(one)
        problems += [f"{one.name}: {problem}" for problem in checked.problems]
        beside = one.run.optional or one.run.rerun or one.baseline
        possible += not (checked.problems or beside or lost.intersection(one.level.after))
        evidence += [f"{one.name}: {note}" for note in checked.notes]
        ignored += [text for text in checked.ignored.values() if text not in ignored]
        for at, config in enumerate(checked.configs):
            files.write_json(place / f"{one.name}{f'.{at + 1}' if at else ''}.config.json", config)
        if checked.configs:
            evidence.append(f"{one.name}: all {len(context.arguments(one))} arguments accepted")
        values = {key: at_key(checked.config, key) for key in context.description.resolved}
        shown = " ".join(f"{key}={value}" for key, value in values.items() if value is not ABSENT)
        evidence += [f"resolved: {one.name}: {shown}"] if shown else []
    if not possible:
        first = next(one for one in context.planned if context.checked(one).problems)
        checked = context.checked(first)
        step = step_of("Blocked", f"{first.name}: {checked.reason}", [*problems, *evidence], limitations=ignored)
        step.by_request = checked.by_request
        return step
    if problems:
        reason = f"{possible} of {len(context.planned)} runs can be done; {problems[0]}"
        return step_of("Pass", reason, [*problems, *evidence], limitations=ignored)
    scripts = ", ".join(dict.fromkeys(Path(one.wrapper.script).name for one in context.planned))
    return step_of("Pass", f"{scripts} and its config accept all {len(context.planned)} runs", evidence, limitations=ignored)
