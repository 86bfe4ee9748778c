"""What a run was asked for, checked before anything is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..base.errors import BadInput
from ..diagnosis import learning
from . import checkouts, description, matrix, wrapper
from .description import Description
from .matrix import Planned


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; kept in ``run.json``, so that a resume asks for the same."""

    description: str
    levels: list[int]
    variants: list[str] = []
    env: dict[str, str] = {}
    """The user's variables that are passed on to the wrapper, and --model's."""
    overrides: list[str] = []
    tests: list[str] = []
    steps: int | None = None
    baseline: str = ""
    """A log or metrics file of a baseline run, or a checkout of the unchanged code, which is then run too."""
    setup: str = ""
    """A shell command that makes the environment ready, e.g. a container's; it is evidence, no change of a checkout."""
    image: str = ""
    """The container's image with its exact tag; only told in the report."""
    timeout_s: float = 7200
    stall_s: float = 1800
    checkouts: dict[str, str] = {}


def request_from(
    name: str,
    levels: str,
    variants: Sequence[str],
    model: str,
    env: Mapping[str, str],
    **options: Any,
) -> Request:
    """A checked request from options and the environment. Raises BadInput."""
    found = description.load(name)
    given = {key: env[key] for key in found.passed_on if env.get(key)}
    if model:
        local = Path(model).expanduser()
        if model.startswith(("/", ".", "~")):
            if not (local / "config.json").is_file():
                raise BadInput(
                    f"--model {model} is no folder with a model (no config.json)",
                    hint="--model ORG/NAME, or a folder with config.json",
                )
            given |= {found.model.path_variable: str(local.resolve()), found.model.id_variable: local.resolve().name}
        else:
            given[found.model.id_variable] = model
    wrapper.check_overrides(options.get("overrides", []))
    paths = checkouts.find(found, env)
    if baseline := options.get("baseline"):
        if not any(found.levels[number].learning for number in matrix.levels_of(found, levels)):
            known = ", ".join(str(number) for number, level in found.levels.items() if level.learning)
            raise BadInput(f"--baseline is for a learning signal, which none of the levels is: {known}")
        if Path(baseline).is_dir():
            subject = msgspec.structs.replace(found.checkouts[found.subject], variable="--baseline")
            only = msgspec.structs.replace(found, checkouts={found.subject: subject})
            options["baseline"] = str(checkouts.find(only, {"--baseline": baseline})[found.subject])
        else:
            learning.read(Path(baseline))
            options["baseline"] = str(Path(baseline).resolve())
    request = Request(
        description=str(Path(name).resolve()) if name.endswith(".yaml") else name,
        levels=matrix.levels_of(found, levels),
        variants=list(variants),
        env=given,
        checkouts={key: str(path) for key, path in paths.items()},
        **options,
    )
    planned_of(found, request)
    return request


def planned_of(found: Description, request: Request) -> list[Planned]:
    baseline = bool(request.baseline) and Path(request.baseline).is_dir()
    return matrix.plan(found, request.levels, request.variants, request.env, request.overrides, request.steps, baseline)
