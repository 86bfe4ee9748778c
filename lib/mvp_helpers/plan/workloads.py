"""Workloads are data: ``templates/workloads/<name>.yaml`` defines what runs, with which overrides on which device."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ..base.documents import convert, parse
from ..base.errors import BadInput, did_you_mean
from ..base.project import PROJECT
from ..trainers import hydra
from ..trainers.checkpoint import CheckpointLayout

FOLDERS = "MVP_WORKLOADS"
"""The variable that names folders with the user's own workloads."""
PLACEHOLDERS = (
    "model",
    "dataset",
    "job_folder",
    "checkpoints",
    "metrics",
    "nnodes",
    "processes_per_worker",
    "worker_resource",
    "device",
    "reward_path",
    "reward_file",
    "reward_name",
    "resume_path",
    "rollouts",
)
_PLACEHOLDER = re.compile(rf"\{{({'|'.join(PLACEHOLDERS)})\}}")


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the job runner starts: a Python module with overrides as arguments, or a plain command."""

    module: str | None = None
    command: list[str] = []


class Hydra(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The config that the overrides change; paths are relative to the code snapshot."""

    config_dir: str
    config_name: str


class BatchRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The product of some config values must be divisible by, or be at least, the product of others.

    Names are dotted config keys or ``world_size`` (trainer processes of the job). The rule does not apply when the boolean key
    ``unless`` is true, or when a key of ``only_if`` has another value.
    """

    product: Annotated[list[str], msgspec.Meta(min_length=1)]
    divisible_by: list[str] = []
    at_least: list[str] = []
    unless: str | None = None
    only_if: dict[str, Any] = {}


class Without(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What changes where a package is not installed. ``note`` says so in the plan."""

    note: str
    env_vars: dict[str, str] = {}
    overrides: list[str] = []


class DeviceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs by device."""

    env_vars: dict[str, str] = {}
    overrides: list[str] = []
    cpus_per_process: int = 1
    """CPUs that verl requests from Ray for each trainer process, used or not. With fewer, Ray waits forever."""
    without: dict[str, Without] = {}
    """Changes by the name of a package that is not installed."""
    suit: str = ""
    """Which models, cards and numbers of GPUs these defaults are made for, and why; shown in the plan."""


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One workload file. Values may contain placeholders such as ``{model}``: see ``PLACEHOLDERS``."""

    name: str = ""
    extends: str | None = None
    """The workload that this one changes: see ``_extend``."""
    entry: Entry = Entry()
    hydra: Hydra | None = None
    imports: list[str] = []
    """Modules that must come from ``code_path``, in the driver and in Ray workers."""
    data: dict[str, str] = {}
    """Files that the dataset folder must contain, by split."""
    env_vars: dict[str, str] = {}
    overrides: list[str] = []
    defaults: dict[str, int] = {}
    """Overrides that a JobSpec usually sets itself, such as the number of epochs."""
    forced: list[str] = []
    """Overrides that a JobSpec may not change: they keep the job in its own folder."""
    resume: list[str] = []
    """Overrides of a job with ``resume_from``, with ``{resume_path}``. They win over ``forced``. A JobSpec may not set them."""
    checkpoint: CheckpointLayout | None = None
    reward: list[list[str]] = []
    """Overrides that name the function of ``reward_fn_path``, one list per version of verl: the first one is used whose keys the
    config has. They contain ``{reward_path}`` (a file, or ``pkg://module``) or ``{reward_file}``, and ``{reward_name}``."""
    batch_rules: list[BatchRule] = []
    devices: dict[str, DeviceSettings] = {}

    @property
    def needs_code(self) -> bool:
        return bool(self.imports or self.hydra)


def folders() -> list[Path]:
    """Return the folders with workload files: those of ``MVP_WORKLOADS`` (colon-separated), then the toolkit's."""
    own = [Path(part) for part in os.environ.get(FOLDERS, "").split(":") if part]
    return [*own, PROJECT / "templates" / "workloads"]


def load(name: str) -> Workload:
    """Read the workload of that name, merged with the one it extends.

    Raises:
        BadInput: unknown workload (with the nearest known one), or a mistake in its file or in one that it extends.
    """
    workload = _load(name, [])
    if bool(workload.entry.module) == bool(workload.entry.command):
        raise BadInput(f"workload '{name}': entry needs either a module or a command, not both", hint="entry: {module: …}")
    return msgspec.structs.replace(workload, name=name)


def _load(name: str, below: list[str]) -> Workload:
    if name in below:
        raise BadInput(f"workload '{name}' extends itself: {' -> '.join([*below, name])}")
    known = {file.stem: file for folder in reversed(folders()) for file in folder.glob("*.yaml")}
    if name not in known:
        extended = f" (extended by '{below[-1]}')" if below else ""
        raise BadInput(
            f"unknown workload {name!r}{extended}{did_you_mean(name, known)}", hint=f"workload: {' | '.join(sorted(known))}"
        )
    path = known[name]
    own = convert(parse(path.read_bytes(), str(path)), Workload, str(path))
    return _extend(_load(own.extends, [*below, name]), own) if own.extends else own


def _extend(base: Workload, own: Workload) -> Workload:
    """Merge ``own`` into ``base``: override lists by key, mappings by name; batch rules are added; other fields are replaced
    where ``own`` sets them. (Settings of a device still win over general ones.)"""
    devices = {**base.devices, **own.devices}
    for device in base.devices.keys() & own.devices.keys():
        theirs, ours = base.devices[device], own.devices[device]
        devices[device] = DeviceSettings(
            env_vars={**theirs.env_vars, **ours.env_vars},
            overrides=hydra.merge(theirs.overrides, ours.overrides),
            cpus_per_process=max(theirs.cpus_per_process, ours.cpus_per_process),
            without={**theirs.without, **ours.without},
            suit=ours.suit or theirs.suit,
        )
    return Workload(
        entry=own.entry if own.entry != Entry() else base.entry,
        hydra=own.hydra or base.hydra,
        imports=own.imports or base.imports,
        data={**base.data, **own.data},
        env_vars={**base.env_vars, **own.env_vars},
        overrides=hydra.merge(base.overrides, own.overrides),
        defaults={**base.defaults, **own.defaults},
        forced=hydra.merge(base.forced, own.forced),
        resume=hydra.merge(base.resume, own.resume),
        checkpoint=own.checkpoint or base.checkpoint,
        reward=own.reward or base.reward,
        batch_rules=[*base.batch_rules, *own.batch_rules],
        devices=devices,
    )


def adapted(settings: DeviceSettings, installed: Callable[[str], bool]) -> DeviceSettings:
    """Return ``settings`` with the changes for packages that are not installed; ``without`` then has only these."""
    applied = {package: change for package, change in settings.without.items() if not installed(package)}
    env_vars, overrides = settings.env_vars, settings.overrides
    for change in applied.values():
        env_vars, overrides = {**env_vars, **change.env_vars}, hydra.merge(overrides, change.overrides)
    return msgspec.structs.replace(settings, env_vars=env_vars, overrides=overrides, without=applied)


def render(text: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders in a value of a workload file; other braces stay."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)
