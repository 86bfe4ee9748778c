"""Which runs a request means, each with its exact environment and overrides; and which levels a change calls for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..base.errors import BadInput, did_you_mean
from .description import Description, Level, Limitation, Run, Variant

OFF = ("false", "null", "none", "0", "disabled", "off", "")
"""Values that switch a feature off."""


@dataclass(frozen=True)
class Planned:
    """One start of the wrapper: level and variant, what it sets, and which steps it must train."""

    number: int
    key: str
    level: Level
    variant: Variant
    run: Run
    env: dict[str, str]
    overrides: list[str]
    steps: list[int]
    baseline: bool = False
    """The same run of the unchanged code, to compare with."""

    @property
    def name(self) -> str:
        """``level-1-save``, or ``level-2-dense-stress`` where the level has variants."""
        variant = f"-{self.key}" if len(self.level.variants) > 1 else ""
        return f"level-{self.number}{variant}-{'baseline' if self.baseline else self.run.name}"

    @property
    def group(self) -> str:
        """Runs that follow each other in one folder, a checkpoint going from one to the next."""
        return f"level-{self.number}-{self.key}{'-baseline' if self.baseline else ''}"


def levels_of(description: Description, text: str) -> list[int]:
    """``0,1`` or ``1 2`` as numbers of levels, each once. Raises BadInput."""
    found: list[int] = []
    for word in re.split(r"[,\s]+", text.strip()):
        if not word.isdigit() or int(word) not in description.levels:
            known = ", ".join(map(str, description.levels))
            raise BadInput(f"'{word}' is no level of {description.name}: {known}", hint="--level 0, or --level 0,1")
        if int(word) not in found:
            found.append(int(word))
    return found


def plan(
    description: Description,
    levels: Sequence[int],
    variants: Sequence[str],
    given: Mapping[str, str],
    overrides: Sequence[str],
    steps: int | None = None,
    baseline: bool = False,
) -> list[Planned]:
    """The runs of the levels in order. ``given``: variables that the user chose, of those the description passes on;
    ``baseline``: before each run whose metrics are judged the same one of the unchanged code.

    Raises:
        BadInput: an unknown variant, one whose level was not asked for, or one that lacks the overrides it needs.
    """
    known: dict[str, list[int]] = {}
    for number, level in description.levels.items():
        for key in level.variants if len(level.variants) > 1 else ():
            known.setdefault(key, []).append(number)
    for key in variants:
        if key not in known:
            names = ", ".join(f"{name} (level {_either(numbers)})" for name, numbers in known.items())
            raise BadInput(f"unknown variant '{key}'{did_you_mean(key, known)}", hint=names)
        if not set(known[key]) & set(levels):
            raise BadInput(
                f"the variant '{key}' belongs to level {_either(known[key])}, which was not asked for",
                hint=f"--level {known[key][0]}",
            )
    planned = []
    for number in levels:
        level = description.levels[number]
        chosen = [key for key in level.variants if key in variants] or [
            key for key, variant in level.variants.items() if not variant.on_request
        ]
        if not chosen:
            raise BadInput(f"level {number} ({level.title}) needs a variant", hint=f"--variant {'|'.join(level.variants)}")
        for key in chosen:
            variant = level.variants[key]
            _check_feature(number, key, variant, overrides)
            for run in variant.runs:
                env = description.env | run.env | dict(given)
                if (dummy := description.model.dummy) and env.get(dummy.switch) == "True":
                    # A folder that exists is taken as it is, whatever model is in it.
                    env.setdefault(dummy.path, "{run}/dummy-model")
                own = list(run.steps)
                if steps is not None and level.learning:
                    own = [own[0], steps]
                    env |= {name: str(steps) for name, value in run.env.items() if value == str(run.steps[1])}
                one = Planned(number, key, level, variant, run, env, [*run.overrides, *overrides], own)
                planned += [replace(one, baseline=True), one] if baseline and level.learning else [one]
    return planned


def _either(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))


def _check_feature(number: int, key: str, variant: Variant, overrides: Sequence[str]) -> None:
    if not variant.needs_overrides:
        return
    on = [text.partition("=") for text in overrides if not text.startswith("~")]
    keys = [name.lstrip("+") for name, _, value in on if value.lower() not in OFF]
    if not any(re.search(pattern, name) for name in keys for pattern in variant.proves):
        raise BadInput(
            f"level {number}, {key}: {variant.needs_overrides}",
            hint="--override KEY=VALUE that switches it on; it is recorded in the report",
        )


@dataclass(frozen=True)
class Recommended:
    """A level, whether the change calls for it, and why."""

    number: int
    level: Level
    files: list[str]

    @property
    def called_for(self) -> bool:
        return bool(self.files)


def recommend(description: Description, changed: Sequence[str]) -> list[Recommended]:
    """For each level the changed files that call for it; the first level is called for by any of the others."""
    found = []
    for number, level in description.levels.items():
        files = [
            name
            for name in changed
            if re.search(description.source, name) and any(re.search(pattern, name) for pattern in level.files)
        ]
        found.append(Recommended(number, level, files))
    others = sorted({name for one in found[1:] for name in one.files})
    if found and not found[0].files and others:
        found[0] = Recommended(found[0].number, found[0].level, others)
    return found


def gpus_needed(description: Description, env: Mapping[str, str]) -> tuple[int, str]:
    """How many GPUs the sizes need at least (a multiple of it is fine too), and how that comes about."""
    parallel = description.parallel
    sizes = {name: _size(env.get(name, "1"), name) for name in [*parallel.sizes, *parallel.expert, *parallel.inference]}
    dense = 1
    for name in parallel.sizes:
        dense *= sizes[name]
    # Experts are spread over the same GPUs as the dense part: EP * ETP * PP must divide their number too.
    expert = 1
    for name in parallel.expert:
        expert *= sizes[name]
    if expert > 1:
        expert *= sizes[parallel.sizes[0]]
    together = _lcm(_lcm(dense, expert), *(sizes[name] for name in parallel.inference))
    words = "·".join(f"{name}={size}" for name, size in sizes.items() if size > 1) or "all parallel sizes 1"
    return together, words


def _size(text: str, name: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise BadInput(f"{name}={text} is not a parallel size")
    return int(text)


def _lcm(*numbers: int) -> int:
    import math

    return math.lcm(*numbers)


def limitations(description: Description, planned: Sequence[Planned], overrides: Sequence[str] = ()) -> list[str]:
    """What none of the runs shows, each once: derived from their environments and overrides, not from what was intended."""

    def applies(limit: Limitation, one: Planned) -> bool:
        texts = [*one.overrides, *overrides]
        return (
            all(_matches(one.env.get(name, ""), value) for name, value in limit.env.items())
            and (not limit.override or any(re.search(limit.override, text) for text in texts))
            and not (limit.unless_override and any(re.search(limit.unless_override, text) for text in texts))
        )

    found = [limit.text for limit in description.limitations if planned and all(applies(limit, one) for one in planned)]
    found += [one.variant.limitation for one in planned if one.variant.limitation]
    return list(dict.fromkeys(found))


def _matches(value: str, wanted: str) -> bool:
    return bool(re.search(wanted[1:], value)) if wanted.startswith("~") else value == wanted
