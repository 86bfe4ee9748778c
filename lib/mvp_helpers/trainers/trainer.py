"""What the toolkit must know of a trainer to drive it and judge its runs: one ``Trainer`` for each, assembled in its own module.

A module of this room, the module ``trainer`` of a package in it, or any Python file that a description names, exposes its trainer
as ``TRAINER``.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from ..base.errors import BadInput, Blocked, did_you_mean
from . import hydra, launch_preview
from .launch_preview import Launch
from .metric_names import MetricNames
from .patterns.lines import LogPatterns

Metrics = dict[int, dict[str, float]]
"""Values by step and by name."""
HERE = Path(__file__).parent
ABSENT = object()
"""What ``at_key`` returns for a key that a config does not have (None is a value)."""


@dataclass(frozen=True)
class Outputs:
    """Where a training must write, so that it resumes nothing stale and overwrites nothing in a checkout."""

    checkpoints: Path
    scratch: Path
    """For whatever else it writes."""


@dataclass(frozen=True)
class Composed:
    """A launch's config with everything resolved. ``problems`` say why the launch would be refused; then there is no config."""

    config: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Role:
    """A part of a training that uses GPUs. ``gpus`` must be a multiple of what its parallel sizes multiply to."""

    name: str
    gpus: int
    sizes: dict[str, int]
    """Parallel sizes above 1, by the name that a user knows."""
    multiple: int = 1


@dataclass(frozen=True)
class Gpus:
    """The GPUs that a training uses: roles that are colocated share them, others add up."""

    roles: list[Role]
    colocated: bool = True

    @property
    def total(self) -> int:
        counts = [role.gpus for role in self.roles]
        return max(counts, default=0) if self.colocated else sum(counts)

    @property
    def reason(self) -> str:
        """The parallel sizes, in one phrase."""
        sizes = {name: size for role in self.roles for name, size in role.sizes.items()}
        text = "·".join(f"{name}={size}" for name, size in sizes.items()) or "all parallel sizes 1"
        return text if self.colocated else f"{text}; {' + '.join(f'{role.name} {role.gpus}' for role in self.roles)}"

    def problem(self) -> str:
        """Return why the sizes do not fit the GPUs that the training is given; "" when they do."""
        if self.colocated:
            together = math.lcm(*(role.multiple for role in self.roles)) if self.roles else 1
            return f"{self.total} GPUs are not a multiple of {together} ({self.reason})" if self.total % together else ""
        uneven = next((role for role in self.roles if role.gpus % role.multiple), None)
        return f"{uneven.gpus} GPUs of {uneven.name} are not a multiple of {uneven.multiple} ({self.reason})" if uneven else ""


