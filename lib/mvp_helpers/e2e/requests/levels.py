"""Which runs a request means, each with its exact environment and overrides, and what none of them shows. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ...base.errors import BadInput, did_you_mean
from ...trainers.trainer import ABSENT, Trainer, at_key
from .description import FEWEST_STEPS, Description
from .parts import Expect, Level, Limitation, Run, Tests, Variant, Wrapper

OFF = ("false", "null", "none", "0", "disabled", "off", "")
"""Values that switch a feature off."""


@dataclass(frozen=True)
class Planned:
    """One start of the script: level and variant, what it sets, and which steps it must train."""

    number: int
    key: str
    level: Level
    variant: Variant
    run: Run
    wrapper: Wrapper
    env: dict[str, str]
    overrides: list[str]
    steps: list[int]
    baseline: bool = False
    """The same run of the unchanged code, to compare with."""
    problem: str = ""
    """Why it cannot be done with this revision on this machine."""

    @property
    def name(self) -> str:
        """``level-1-save``, or ``level-2-dense-stress`` where the level has variants."""
        variant = f"-{self.key}" if len(self.level.variants) > 1 else ""
        return f"level-{self.number}{variant}-{'baseline' if self.baseline else self.run.name}"

    def beside(self, run: str) -> str:
        """Return the name of another run of the same variant."""
        return self.name.removesuffix(self.run.name) + run

    @property
    def group(self) -> str:
        """The folder of checkpoints of runs that resume each other, named after the first of them."""
        by_name = {run.name: run for run in self.variant.runs}
        run = self.run
        while run.resumes:
            run = by_name[run.resumes]
        return f"level-{self.number}-{self.key}-{'baseline' if self.baseline else run.name}"

    @property
    def trainings(self) -> list[list[int]]:
        """The first and the last step of each training that the script starts."""
        return self.run.trainings or [self.steps]

    def expects(self, description: Description) -> list[Expect]:
        """Return what is expected of each of these trainings."""
        common, own = self.expect(description), self.run.configs or [{}] * len(self.trainings)
        return [Expect(config=config).over(common) for config in own]

    def expect(self, description: Description) -> Expect:
        """Return what the procedure, the level and the variant expect together."""
        merged = description.expect
        for more in (self.level.expect, self.variant.expect):
            merged = more.over(merged)
        return merged


def levels_of(description: Description, text: str) -> list[int]:
    """Return the numbers of levels in ``0,1`` or ``2 1``, each once, in order. Raises BadInput."""
    numbers: list[int] = []
    for word in re.split(r"[,\s]+", text.strip()):
        if not word.isdecimal() or int(word) not in description.levels:
            known = ", ".join(map(str, description.levels))
            raise BadInput(f"{description.name} has no level {word!r} (levels: {known})", hint="--level 0, or --level 0,1")
        numbers.append(int(word))
    return sorted(set(numbers))


def plan(
    description: Description,
    levels: Sequence[int],
    variants: Sequence[str],
    given: Mapping[str, str],
    overrides: Sequence[str],
    steps: int | None = None,
    baseline: bool = False,
    script: str = "",
    recipe: str = "",
) -> list[Planned]:
    """Return the runs of the levels in order. ``given``: variables that the user chose, of those the description passes on;
    ``steps``: how far a learning signal goes; ``baseline``: before each run whose metrics are judged, one of the unchanged code;
    ``script``: the one that variants run that a feature switches on; ``recipe``: the config of runs that take one.

    Raises:
        BadInput: an unknown variant, one whose level was not requested, one that lacks the overrides it needs, too few steps, or
            variables that the description refuses.
    """
    if steps is not None and steps < FEWEST_STEPS:
        raise BadInput(f"--steps {steps}: a learning signal needs at least {FEWEST_STEPS} steps", hint="--steps 20")
    _check_variants(description, levels, variants)
    trainer, planned = description.load_trainer(), []
    for number in levels:
        level = description.levels[number]
        for key in _chosen(number, level, variants):
            variant = level.variants[key]
            _check_feature(trainer, number, key, variant, overrides)
            for run in variant.runs:
                last = steps if steps is not None and level.learning else run.steps[1]
                one = _planned(description, (number, key, level, variant, run), given, overrides, last)
                if script and variant.needs_overrides:
                    one = replace(one, wrapper=msgspec.structs.replace(one.wrapper, script=script))
                planned += [replace(one, baseline=True), one] if baseline and level.learning else [one]
    if script and not any(one.wrapper.script == script for one in planned):
        raise BadInput(
            f"--script {script}: none of the requested levels has a variant with its own script",
            hint="--level 4 --variant NAME",
        )
    if recipe and not any(one.run.recipe for one in planned):
        known = [str(number) for number, level in description.levels.items() if _takes_recipe(level)]
        raise BadInput(
            f"--recipe {recipe}: none of the requested runs takes a recipe (levels that do: {', '.join(known) or 'none'})"
        )
    return planned


def _takes_recipe(level: Level) -> bool:
    return any(run.recipe for variant in level.variants.values() for run in variant.runs)


def _planned(
    description: Description,
    place: tuple[int, str, Level, Variant, Run],
    given: Mapping[str, str],
    overrides: Sequence[str],
    last: int,
) -> Planned:
    number, key, level, variant, run = place
    count = description.step_count
    counted = {count.variable: str(last)} if count.variable else {}
    env = {**description.env, **run.env, **counted, **given}
    for refusal in description.refusals:
        if refusal.env.items() <= env.items():
            raise BadInput(
                f"{' '.join(f'{name}={value}' for name, value in refusal.env.items())}: {refusal.text}", hint=refusal.hint
            )
    for name, switch in description.folders.items():
        if env.get(switch) == "True":
            # The script takes a folder that exists as it is, whatever model is in it.
            env.setdefault(name, f"{{run}}/{name.removesuffix('_PATH').lower().replace('_', '-')}")
    wrapper = description.wrapper
    for change in (level.wrapper, variant.wrapper, run.wrapper):
        wrapper = _changed(wrapper, change) if change else wrapper
    steps_key = wrapper.steps_key or count.override
    own = [*run.overrides, *([f"{steps_key}={last}"] if steps_key else []), *overrides]
    return Planned(number, key, level, variant, run, wrapper, env, own, [run.steps[0], last])


def _changed(wrapper: Wrapper, change: Wrapper) -> Wrapper:
    own = {name: value for name, value in msgspec.structs.asdict(change).items() if value not in ("", ".", [], False)}
    return msgspec.structs.replace(wrapper, **{**own, "overrides": [*wrapper.overrides, *change.overrides]})


def _check_variants(description: Description, levels: Sequence[int], variants: Sequence[str]) -> None:
    known: dict[str, list[int]] = {}
    for number, level in description.levels.items():
        for key in level.variants:
            known.setdefault(key, []).append(number)
    for key in variants:
        if key not in known:
            names = ", ".join(f"{name} (level {_either(numbers)})" for name, numbers in known.items())
            raise BadInput(f"unknown variant '{key}'{did_you_mean(key, known)}", hint=names)
        if not set(known[key]) & set(levels):
            raise BadInput(
                f"the variant '{key}' belongs to level {_either(known[key])}, which was not requested",
                hint=f"--level {known[key][0]}",
            )


def _chosen(number: int, level: Level, variants: Sequence[str]) -> list[str]:
    chosen = [key for key in level.variants if key in variants]
    chosen = chosen or [key for key, variant in level.variants.items() if not variant.on_request]
    if not chosen:
        raise BadInput(f"level {number} ({level.title}) needs a variant", hint=f"--variant {'|'.join(level.variants)}")
    return chosen


def _either(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))


def _check_feature(trainer: Trainer, number: int, key: str, variant: Variant, overrides: Sequence[str]) -> None:
    if not variant.needs_overrides:
        return
    settings = [trainer.setting(text) for text in overrides]
    keys = [name for name, value in settings if value.lower() not in OFF]
    if not any(re.search(pattern, name) for name in keys for pattern in variant.proves):
        raise BadInput(
            f"level {number}, {key}: {variant.needs_overrides}",
            hint="--override KEY=VALUE that switches it on; the report names it",
        )


def tests_of(description: Description, levels: Sequence[int]) -> list[Tests]:
    """Return the lists of tests of the procedure and of the levels; lists of the same name are one."""
    merged: dict[str, Tests] = {}
    for tests in [*description.tests, *(one for number in levels for one in description.levels[number].tests)]:
        earlier = merged.get(tests.name)
        paths = [*(earlier.paths if earlier else ()), *tests.paths]
        merged[tests.name] = msgspec.structs.replace(earlier or tests, paths=list(dict.fromkeys(paths)))
    return list(merged.values())


def limitations(
    description: Description,
    planned: Sequence[Planned],
    configs: Mapping[str, Mapping[str, Any]],
    overrides: Sequence[str] = (),
    ignored: Mapping[str, Collection[str]] | None = None,
) -> list[str]:
    """Return what none of the runs shows, each once: derived from their environments and resolved ``configs``, by run.

    ``ignored``: variables without effect, by run.
    """

    def applies(limit: Limitation, one: Planned) -> bool:
        config, texts = configs.get(one.name, {}), [*one.overrides, *overrides]
        return (
            all(_matches(one.env.get(name, ""), value) for name, value in limit.env.items())
            and all(_matches(at_key(config, key), value) for key, value in limit.config.items())
            and not (limit.unless_override and any(re.search(limit.unless_override, text) for text in texts))
        )

    limits = [limit.text for limit in description.limitations if planned and all(applies(limit, one) for one in planned)]
    limits += [one.variant.limitation for one in planned if one.variant.limitation]
    own = [
        (name, value)
        for one in planned
        for name, value in one.env.items()
        if name in description.adjustable and name not in (ignored or {}).get(one.name, ())
    ]
    limits += [
        f"{name}={value} from your environment: the run does not use the default"
        for name, value in own
        if value != description.env.get(name)
    ]
    return list(dict.fromkeys(limits))


def _matches(value: Any, wanted: Any) -> bool:
    by_pattern = isinstance(wanted, str) and wanted.startswith("~")
    return bool(re.search(wanted[1:], "" if value is ABSENT else str(value))) if by_pattern else value == wanted
