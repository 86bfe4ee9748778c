"""The parts of a description of an end-to-end procedure, as data: checkouts, models, scripts, tests, evidence, runs, levels."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec


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


class LocalCopy(Data, frozen=True, kw_only=True):
    """A part of a checkout that is copied to a node-local folder, and built there, when ``variable`` names that folder."""

    of: str
    """checkout:folder, one that Python imports from."""
    variable: str
    build: list[str]
    """The command, with {copy} and {suffix}, the suffix of an extension module of the trainer's interpreter."""
    leaves: str
    """The file in the copy that the build must leave, with {suffix}."""


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
    """Variables with which the script makes a model of random weights: ``switch`` (True), and its config."""

    switch: str
    config: str


class Model(Data, frozen=True, kw_only=True):
    """How a run is given its model: by variables, or by ``overrides``, each of which is set to the model."""

    id_variable: str = ""
    path_variable: str = ""
    default: str = ""
    """The folder of a model that only its id names, with {id}; "": the trainer finds it by its id. ``~`` is the user's home."""
    overrides: list[str] = []
    verify: bool = False
    """A folder must load (config and tokenizer) in the trainer's own environment without the network before a run."""
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
    worker_variable: str = ""
    """The argument that gives the variable {name} with {value} to a running cluster's workers: they have none of the shell's."""
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
    having: str = ""
    """Regular expression of a file's text: others do not belong to this list, whose flag would select nothing."""
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
    set: list[str] = []
    """Keys of the resolved config that must have a value: not null, false or empty."""
    xtrace: dict[str, str] = {}
    """Variables that the script shows with ``set -x``."""
    lines: dict[str, str] = {}
    """Regular expressions of lines that the log must have, and what each shows."""
    refuse: dict[str, str] = {}
    """Regular expressions of lines that make all other evidence worthless, and why."""
    foreign: list[str] = []
    """Regular expressions of lines that show code from another place than the checkouts: nothing was tested then."""
    notes: dict[str, str] = {}
    """Regular expressions of lines that do not change the verdict, and the limitation that each of them means."""
    assertions: list[str] = []
    """Comparisons of metrics (see steps/assertions.py), beside those that the script itself makes."""

    def over(self, base: Expect) -> Expect:
        """Return what ``base`` and this expect together; this one wins."""
        return Expect(
            config={**base.config, **self.config},
            absent={**base.absent, **self.absent},
            above_zero=list(dict.fromkeys([*base.above_zero, *self.above_zero])),
            set=list(dict.fromkeys([*base.set, *self.set])),
            xtrace={**base.xtrace, **self.xtrace},
            lines={**base.lines, **self.lines},
            refuse={**base.refuse, **self.refuse},
            foreign=list(dict.fromkeys([*base.foreign, *self.foreign])),
            notes={**base.notes, **self.notes},
            assertions=list(dict.fromkeys([*base.assertions, *self.assertions])),
        )


class Recipe(Data, frozen=True, kw_only=True):
    """A config of the checkout that suits the machine's GPUs; it takes the place of ``{recipe}`` in a run's environment.

    The first of ``files`` is taken whose name says as many GPUs (2n8g: 16), and whose resolved config the run accepts.
    """

    files: list[str]
    """Patterns (glob) of paths in the checkout."""
    without: str = ""
    """Regular expression of names that are left out."""
    above_one: list[str]
    """Config keys of which one at least must be above 1, also when the user names the recipe."""


class Choice(Data, frozen=True, kw_only=True):
    """Overrides that mean the same thing in different revisions: the first whose keys this revision has is used."""

    overrides: list[str]
    lines: dict[str, str] = {}
    """Regular expressions of lines that the log must have then, and what each shows."""


class Rerun(Data, frozen=True, kw_only=True):
    """A run that is done only when an earlier one of the variant failed, and that never makes up for it."""

    of: str
    why: str
    """Regular expression of a line of its log that calls for this run."""
    meaning: str
    """What it means when this run passes."""


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
    where_present: bool = False
    """Left out, with a limitation, where this revision has no such script, or no recipe for the GPUs."""
    rerun: Rerun | None = None
    recipe: Recipe | None = None
    choices: list[Choice] = []
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


class Refusal(Data, frozen=True, kw_only=True):
    """Variables that together make the script do what no run may do, with their values, and what that is."""

    env: Annotated[dict[str, str], msgspec.Meta(min_length=2)]
    text: str
    hint: str


class Limitation(Data, frozen=True, kw_only=True):
    """Words for the summary when every run has these values (one that begins with ~ is a regular expression)."""

    env: dict[str, str] = {}
    config: dict[str, Any] = {}
    """Values of every run's resolved config, whatever set them."""
    unless_override: str = ""
    text: str
