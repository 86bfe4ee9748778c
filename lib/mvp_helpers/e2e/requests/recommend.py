"""Which levels a change of the code under test requires, by its changed files: what --recommend shows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ...base import git
from ...base.errors import BadInput, Blocked
from . import checkouts, description
from .description import Description, Level

MOST_FILES = 5
"""Changed files that are shown for each level."""


@dataclass(frozen=True)
class Recommended:
    """A level, and the changed files that require it."""

    number: int
    level: Level
    files: list[str]

    @property
    def called_for(self) -> bool:
        return bool(self.files)


def recommend(name: str, base: str, env: Mapping[str, str]) -> tuple[list[Recommended], list[str]]:
    """Return every level of a description, and the subject's changed files since ``base``. Raises BadInput, Blocked."""
    found = description.load(name)
    only_subject = msgspec.structs.replace(found, checkouts={found.subject: found.checkouts[found.subject]})
    path = checkouts.find(only_subject, env)[found.subject]
    try:
        changed = git.changed_since(path, base)
    except Blocked as error:
        raise BadInput(
            f"cannot compare {path} with '{base}': {error.what}", hint="--base origin/main, or a commit that is there"
        ) from None
    return by_files(found, changed), changed


def by_files(found: Description, changed: Sequence[str]) -> list[Recommended]:
    """Return for each level the changed files that require it; the first level is required by any of the others."""
    seen = [name for name in changed if re.search(found.source, name)]
    recommended = [
        Recommended(number, level, [name for name in seen if any(re.search(pattern, name) for pattern in level.files)])
        for number, level in found.levels.items()
    ]
    others = sorted({name for each in recommended[1:] for name in each.files})
    if recommended and not recommended[0].files and others:
        recommended[0] = Recommended(recommended[0].number, recommended[0].level, others)
    return recommended


def show(recommended: Sequence[Recommended], changed: Sequence[str], command: str) -> str:
    """Return the levels for a person, and the commands that run those that are required. ``command`` starts the procedure."""
    lines = [f"{len(changed)} changed files"]
    for each in recommended:
        mark, asked = "yes" if each.called_for else "no ", "  (only when asked for)" if each.level.on_request else ""
        lines.append(f"level {each.number}  {mark}  {each.level.title}: {each.level.when}{asked}")
        lines += [f"              {name}" for name in each.files[:MOST_FILES]]
        lines += [f"              … {len(each.files) - MOST_FILES} more"] if len(each.files) > MOST_FILES else []
    wanted = [each for each in recommended if each.called_for and not each.level.on_request]
    # Where every variant must be named, only the author of the change knows which.
    plain = [each for each in wanted if not all(variant.on_request for variant in each.level.variants.values())]
    commands = [f"{command} --level {','.join(str(each.number) for each in plain)}"] if plain else []
    commands += [
        f"{command} --level {each.number} --variant {'|'.join(each.level.variants)} --override KEY=VALUE"
        for each in wanted
        if each not in plain
    ]
    return "\n".join([*lines, "", *(commands or ["no level: the trainer reads none of the changed files"])])
