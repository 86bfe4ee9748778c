"""A request: what a run was asked for, checked before anything is made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...base.errors import BadInput, did_you_mean
from ...learning import learning_signal
from ...learning.metric_lines import Steps
from ...trainers.metric_names import MetricNames
from . import checkouts, description, levels
from .description import Description
from .levels import Planned


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Kept in ``run.json``, so that a resume asks for the same."""

    description: str
    levels: list[int]
    variants: list[str] = []
    env: dict[str, str] = {}
    """The user's variables that are passed on to the script, and --model's."""
    overrides: list[str] = []
    tests: list[str] = []
    steps: int | None = None
    baseline: str = ""
    """A log or metrics file of a baseline run, or a checkout of the unchanged code, which is then run too."""
    evidence: dict[str, str] = {}
    """Logs of lists of tests, by the list's name, from another environment, in place of running them here."""
    script: str = ""
    """The script, relative to the wrapper's checkout, for variants that a feature switches on."""
    recipe: str = ""
    """A config, relative to the wrapper's checkout, for runs that take one."""
    setup: str = ""
    """A shell command that makes the environment ready, for example a container's."""
    image: str = ""
    """The container's image with its exact tag, for the report."""
    timeout_s: float = 7200
    stall_s: float = 1800
    checkouts: dict[str, str] = {}


def request_from(
    name: str,
    chosen: str,
    variants: Sequence[str],
    model: str,
    env: Mapping[str, str],
    **options: Any,
) -> Request:
    """Return a checked request from options and the environment; ``chosen``: the levels. Raises BadInput."""
    procedure = description.load(name)
    given = {key: _absolute(procedure, key, env[key]) for key in (*procedure.passed_on, *procedure.adjustable) if env.get(key)}
    overrides = list(options.pop("overrides", []))
    if model:
        variables, settings = _model(procedure, model)
        path = procedure.model.path_variable
        if path in given and path not in variables:
            raise BadInput(
                f"--model {model} and {path}={given[path]} of your shell name two models", hint=f"unset {path}, or --model FOLDER"
            )
        given |= variables
        overrides = [*settings, *overrides]
    check_overrides(procedure, overrides)
    paths = checkouts.find(procedure, env)
    numbers = levels.levels_of(procedure, chosen)
    options["image"] = options.get("image") or env.get(procedure.image_variable, "")
    if options.get("baseline"):
        options["baseline"] = _baseline(procedure, options["baseline"], numbers, options.get("steps"))
    given_logs = options.pop("bridge_evidence", ""), options.pop("test_evidence", [])
    options["evidence"] = evidence(procedure, numbers, *given_logs)
    request = Request(
        description=str(Path(name).resolve()) if name.endswith(".yaml") else name,
        levels=numbers,
        variants=list(variants),
        env=given,
        overrides=overrides,
        checkouts={key: str(path) for key, path in paths.items()},
        **options,
    )
    planned_of(procedure, request)
    return request


def _model(procedure: Description, model: str) -> tuple[dict[str, str], list[str]]:
    """Return the variables and overrides with which a run gets its model (ORG/NAME, or a folder)."""
    folder = Path(model).expanduser()
    is_folder = model.startswith(("/", ".", "~"))
    if is_folder and not (folder / "config.json").is_file():
        raise BadInput(
            f"--model {model} is not a folder with a model (no config.json)",
            hint="--model ORG/NAME, or a folder with config.json",
        )
    value = str(folder.resolve()) if is_folder else model
    settings = [f"{key}={value}" for key in procedure.model.overrides]
    if is_folder and procedure.model.path_variable:
        return {procedure.model.path_variable: value, procedure.model.id_variable: folder.resolve().name}, settings
    return ({procedure.model.id_variable: model} if procedure.model.id_variable else {}), settings


