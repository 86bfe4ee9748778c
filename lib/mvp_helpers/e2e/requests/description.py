"""An end-to-end procedure as data: ``templates/e2e/*.yaml``. To add a level, edit these files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...base.documents import convert, parse
from ...base.errors import BadInput, did_you_mean
from ...base.project import PROJECT
from ...trainers import trainer
from ...trainers.metric_names import MetricNames
from ...trainers.trainer import ABSENT, Trainer, at_key
from .parts import (
    Checkout,
    DataFile,
    Expect,
    Import,
    Level,
    Limitation,
    LocalCopy,
    Model,
    Package,
    Preparation,
    Refusal,
    RewardModel,
    StepCount,
    Tests,
    Wrapper,
)

FOLDER = PROJECT / "templates" / "e2e"
FEWEST_STEPS = 10
"""Fewer steps show no trend."""


class Description(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    title: str
    trainer: str
    """A trainer of this project by its name, or a Python file, relative to the description, that exposes one."""
    command: str
    """How a person starts this procedure."""
    subject: str
    """The checkout whose code is being tested."""
    checkouts: dict[str, Checkout]
    imports: list[Import]
    packages: list[Package] = []
    local_copies: list[LocalCopy] = []
    data: list[DataFile] = []
    train_data: str = ""
    """The config key with the training files."""
    preparation: Preparation | None = None
    model: Model
    reward_model: RewardModel | None = None
    wrapper: Wrapper
    step_count: StepCount
    env: dict[str, str] = {}
    """Level 0's environment, below that of every run."""
    harmless: dict[str, str] = {}
    """Variables that an older script does not read, with the value that it has anyway."""
    equivalents: dict[str, list[str]] = {}
    """Variables that a script may not read, with the config keys that are then set to their values."""
    replaced_by: dict[str, str] = {}
    """Variables of which a newer script reads another one in place: the user's choice of that one wins."""
    image_variable: str = ""
    """Names the container's image, unless --image does."""
    masks: dict[str, str] = {}
    """Config keys that no override may set, and why: a run with them would hide what it must show."""
    passed_on: list[str] = []
    """Variables whose user's value takes precedence over the levels'."""
    folders: dict[str, str] = {}
    """Variables of folders that the script writes when a switch is True: in the run's folder, unless the user names one."""
    adjustable: list[str] = []
    """The same, of variables that change how a run trains: each is named among the limitations."""
    refusals: list[Refusal] = []
    tests: list[Tests] = []
    expect: Expect = Expect()
    source: str = ""
    """Regular expression of changed files that the trainer can see at all; others require no level."""
    levels: dict[int, Level]
    limitations: list[Limitation] = []
    learning: dict[str, Any] = {}
    """Fields of the trainer's ``MetricNames`` that differ in this procedure."""
    deliverables: dict[str, str] = {}
    """Names in the summary that differ from the trainer's."""
    resolved: list[str] = []
    """Config keys whose resolved values are part of the evidence."""
    devices: str = "gpu"
    """``cpu``: needs no GPU."""

    def tested_modules(self) -> list[str]:
        """Return the paths that a traceback through the code under test names: megatron/bridge/."""
        return [f"{one.module.replace('.', '/')}/" for one in self.imports if one.under.startswith(f"{self.subject}:")]

    def load_trainer(self) -> Trainer:
        """Return its trainer. Raises BadInput."""
        return trainer.load(self.trainer)

    def metric_names(self) -> MetricNames:
        """Return which metrics mean what in this procedure. Raises BadInput."""
        known = msgspec.to_builtins(self.load_trainer().metrics)
        return convert({**known, **self.learning}, MetricNames, f"{self.name}: learning")


def names() -> list[str]:
    """Return the names of the descriptions in ``templates/e2e``."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def load(name: str) -> Description:
    """Return the description ``name``, or the one in the file ``name``. Raises BadInput."""
    file = Path(name) if name.endswith(".yaml") else FOLDER / f"{name}.yaml"
    document = _document(file, name)
    if str(document.get("trainer", "")).endswith(".py"):
        document["trainer"] = str((file.parent / document["trainer"]).resolve())
    if isinstance(levels := document.get("levels"), dict):
        document["levels"] = dict(sorted(levels.items(), key=lambda item: str(item[0])))
    description = convert(document, Description, str(file))
    _check_patterns(description, file)
    _check_runs(description, file)
    return description


def _document(file: Path, name: str) -> dict[str, Any]:
    """Return the description's fields, over those of the file that it ``extends``."""
    try:
        document = parse(file.read_bytes(), str(file))
    except OSError as error:
        raise BadInput(
            f"no description '{name}': {error.strerror}{did_you_mean(name, names())}", hint=f"one of {', '.join(names())}"
        ) from None
    base = document.pop("extends", "")
    return _merged(_document(file.parent / base, str(file.parent / base)), document) if base else document


