"""Which levels a change of the code under test requires, by its changed files: what --recommend shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ...base import git
from ...base.errors import BadInput, Blocked
from . import checkouts, description
from .description import Description
from .parts import Level

MOST_FILES = 5
"""Changed files that are shown for each level."""


@dataclass(frozen=True)
class Recommended:
    """A level, and the changed files that require it, or one of its variants that run only when named."""

    number: int
    level: Level
    files: list[str]
    variants: dict[str, list[str]]

    @property
    def called_for(self) -> bool:
        return bool(self.files or self.variants)

    @property
    def all_files(self) -> list[str]:
        return list(dict.fromkeys([*self.files, *(name for files in self.variants.values() for name in files)]))


def recommend(name: str, base: str, env: Mapping[str, str]) -> tuple[list[Recommended], list[str]]:
    """Return every level of a description, and the subject's changed files since ``base``. Raises BadInput, Blocked."""
    procedure = description.load(name)
    only_subject = msgspec.structs.replace(procedure, checkouts={procedure.subject: procedure.checkouts[procedure.subject]})
    path = checkouts.find(only_subject, env)[procedure.subject]
    try:
        changed = git.changed_since(path, base)
    except Blocked as error:
        raise BadInput(
            f"cannot compare {path} with '{base}': {error.what}", hint="--base origin/main, or a commit that exists"
        ) from None
    return by_files(procedure, changed), changed


def by_files(procedure: Description, changed: Sequence[str]) -> list[Recommended]:
    """Return for each level the changed files that require it; the first level is required by any of the others."""
    seen = [name for name in changed if re.search(procedure.source, name)]

    def matching(patterns: Sequence[str]) -> list[str]:
        return [name for name in seen if any(re.search(pattern, name) for pattern in patterns)]

    recommended = [
        Recommended(
            number,
            level,
            matching(level.files),
            {key: files for key, variant in level.variants.items() if (files := matching(variant.files))},
        )
        for number, level in procedure.levels.items()
    ]
    others = sorted({name for each in recommended[1:] for name in each.all_files})
    if recommended and not recommended[0].files and others:
        recommended[0] = Recommended(recommended[0].number, recommended[0].level, others, {})
    return recommended


def commands(recommended: Sequence[Recommended], start: str) -> list[str]:
    """Return the commands that run every level that is called for; ``start`` starts the procedure."""
    plain = [
        each for each in recommended if each.files and not all(variant.on_request for variant in each.level.variants.values())
    ]
    lines = [f"{start} --level {','.join(str(each.number) for each in plain)}"] if plain else []
    return lines + [
        " ".join([start, "--level", _with_earlier(each), "--variant", key, *each.level.variants[key].example])
        for each in recommended
        for key in each.variants
    ]


def _with_earlier(each: Recommended) -> str:
    """Return a level for ``--level``, with those after which alone it counts: they may not have passed with that model."""
    return ",".join(map(str, [*each.level.after, each.number]))


def start(procedure: Description, env: Mapping[str, str]) -> str:
    """Return how the procedure is started in any shell: the checkouts' variables, and its script.

    A variable that is not set here is asked for by the shell in which the command is pasted.
    """
    words = [
        f"{one.variable}={shlex.quote(value)}"
        if (value := env.get(one.variable))
        else f'{one.variable}="${{{one.variable}:?the {name} checkout}}"'
        for name, one in procedure.checkouts.items()
    ]
    return " ".join([*words, procedure.command])


def show(recommended: Sequence[Recommended], changed: Sequence[str], start: str) -> str:
    """Return the levels for a person, and the commands that run those that are required."""
    lines = [f"{len(changed)} changed files"]
    for each in recommended:
        mark, asked = "yes" if each.called_for else "no ", "  (only on request)" if each.level.on_request else ""
        lines.append(f"level {each.number}  {mark}  {each.level.title}: {each.level.when}{asked}")
        lines += [f"              variant {key}: {each.level.variants[key].title}" for key in each.variants]
        lines += [f"              {name}" for name in each.all_files[:MOST_FILES]]
        lines += [f"              … {len(each.all_files) - MOST_FILES} more"] if len(each.all_files) > MOST_FILES else []
    wanted = commands(recommended, start)
    return "\n".join([*lines, "", *(wanted or ["no level: the trainer reads none of the changed files"])])
