"""Workloads are data: ``templates/workloads/<name>.yaml`` says what runs, with which overrides on which device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec

from .cluster import PROJECT
from .documents import convert, parse
from .errors import BadInput, did_you_mean


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

    Names are dotted config keys or ``world_size`` (trainer processes of the job). ``unless`` names a boolean key that lifts it.
    """

    product: Annotated[list[str], msgspec.Meta(min_length=1)]
    divisible_by: list[str] = []
    at_least: list[str] = []
    unless: str | None = None


class DeviceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs by device."""

    env_vars: dict[str, str] = {}
    overrides: list[str] = []


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One workload file. Values may hold placeholders such as ``{model}``: see ``plan.PLACEHOLDERS``."""

    name: str = ""
    entry: Entry
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
    reward: list[str] = []
    """Overrides that wire ``reward_fn_path``, with ``{reward_path}`` and ``{reward_name}``."""
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
    """The workload of that name.

    Raises:
        BadInput: unknown workload (with the nearest known one), or a mistake in its file.
    """
    known = {file.stem: file for folder in reversed(folders()) for file in folder.glob("*.yaml")}
    if name not in known:
        raise BadInput(f"unknown workload '{name}'{did_you_mean(name, known)}", hint=f"workload: {' | '.join(sorted(known))}")
    path = known[name]
    workload = convert(parse(path.read_bytes(), str(path)), Workload, str(path))
    if bool(workload.entry.module) == bool(workload.entry.command):
        raise BadInput(f"{path}: entry needs either a module or a command")
    return msgspec.structs.replace(workload, name=name)
