"""What of a run depends on this revision of the checkout and on the machine: script, recipe, and the spelling of overrides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..base.errors import BadInput, Blocked
from ..trainers.trainer import at_key
from . import environment
from .requests.description import config_problems
from .requests.levels import Planned
from .requests.parts import Choice, Expect, Recipe, Tests

if TYPE_CHECKING:
    from .context import Context

NODE = 8
"""GPUs for which a recipe is chosen where this machine has none and ``E2E_GPUS`` is not set."""
_SIZE = re.compile(r"(?<![0-9a-z])(\d+)n(\d+)g(?![0-9a-z])")


def adapted(context: Context, planned: Sequence[Planned]) -> tuple[list[Planned], list[str]]:
    """Return the runs as this revision can do them, and a sentence for each that is left out. Raises BadInput for E2E_GPUS."""
    runs: list[Planned] = []
    left_out: list[str] = []
    for one in planned:
        own = _with_choice(context, _with_recipe(context, one))
        problem = own.problem or _missing_script(context, one)
        if problem and one.run.where_present:
            left_out.append(f"{one.name} is left out: {problem}")
        else:
            runs.append(own)
    return runs, left_out


def tests_of(context: Context, lists: Sequence[Tests]) -> tuple[list[Tests], list[str]]:
    """Return the lists of tests with the files that this revision means for them, and a sentence for each that has none."""
    kept, left_out = [], []
    for tests in lists:
        there = [path for path in tests.paths if (context.paths[tests.checkout] / path).is_file()]
        own = [
            path for path in there if re.search(tests.having, (context.paths[tests.checkout] / path).read_text(errors="replace"))
        ]
        if there and not own:
            left_out.append(f"{tests.name} is left out: this revision marks none of {', '.join(there)} for it")
        else:
            kept.append(msgspec.structs.replace(tests, paths=[path for path in tests.paths if path in own or path not in there]))
    return kept, left_out


def _missing_script(context: Context, one: Planned) -> str:
    try:
        context.script(one)
    except Blocked as error:
        return error.what
    return ""


def gpus(env: Mapping[str, str]) -> int:
    """Return for how many GPUs a recipe is chosen: ``E2E_GPUS``, those of this machine, or those of a usual node."""
    given = env.get("E2E_GPUS", "")
    if given and not (given.isdecimal() and int(given)):
        raise BadInput(f"E2E_GPUS={given} is not a number of GPUs")
    return int(given or 0) or environment.gpus(env)[0] or NODE


def recipes(wanted: Recipe, checkout: Path, count: int) -> Iterator[str]:
    """Yield the recipes for this many GPUs, by their names, as paths in the checkout."""
    for pattern in wanted.files:
        for file in sorted(checkout.glob(pattern)):
            size = _SIZE.search(file.stem)
            fits = size and int(size[1]) * int(size[2]) == count
            if fits and not (wanted.without and re.search(wanted.without, file.name)):
                yield str(file.relative_to(checkout))


def recipe_problem(wanted: Recipe, config: Mapping[str, Any]) -> str:
    """Return why a recipe's resolved config does not exercise what it is there for; "" when it does."""
    values = {key: at_key(config, key) for key in wanted.above_one}
    if any(isinstance(value, int) and value > 1 for value in values.values()):
        return ""
    return f"none of {', '.join(values)} is above 1 in the resolved config"


def _with_recipe(context: Context, one: Planned) -> Planned:
    if not (wanted := one.run.recipe):
        return one

    def using(name: str) -> Planned:
        return replace(one, env={key: value.replace("{recipe}", name) for key, value in one.env.items()})

    checkout = context.checkout(one)
    if given := context.request.recipe:
        if not (checkout / given).is_file():
            return replace(one, problem=f"--recipe {given}: {checkout} has no such file")
        return using(given)
    count = gpus(context.base)
    for name in recipes(wanted, checkout, count):
        if _accepts(context, using(name), wanted):
            return using(name)
    keys = ", ".join(key.rpartition(".")[2] for key in wanted.above_one)
    return replace(
        one, problem=f"no recipe of this revision is for {count} GPUs with one of {keys} above 1: --recipe FILE, or E2E_GPUS=N"
    )


def _accepts(context: Context, one: Planned, wanted: Recipe) -> bool:
    trainer, expected = context.trainer, one.expect(context.description)
    try:
        composed = [trainer.compose(launch, context.checkout(one)) for launch in context.launches(one)]
        return not any(
            each.problems
            or recipe_problem(wanted, each.config)
            or config_problems(each.config, expected)
            or trainer.refusals(each.config)
            or trainer.gpus(each.config).problem()
            for each in composed
        )
    except (BadInput, Blocked):
        return False


def _with_choice(context: Context, one: Planned) -> Planned:
    """Return the run with the first choice that this revision accepts; with the last one when it accepts none."""
    if not one.run.choices or one.problem:
        return one
    for choice in one.run.choices:
        own = chosen(one, choice)
        try:
            launches = context.launches(own)
        except Blocked:
            return own
        if not any(context.trainer.compose(launch, context.checkout(own)).problems for launch in launches):
            return own
    return own


def chosen(one: Planned, choice: Choice) -> Planned:
    """Return the run with a choice: its overrides before the user's, and the lines that it must show."""
    expect = Expect(lines=choice.lines).over(one.variant.expect)

    overrides = [*choice.overrides, *one.overrides]
    return replace(one, overrides=overrides, variant=msgspec.structs.replace(one.variant, expect=expect))