class Trainer(ABC):
    """One trainer. The methods that are not abstract fit a trainer with ``key=value`` arguments and metrics in its log."""

    name: str
    lines: LogPatterns
    metrics: MetricNames
    deliverables: ClassVar[Mapping[str, str]] = {}
    """Names of ``imports``, ``run``, ``variants`` and ``logs`` in the summary of an end-to-end run."""
    missing_interpreter: str = "install the program, or start the script in an image that has it"
    """What to do when the program that a launch begins with is not installed."""

    # launching

    @abstractmethod
    def is_launch(self, argv: Sequence[str]) -> bool:
        """Tell whether this command starts the trainer."""

    @abstractmethod
    def interpreter(self, launch: Launch) -> list[str]:
        """Return the words with which the launch starts Python: ``python3``, or ``uv run ... python3``."""

    def preview(self, script: Path, cwd: Path, env: Mapping[str, str], arguments: Sequence[str], device: str) -> list[Launch]:
        """Return the trainings that ``script`` would start, in order. Raises Blocked when it would start none."""
        recording = launch_preview.record(script, cwd, env, arguments, device)
        launches: list[Launch] = []
        for command in recording.commands:
            if self.is_launch(command.argv):
                launches.append(command)
            elif launches:
                launches[-1] = replace(launches[-1], after=[*launches[-1].after, command.argv])
        if launches:
            return launches
        ended = f"{script.name} never starts {self.name} with this environment (exit code {recording.exit_code})"
        raise Blocked(
            f"{ended}: {recording.last_line}" if recording.last_line else ended,
            hint=f"bash -n {script}; the checkout's own documentation; another revision of the checkout",
        )

    def setting(self, argument: str) -> tuple[str, str]:
        """Return key and value of an override in Hydra's form; the value is "" for one that removes a key. Raises BadInput."""
        if argument.startswith("~"):
            return hydra.key_of(argument), ""
        key, equals, value = argument.partition("=")
        if not equals or not key:
            raise BadInput(f"the override '{argument}' is not key=value")
        return hydra.key_of(key), value

    @abstractmethod
    def output_arguments(self, outputs: Outputs) -> list[str]:
        """Return the arguments with which the trainer writes into ``outputs``."""

    # its config

    @abstractmethod
    def compose(self, launch: Launch, checkout: Path) -> Composed:
        """Return the config that the launch would train with, as the checkout itself composes it. Nothing is started."""

    @abstractmethod
    def gpus(self, config: Mapping[str, Any]) -> Gpus:
        """Return the GPUs that a training with this config uses. Raises BadInput for a size that is not a number."""

    def refusals(self, config: Mapping[str, Any]) -> list[str]:
        """Return why the trainer would refuse to train with this config, although it composes."""
        return []

    def trained_models(self, config: Mapping[str, Any]) -> list[str]:
        """Return the models that are trained, by the folders of their checkpoints: actor, critic."""
        return []

    def adapter_models(self, config: Mapping[str, Any]) -> list[str]:
        """Return those of which only adapters are trained (PEFT), whose parameters the log then counts."""
        return []

    def losses(self, config: Mapping[str, Any]) -> dict[str, str]:
        """Return for each trained model the regular expression of its loss, which every step logs."""
        return {}

    def gradients(self, config: Mapping[str, Any]) -> dict[str, str]:
        """Return for each trained model the regular expression of the norm of its gradients, which every step logs."""
        return {}

    def ray_init(self, config: Mapping[str, Any], pythonpath: str) -> dict[str, Any]:
        """Return the arguments with which the trainer calls ``ray.init``, without the address."""
        return {"runtime_env": {"env_vars": {"PYTHONPATH": pythonpath}}}

    # what it leaves
    def step_done(self, line: str) -> int | None:
        """Return the step that this line of the log shows as done; with metrics in the log, only a line of metrics does."""
        if self.lines.metrics:
            match = re.search(self.lines.metrics, line) if self.lines.metrics_word in line else None
            return int(match["step"]) if match else None
        for kind in self.lines.stepped:
            if any(word in line for word in kind.words) and (match := re.search(kind.pattern, line)):
                groups = match.groupdict()
                return int(groups["step"]) if groups.get("step") else int(groups["next_step"]) - 1
        return None

    @abstractmethod
    def checkpoint_problem(self, folder: Path, step: int, config: Mapping[str, Any]) -> str:
        """Return why ``folder`` has no whole checkpoint of ``step`` with every model that this config trains; "" if it has."""

    def metrics_file(self, launch: Launch, config: Mapping[str, Any]) -> Path | None:
        """Return the file that this launch's metrics are in when it has ended; None when they are in its console log."""
        return None

    def read_metrics(self, file: Path) -> Metrics:
        """Return the metrics of a file that ``metrics_file`` names. Raises BadInput."""
        raise BadInput(f"cannot read {file}: {self.name} writes its metrics into its log")

    def training(self, metrics: Metrics) -> Metrics:
        """Return of a file of metrics the steps that were trained, and their values."""
        return metrics

    def reports(self, metrics: Metrics, config: Mapping[str, Any]) -> list[str]:
        """Return sentences about a run's metrics that a reader asks for and that do not change its verdict."""
        return []

    def assertions(self, launch: Launch) -> list[str]:
        """Return the assertions about metrics that the script itself makes after this launch."""
        return []

    def printed_configs(self, log: Path) -> list[dict[str, Any]] | None:
        """Return the config that each training printed in the log, {} for one that cannot be read; None if it prints none."""
        return None

    def artifacts(self, launch: Launch, config: Mapping[str, Any]) -> list[Path]:
        """Return more files of this launch that are evidence, and that another start of its script would delete."""
        return []

    # the machine

    def environment_problems(self, env: Mapping[str, str]) -> list[str]:
        """Return why the trainer's processes would refuse to start in this environment."""
        return []


def at_key(config: Mapping[str, Any], key: str) -> Any:
    """Return the value at a dotted key; ABSENT when there is none."""
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return ABSENT
        value = value[part]
    return value


def load(name: str) -> Trainer:
    """Return the trainer ``name``: a module of this room, or a Python file (``.py``). Raises BadInput."""
    if name.endswith(".py"):
        return _of_file(Path(name))
    if name not in names():
        raise BadInput(
            f"unknown trainer '{name}'{did_you_mean(name, names())}", hint=f"one of {', '.join(names())}, or a file.py"
        )
    module = f"{name}.trainer" if (HERE / name).is_dir() else name
    return _exposed(importlib.import_module(f"{__package__}.{module}"), name)


def names() -> list[str]:
    """Return the trainers of this room: modules, and packages whose module ``trainer`` exposes one."""
    files = {file.stem: file for file in HERE.glob("*.py")} | {file.parent.name: file for file in HERE.glob("*/trainer.py")}
    return sorted(name for name, file in files.items() if "\nTRAINER = " in file.read_text())


def _of_file(file: Path) -> Trainer:
    spec = importlib.util.spec_from_file_location(f"mvp_trainer_{file.stem}", file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise BadInput(f"no such trainer: {file} does not exist")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"cannot import the trainer {file}: {type(error).__name__}: {error}") from error
    return _exposed(module, str(file))


def _exposed(module: Any, name: str) -> Trainer:
    trainer = getattr(module, "TRAINER", None)
    if not isinstance(trainer, Trainer):
        raise BadInput(f"{name} has no TRAINER that is a {Trainer.__module__}.Trainer")
    return trainer
