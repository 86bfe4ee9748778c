"""An end-to-end procedure as data: ``templates/e2e/*.yaml``. To add a level, edit these files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ...base.documents import convert, parse
from ...base.errors import BadInput, did_you_mean
from ...base.project import PROJECT
from ...trainers import trainer
from ...trainers.metric_names import MetricNames
from ...trainers.trainer import ABSENT, Trainer, at_key

FOLDER = PROJECT / "templates" / "e2e"
FEWEST_STEPS = 10
"""Fewer steps show no trend."""


class Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of every part of a description."""


class Checkout(Data, frozen=True, kw_only=True):
    """A git checkout that a variable names. ``holds``: paths that prove that it is the right repository."""

    variable: str
    holds: list[str]
    pythonpath: list[str]
    """Folders in it that Python imports from, in this order."""
    title: str = ""
    """Its name in the summary, where that differs from its key."""
    pinned: list[str] = []
    """Submodules that must be at the commit that this checkout records."""
    copies: list[str] = []
    """Where other checkouts carry a copy of it (checkout:folder): one counts in its place if commit and diff are equal."""


class Import(Data, frozen=True, kw_only=True):
    """``module`` must come from below ``under`` (checkout:folder)."""

    module: str
    under: str


class Package(Data, frozen=True, kw_only=True):
    """A module that the launch's interpreter needs."""

    module: str
    install: str
    only_if: dict[str, str] = {}
    """Only when the run's environment has these values."""


class DataFile(Data, frozen=True, kw_only=True):
    """A parquet or JSON-lines file that a variable names; ``columns`` it must have."""

    variable: str
    default: str
    columns: list[str]


class Preparation(Data, frozen=True, kw_only=True):
    """The checkout's own script that makes the data."""

    command: list[str]
    checkout: str
    source_variable: str = ""
    """Names a folder with the raw data; where that exists, ``source_option`` gives it to the script."""
    source_option: str = ""


class Dummy(Data, frozen=True, kw_only=True):
    """Variables with which the script makes a model of random weights: ``switch`` (True), its config, and the new folder."""

    switch: str
    config: str
    path: str


class Model(Data, frozen=True, kw_only=True):
    """How a run is given its model: by variables, or by ``overrides``, each of which is set to the model."""

    id_variable: str = ""
    path_variable: str = ""
    default: str = ""
    """The folder of a model that only its id names, with {id}; "": the trainer finds it by its id. ``~`` is the user's home."""
    overrides: list[str] = []
    dummy: Dummy | None = None


class RewardModel(Data, frozen=True, kw_only=True):
    """A model that is served beside the training, if it is there; else it is switched off."""

    variable: str
    default: str
    enabled_by: list[str]
    """Config keys; the checkout has one of them: the newest first."""


class Wrapper(Data, frozen=True, kw_only=True):
    """The script that starts the trainer. A level, variant or run may change some of it; its overrides are added."""

    checkout: str = ""
    script: str = ""
    """Relative to the checkout; {project} is this project."""
    cwd: str = "."
    """The folder in which it is started, relative to the checkout."""
    overrides: list[str] = []
    """Arguments with {pythonpath}, {checkpoints} and {run} (the run's folder) filled."""
    steps_key: str = ""
    """The config key of its number of steps, where that is not the procedure's."""
    keeps_outputs: bool = False
    """It decides itself where its trainings write: they differ, and one argument for all would mix them."""


class StepCount(Data, frozen=True, kw_only=True):
    """What sets the number of training steps: a variable, or the key of an override."""

    variable: str = ""
    override: str = ""


class Tests(Data, frozen=True, kw_only=True):
    """A list of focused tests, run by pytest in one checkout."""

    name: str
    title: str
    checkout: str
    paths: list[str]
    command: list[str] = []
    """The argv before the paths; by default pytest, through uv where uv and its lock file are."""
    optional: bool = False
    minimum: dict[str, str] = {}
    """What a new model needs beside the paths, and the regular expression of a test's path that shows it."""