def evidence(procedure: Description, numbers: Sequence[int], first: str, others: Sequence[str]) -> dict[str, str]:
    """Return the absolute paths of the logs of lists of tests, by name. Raises BadInput.

    ``first``: the log of the first list (--bridge-evidence); ``others``: NAME=LOG (--test-evidence).
    """
    names = [tests.name for tests in levels.tests_of(procedure, numbers)]
    given = [("--bridge-evidence", names[0] if names else "", first)] if first else []
    given += [("--test-evidence", *text.partition("=")[::2]) for text in others]
    logs = {}
    for option, name, log in given:
        if name not in names:
            raise BadInput(
                f"{option} {name}: the requested levels have no such list of tests{did_you_mean(name, names)}",
                hint=f"NAME=LOG with one of {', '.join(names)}",
            )
        if not log or not Path(log).expanduser().is_file():
            raise BadInput(f"{option} {log} is not a file", hint="the log of pytest from an environment that has it")
        logs[name] = str(Path(log).expanduser().resolve())
    return logs


def _absolute(procedure: Description, name: str, value: str) -> str:
    """Return a variable's path as an absolute one: the script is started in another folder."""
    model = procedure.model
    paths = {model.path_variable, *(data.variable for data in procedure.data), *procedure.folders}
    paths |= {procedure.reward_model.variable} if procedure.reward_model else set()
    paths |= {model.dummy.config} if model.dummy else set()
    is_relative = name in paths and not Path(value).is_absolute() and Path(value).expanduser().exists()
    return str(Path(value).expanduser().resolve()) if is_relative else value


def _baseline(procedure: Description, baseline: str, numbers: Sequence[int], steps: int | None) -> str:
    """Return the absolute path of a baseline: a checkout of the subject, or a file of metrics, healthy and of as many steps."""
    if not any(procedure.levels[number].learning for number in numbers):
        known = ", ".join(str(number) for number, level in procedure.levels.items() if level.learning)
        raise BadInput(f"--baseline: none of the levels judges a learning signal (levels that do: {known})")
    if Path(baseline).is_dir():
        subject = msgspec.structs.replace(procedure.checkouts[procedure.subject], variable="--baseline")
        only = msgspec.structs.replace(procedure, checkouts={procedure.subject: subject})
        return str(checkouts.find(only, {"--baseline": baseline})[procedure.subject])
    [wanted] = {
        (run.steps[0], steps or run.steps[1])
        for number in numbers
        if procedure.levels[number].learning
        for variant in procedure.levels[number].variants.values()
        for run in variant.runs[:1]
    }
    trained = procedure.load_trainer().training(learning_signal.read(Path(baseline)))
    if problem := baseline_problem(trained, procedure.metric_names(), wanted):
        raise BadInput(
            f"--baseline {baseline} is not a baseline: {problem}", hint=f"a run of the unchanged code, --steps {wanted[1]}"
        )
    return str(Path(baseline).resolve())


def baseline_problem(metrics: Steps, names: MetricNames, steps: Sequence[int]) -> str:
    """Return why metrics cannot be compared with a run of these steps, or are not healthy themselves; "" when they can."""
    trained = [step for step in sorted(metrics) if step > 0] or [0]
    if trained != list(range(steps[0], steps[1] + 1)):
        return f"it has steps {trained[0]} to {trained[-1]}, not all of {steps[0]} to {steps[1]}"
    signal = learning_signal.judge(metrics, names, steps)
    return "" if signal.verdict == "Pass" else f"it is not healthy itself: {signal.reason()}"


def check_overrides(procedure: Description, overrides: Sequence[str]) -> None:
    """Refuse overrides that the trainer cannot read, or that a script splits: it hands on ``$@`` unquoted. Raises BadInput."""
    trainer = procedure.load_trainer()
    for text in overrides:
        if bad := re.search(r"[\s*?]", text):
            raise BadInput(
                f"the override '{text}' contains {bad[0]!r}, at which the script would split or expand it",
                hint="an override without spaces, * and ?",
            )
        key, _ = trainer.setting(text)
        if why := procedure.masks.get(key):
            raise BadInput(f"the override '{text}' is refused: {why}", hint="remove it: a run with it proves nothing")


def planned_of(procedure: Description, request: Request) -> list[Planned]:
    """Return the runs that the request means. Raises BadInput."""
    baseline = bool(request.baseline) and Path(request.baseline).is_dir()
    return levels.plan(
        procedure,
        request.levels,
        request.variants,
        request.env,
        request.overrides,
        request.steps,
        baseline,
        request.script,
        request.recipe,
    )
