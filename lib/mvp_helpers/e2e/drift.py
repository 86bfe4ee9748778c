"""Step 5, before a GPU is used: does this revision of the checkout read the run's variables, and accept every override?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.errors import BadInput, Blocked
from ..base.project import PROJECT
from ..trainers import hydra
from . import wrapper
from .description import Description
from .wrapper import Preview

MISSING = object()


@dataclass(frozen=True)
class Checked:
    """One run against one revision. ``problems`` block it; ``notes`` say how it adapts; ``config`` is the resolved one."""

    preview: Preview | None
    config: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def script_of(description: Description, paths: Mapping[str, Path]) -> Path:
    """The wrapper. Raises Blocked when this revision has none at that place."""
    script = paths[description.wrapper.checkout] / description.wrapper.script.replace("{project}", str(PROJECT))
    if not script.is_file():
        raise Blocked(
            f"this {description.wrapper.checkout} checkout has no {description.wrapper.script}",
            hint="another revision of it, or correct the description in templates/e2e/",
        )
    return script


def check(
    description: Description,
    paths: Mapping[str, Path],
    env: Mapping[str, str],
    decided: Mapping[str, str],
    arguments: Sequence[str],
) -> Checked:
    """``decided``: the variables that the level itself sets, each of which must have an effect."""
    script = script_of(description, paths)
    checkout = paths[description.wrapper.checkout]
    read = wrapper.variables(script)
    problems, notes = [], []
    for name, value in decided.items():
        if name in read:
            continue
        if description.harmless.get(name) == value:
            notes.append(f"{name} is not read by this revision, which always behaves like {name}={value}")
        else:
            problems.append(
                f"{script.name} of this revision does not read {name} ({name}={value} is needed): it would be ignored silently"
            )
    device = "cpu" if description.devices == "cpu" else "cuda"
    try:
        preview = wrapper.preview(script, checkout, description.wrapper.module, env, arguments, device)
    except Blocked as error:
        return Checked(None, {}, [*problems, error.what], notes)
    try:
        config = _compose(description, checkout, preview)
    except (BadInput, Blocked) as error:
        return Checked(preview, {}, [*problems, f"its own Hydra config: {error.what}"], notes)
    for key, wanted in description.expect.config.items():
        found = select(config, key)
        if found is MISSING:
            problems.append(f"the resolved config has no {key}")
        elif found != wanted:
            problems.append(f"the resolved config has {key}={found}, not {wanted}")
    return Checked(preview, config, problems, notes)


def _compose(description: Description, checkout: Path, preview: Preview) -> dict[str, Any]:
    one = description.wrapper
    name = preview.option("config-name", one.config_name)
    # The same key given twice, as the wrapper's default and ours: Hydra takes the last.
    return hydra.compose(checkout / one.config_dir, name, preview.overrides)


def select(config: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key; an object of its own when there is none (see ``known``)."""
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


def known(config: Mapping[str, Any], keys: Sequence[str]) -> str:
    """The first of ``keys`` that the config has; "" when it has none."""
    return next((key for key in keys if select(config, key) is not MISSING), "")