class Expect(Data, frozen=True, kw_only=True):
    """Evidence without which a run does not pass."""

    config: dict[str, Any] = {}
    """Values of the resolved config of every training."""
    absent: dict[str, Any] = {}
    """Keys of ``config`` that an older revision lacks, with the value that it has anyway."""
    above_zero: list[str] = []
    """Keys of the resolved config whose value must be a number above 0."""
    xtrace: dict[str, str] = {}
    """Variables that the script shows with ``set -x``."""
    lines: dict[str, str] = {}
    """Regular expressions of lines that the log must have, and what each shows."""
    refuse: dict[str, str] = {}
    """Regular expressions of lines that make all other evidence worthless, and why."""
    foreign: list[str] = []
    """Regular expressions of lines that show code from another place than the checkouts: nothing was tested then."""
    assertions: list[str] = []
    """Comparisons of metrics (see steps/assertions.py), beside those that the script itself makes."""

    def over(self, base: Expect) -> Expect:
        """Return what ``base`` and this expect together; this one wins."""
        return Expect(
            config={**base.config, **self.config},
            absent={**base.absent, **self.absent},
            above_zero=list(dict.fromkeys([*base.above_zero, *self.above_zero])),
            xtrace={**base.xtrace, **self.xtrace},
            lines={**base.lines, **self.lines},
            refuse={**base.refuse, **self.refuse},
            foreign=list(dict.fromkeys([*base.foreign, *self.foreign])),
            assertions=list(dict.fromkeys([*base.assertions, *self.assertions])),
        )


class Run(Data, frozen=True, kw_only=True):
    """One start of the script."""

    name: str
    env: dict[str, str] = {}
    overrides: list[str] = []
    steps: list[int]
    """First and last step that it must train."""
    trainings: list[list[int]] = []
    """For a script that starts several trainings: the first and the last step of each, in order."""
    configs: list[dict[str, Any]] = []
    """Of such a script: values of each training's resolved config, beside those that are expected of all."""
    resumes: str = ""
    """The earlier run of this level whose checkpoint it loads."""
    saves: bool = False
    """It must leave a whole checkpoint of its last step."""
    optional: bool = False
    """Whatever its verdict, the runs after it are done, and it does not decide the result."""
    wrapper: Wrapper | None = None


class Variant(Data, frozen=True, kw_only=True):
    """Runs of a level that are one alternative of several; ``on_request``: only when named."""

    title: str
    runs: list[Run]
    on_request: bool = False
    needs_overrides: str = ""
    """Why it cannot pass without overrides that switch the feature on."""
    proves: list[str] = []
    """Regular expressions of config keys of which an override must set one for the feature to be on."""
    expect: Expect = Expect()
    model_has: str = ""
    """Regular expression of a key in the model's config.json that a model with the feature has."""
    data_has: list[str] = []
    """Config keys that name columns, of which the training data must have one that is not empty."""
    limitation: str = ""
    files: list[str] = []
    """Regular expressions of changed files that require it, where it runs only when named."""
    example: list[str] = []
    """More words of the command that --recommend prints for it: a model, the overrides that it needs."""
    wrapper: Wrapper | None = None


class Level(Data, frozen=True, kw_only=True):
    title: str
    when: str
    """When a change requires it: shown by --recommend."""
    files: list[str] = []
    """Regular expressions of changed files that require it."""
    on_request: bool = False
    """Never recommended by files alone, and run only when named."""
    variants: dict[str, Variant]
    after: list[int] = []
    """Levels that must have passed for the same code before it counts."""
    learning: bool = False
    """Its metrics are judged as a learning signal."""
    wrapper: Wrapper | None = None
    tests: list[Tests] = []
    """Further tests when this level is asked for."""
    expect: Expect = Expect()


class Limitation(Data, frozen=True, kw_only=True):
    """Words for the summary when every run's environment has these values (one that begins with ~ is a regular expression)."""

    env: dict[str, str] = {}
    config: dict[str, Any] = {}
    """Values of every run's resolved config, whatever set them."""
    unless_override: str = ""
    text: str


class Description(Data, frozen=True, kw_only=True):
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
    image_variable: str = ""
    """Names the container's image, unless --image does."""
    masks: dict[str, str] = {}
    """Config keys that no override may set, and why: a run with them would hide what it must show."""
    passed_on: list[str] = []
    """Variables whose user's value takes precedence over the levels'."""
    adjustable: list[str] = []
    """The same, of variables that change how a run trains: each is named among the limitations."""
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
    for expect in expected:
        yield from (*expect.lines, *expect.refuse, *expect.foreign)
    for tests in description.tests:
        yield from tests.minimum.values()


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
    return problems
