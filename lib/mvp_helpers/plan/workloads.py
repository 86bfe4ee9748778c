"""Workloads are data: ``templates/workloads/<name>.yaml`` says what runs, with which overrides on which device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ..base.documents import convert, parse
from ..base.errors import BadInput, did_you_mean
from ..base.project import PROJECT
from ..trainers.checkpoint import CheckpointLayout
from . import overrides


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the job runner starts: a Python module with overrides as arguments, or a plain command."""

    module: str | None = None
    command: list[str] = []


class Hydra(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the code snapshot keeps the config that the overrides change; paths are relative to the snapshot."""

    config_dir: str
    config_name: str


class BatchRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``product`` of config values must divide by (or be at least) the product of others.

    Names are dotted config keys or ``world_size`` (trainer processes of the job). ``unless`` names a boolean key that lifts it;
    ``only_if`` the values that keys must have for it to hold.
    """

    product: Annotated[list[str], msgspec.Meta(min_length=1)]
    divisible_by: list[str] = []
    at_least: list[str] = []
    unless: str | None = None
    only_if: dict[str, Any] = {}


class DeviceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs by device."""

    env_vars: dict[str, str] = {}
    overrides: list[str] = []
    cpus_per_process: int = 1
    """CPUs that verl asks Ray for with each trainer process, whatever it uses. Too few of them, and Ray waits for ever."""


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One workload file. Values may hold placeholders such as ``{model}``: see ``plan.PLACEHOLDERS``."""

    name: str = ""
    extends: str | None = None
    """Another workload that this one changes: see ``_extend``."""
    entry: Entry = Entry()
    hydra: Hydra | None = None
    imports: list[str] = []
    """Modules that must come from ``code_path``, in the driver and in Ray workers."""
    data: dict[str, str] = {}
    """Files the dataset folder must hold, by split."""
    env_vars: dict[str, str] = {}
    overrides: list[str] = []
    defaults: dict[str, int] = {}
    """Overrides a JobSpec usually sets itself (``trainer.total_epochs``, ``trainer.save_freq``)."""
    forced: list[str] = []
    """Overrides a JobSpec may not change: they keep the job in its own folder."""
    resume: list[str] = []
    """What wins over ``forced`` in a job with ``resume_from``, with ``{resume_path}``; a JobSpec may not change it either."""
    checkpoint: CheckpointLayout | None = None
    reward: list[list[str]] = []
    """Overrides that wire ``reward_fn_path``, for one version of verl each: the first whose keys the config has. They hold
    ``{reward_path}`` (a file, or ``pkg://module``) or ``{reward_file}``, and ``{reward_name}``."""
    batch_rules: list[BatchRule] = []
    devices: dict[str, DeviceSettings] = {}

    @property
    def needs_code(self) -> bool:
        return bool(self.imports or self.hydra)


def folders() -> list[Path]:
    """Where workload files are looked for: ``MVP_WORKLOADS`` (colon-separated folders of one's own), then the toolkit's."""
    own = [Path(part) for part in os.environ.get("MVP_WORKLOADS", "").split(":") if part]
    return [*own, PROJECT / "templates" / "workloads"]


def load(name: str) -> Workload:
    """The workload of that name, with what it extends.

    Raises:
        BadInput: unknown workload (with the nearest known one), or a mistake in its file or in one that it extends.
    """
    workload = _load(name, [])
    if bool(workload.entry.module) == bool(workload.entry.command):
        raise BadInput(f"workload '{name}': entry needs either a module or a command")
    return msgspec.structs.replace(workload, name=name)


def _load(name: str, below: list[str]) -> Workload:
    if name in below:
        raise BadInput(f"the workload '{name}' extends itself: {' -> '.join([*below, name])}")
    known = {file.stem: file for folder in reversed(folders()) for file in folder.glob("*.yaml")}
    if name not in known:
        asked = f" (extended by '{below[-1]}')" if below else ""
        raise BadInput(
            f"unknown workload '{name}'{asked}{did_you_mean(name, known)}", hint=f"workload: {' | '.join(sorted(known))}"
        )
    path = known[name]
    own = convert(parse(path.read_bytes(), str(path)), Workload, str(path))
    return _extend(_load(own.extends, [*below, name]), own) if own.extends else own


def _extend(base: Workload, own: Workload) -> Workload:
    """``base`` with what ``own`` says: override lists merge key by key, mappings name by name, batch rules add up, the rest is
    replaced where ``own`` gives it. (Settings of a device still win over general ones.)"""
    devices = {**base.devices, **own.devices}
    for device in base.devices.keys() & own.devices.keys():
        one, other = base.devices[device], own.devices[device]
        devices[device] = DeviceSettings(
            env_vars={**one.env_vars, **other.env_vars},
            overrides=overrides.merge(one.overrides, other.overrides),
            cpus_per_process=max(one.cpus_per_process, other.cpus_per_process),
        )
    return Workload(
        entry=own.entry if own.entry != Entry() else base.entry,
        hydra=own.hydra or base.hydra,
        imports=own.imports or base.imports,
        data={**base.data, **own.data},
        env_vars={**base.env_vars, **own.env_vars},
        overrides=overrides.merge(base.overrides, own.overrides),
        defaults={**base.defaults, **own.defaults},
        forced=overrides.merge(base.forced, own.forced),
        resume=overrides.merge(base.resume, own.resume),
        checkpoint=own.checkpoint or base.checkpoint,
        reward=own.reward or base.reward,
        batch_rules=[*base.batch_rules, *own.batch_rules],
        devices=devices,
    )
