"""What one end-to-end procedure is, as data: ``templates/e2e/*.yaml``. Adding a level is an edit there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from ..base.documents import convert, parse
from ..base.errors import BadInput, did_you_mean
from ..base.project import PROJECT
from ..trainers import metric_names
from ..trainers.metric_names import MetricNames

FOLDER = PROJECT / "templates" / "e2e"


class Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every part of a description is."""


class Checkout(Data, frozen=True, kw_only=True):
    """A git checkout that a variable names. ``holds``: paths that prove that it is the right one."""

    variable: str
    holds: list[str]
    pythonpath: list[str]
    """Folders in it that Python imports from, in this order."""


class Import(Data, frozen=True, kw_only=True):
    """``module`` must come from below ``under`` (checkout:folder)."""

    module: str
    under: str


class Package(Data, frozen=True, kw_only=True):
    """A distribution or module that the wrapper's interpreter needs; ``needed: false`` is a note only."""

    module: str
    install: str
    needed: bool = True
    only_if: dict[str, str] = {}
    """Only when the level's environment has these values."""


class DataFile(Data, frozen=True, kw_only=True):
    """A parquet file that a variable names; ``columns`` it must have."""

    variable: str
    default: str
    columns: list[str]


class Preparation(Data, frozen=True, kw_only=True):
    """The checkout's own script that makes the data."""

    command: list[str]
    checkout: str


class Dummy(Data, frozen=True, kw_only=True):
    """Variables with which the wrapper makes a model of random weights: ``switch`` (True), its config, and the new folder."""

    switch: str
    config: str
    path: str


class Model(Data, frozen=True, kw_only=True):
    """Where the model is looked for; ``~`` is the user's home."""

    id_variable: str
    path_variable: str
    default: str
    """With {MODEL_ID}."""
    dummy: Dummy | None = None


class RewardModel(Data, frozen=True, kw_only=True):
    variable: str
    default: str
    enabled_by: list[str]
    """Config keys, of which the checkout has one: the newest first."""
    limitation: str


class Wrapper(Data, frozen=True, kw_only=True):
    """The checkout's own script, and the trainer that it starts with a Hydra config."""

    checkout: str
    script: str
    """Relative to the checkout, where it is started; {project} is this project."""
    module: str
    config_dir: str
    config_name: str
    overrides: list[str] = []
    """Given to every run, with {pythonpath}, {checkpoints} and {hydra} filled."""


class Parallel(Data, frozen=True, kw_only=True):
    """The parallel sizes of the trained model, by the variable that sets each, and who else needs GPUs."""

    gpus: str
    sizes: list[str]
    expert: list[str] = []
    inference: list[str] = []


class Expect(Data, frozen=True, kw_only=True):
    """A value in the resolved config, and the line with which the wrapper shows it."""

    config: dict[str, Any] = {}
    xtrace: dict[str, str] = {}
    refuse: dict[str, str] = {}
    """Regular expressions of lines that make everything else worthless, and why."""


class Lines(Data, frozen=True, kw_only=True):
    """How the log tells things (regular expressions)."""

    step: str
    finished: str
    resumed: str
    scratch: str
    trainable: str


class Run(Data, frozen=True, kw_only=True):
    """One start of the wrapper."""

    name: str
    env: dict[str, str] = {}
    overrides: list[str] = []
    steps: list[int]
    """First and last step that it must train."""
    resumes: str = ""
    """The run of this level whose checkpoint it goes on from."""


class Variant(Data, frozen=True, kw_only=True):
    """Runs of a level that are one alternative of several; ``on_request``: only when named."""

    title: str
    runs: list[Run]
    on_request: bool = False
    needs_overrides: str = ""
    """Why it cannot pass without overrides that switch the feature on."""
    proves: list[str] = []
    """Regular expressions of config keys of which an override must set one for the feature to be on."""
    expect: dict[str, Any] = {}
    """Values of the resolved config without which the run is not this variant's."""
    model_has: str = ""
    """Regular expression of a key in the model's config.json that a model with the feature has."""
    data_has: list[str] = []
    """Config keys that name columns, of which the training data must have one that is not empty."""
    limitation: str = ""


class Level(Data, frozen=True, kw_only=True):
    title: str
    when: str
    """When a change calls for it: shown by --recommend."""
    files: list[str] = []
    """Regular expressions of changed files that call for it."""
    on_request: bool = False
    """Never recommended by files alone, and run only when named."""
    variants: dict[str, Variant]
    learning: bool = False
    """Its metrics are judged as a learning signal."""


class Limitation(Data, frozen=True, kw_only=True):
    """Words for the summary when every run's environment has these values (one that begins with ~ is a regular expression)."""

    env: dict[str, str] = {}
    override: str = ""
    unless_override: str = ""
    text: str


class Description(Data, frozen=True, kw_only=True):
    name: str
    title: str
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
    parallel: Parallel
    env: dict[str, str]
    """Level 0's environment, below that of every run."""
    harmless: dict[str, str] = {}
    """Variables an older wrapper does not read, with the value that it has anyway."""
    passed_on: list[str] = []
    """Variables of which the user's own value wins over the levels'."""
    tests_checkout: str = ""
    tests: list[str] = []
    expect: Expect = Expect()
    lines: Lines
    source: str = ""
    """Regular expression of changed files that the trainer can see at all; others call for no level."""
    levels: dict[int, Level]
    limitations: list[Limitation] = []
    learning: MetricNames = metric_names.VERL
    resolved: list[str] = []
    """Config keys whose resolved values are part of the evidence."""
    devices: str = "gpu"
    """``cpu``: needs no GPU."""


def names() -> list[str]:
    """The descriptions there are."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def load(name: str) -> Description:
    """The description ``name``, or that in the file ``name``. Raises BadInput."""
    file = Path(name) if name.endswith(".yaml") else FOLDER / f"{name}.yaml"
    try:
        found = convert(parse(file.read_bytes(), str(file)), Description, str(file))
    except OSError as error:
        raise BadInput(
            f"no description '{name}': {error.strerror}{did_you_mean(name, names())}", hint=f"one of {', '.join(names())}"
        ) from None
    for text in _patterns(found):
        try:
            re.compile(text)
        except re.error as error:
            raise BadInput(f"{file}: '{text}' is not a regular expression: {error}") from None
    for number, level in found.levels.items():
        for key, variant in level.variants.items():
            known: list[str] = []
            for run in variant.runs:
                if run.resumes and run.resumes not in known:
                    raise BadInput(
                        f"{file}: level {number}, {key}: '{run.name}' resumes '{run.resumes}', which does not come before it"
                    )
                known.append(run.name)
    return found


def _patterns(found: Description) -> list[str]:
    texts = [*msgspec.structs.asdict(found.lines).values(), *found.expect.refuse]
    texts += [found.source, *found.learning.patterns()]
    for level in found.levels.values():
        texts += level.files
        texts += [text for variant in level.variants.values() for text in (*variant.proves, variant.model_has)]
    return texts