def _merged(base: Mapping[Any, Any], over: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return ``base`` with the fields of ``over``, whose own come first; mappings are merged, everything else is replaced."""
    both = {key for key in over if isinstance(over[key], dict) and isinstance(base.get(key), dict)}
    own = {key: _merged(base[key], value) if key in both else value for key, value in over.items()}
    return {**own, **{key: value for key, value in base.items() if key not in own}}


def _check_patterns(description: Description, file: Path) -> None:
    for text in _patterns(description):
        try:
            re.compile(text)
        except re.error as error:
            raise BadInput(f"{file}: '{text}' is not a regular expression: {error}") from None


def _patterns(description: Description) -> Iterator[str]:
    yield description.source
    yield from description.metric_names().patterns()
    expected = [description.expect]
    for level in description.levels.values():
        yield from level.files
        expected.append(level.expect)
        for variant in level.variants.values():
            yield from (*variant.proves, variant.model_has, *variant.files)
            expected.append(variant.expect)
            for run in variant.runs:
                yield from (run.recipe.without if run.recipe else "", run.rerun.why if run.rerun else "")
                yield from (pattern for choice in run.choices for pattern in choice.lines)
    for expect in expected:
        yield from (*expect.lines, *expect.refuse, *expect.foreign, *expect.notes)
    for tests in [*description.tests, *(each for level in description.levels.values() for each in level.tests)]:
        yield from (*tests.minimum.values(), tests.having)


def _check_runs(description: Description, file: Path) -> None:
    for number, level in description.levels.items():
        for key, variant in level.variants.items():
            known: set[str] = set()
            for run in variant.runs:
                where = f"{file}: level {number}, {key}: '{run.name}'"
                if level.learning and run.steps[1] - run.steps[0] + 1 < FEWEST_STEPS:
                    raise BadInput(f"{where}: a learning signal needs at least {FEWEST_STEPS} steps, not {run.steps}")
                for steps in [run.steps, *run.trainings]:
                    if len(steps) != 2 or not 0 < steps[0] <= steps[1]:
                        raise BadInput(f"{where}: steps must be the first and the last step, as in [1, 20], not {steps}")
                if run.resumes and run.resumes not in known:
                    raise BadInput(f"{where} resumes '{run.resumes}', which does not come before it")
                if run.rerun and run.rerun.of not in known:
                    raise BadInput(f"{where} is a rerun of '{run.rerun.of}', which does not come before it")
                known.add(run.name)


def config_problems(config: Mapping[str, Any], wanted: Expect) -> list[str]:
    """Return where the resolved config differs from what the procedure expects of it."""
    problems = []
    for key, value in wanted.config.items():
        if (actual := at_key(config, key)) is ABSENT:
            problems += [] if wanted.absent.get(key, ABSENT) == value else [f"the resolved config has no {key}"]
        elif actual != value:
            problems.append(f"the resolved config has {key}={actual}, not {value}")
    for key in wanted.above_zero:
        actual = at_key(config, key)
        if isinstance(actual, bool) or not isinstance(actual, (int, float)) or actual <= 0:
            shown = "no value" if actual is ABSENT else actual
            problems.append(f"the resolved config has {key}={shown}, which must be above 0: this is not what the level means")
    for key in wanted.set:
        if (actual := at_key(config, key)) is ABSENT or not actual:
            problems.append(f"the resolved config has no value at {key}: this is not what the level means")
    return problems


def model_of(description: Description, env: Mapping[str, str], overrides: Sequence[str] = ()) -> str:
    """Return the path or the id of the model that a run uses; "" when its script decides."""
    model = description.model
    for text in reversed(overrides):
        key, _, value = text.lstrip("+").partition("=")
        if key in model.overrides:
            return value
    return env.get(model.path_variable) or env.get(model.id_variable, "")
