"""Which checkpoints of a job are whole: a trainer that was killed while it saved leaves a folder that looks like one and is none.

verl writes ``checkpoints/global_step_N/``: in it, or in ``actor/`` and ``critic/`` in it, every trainer process puts its shards
``{model,optim,extra_state}_world_size_W_rank_R.pt``, the first one adds ``huggingface/`` and then ``fsdp_config.json``; last of
all comes the data loader's state (RL ``data.pt``, SFT ``data_0.pt``). Only names, small JSON files and the directories of the zip
archives are read, never the weights.
"""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..base.errors import BadInput
from ..base.paths import JobFolder
from .workloads import CheckpointLayout

KINDS = ("model", "optim", "extra_state")
SHARD = re.compile(rf"({'|'.join(KINDS)})_world_size_(\d+)_rank_(\d+)\.pt")


@dataclass(frozen=True)
class Checkpoint:
    """One ``global_step_N`` folder. ``problem`` says why it is not whole; ``world_size`` counts the processes that wrote it."""

    step: int
    path: Path
    world_size: int = 0
    problem: str = ""


class Resume(msgspec.Struct, frozen=True, kw_only=True):
    """What a job resumes; ``skipped`` says for each newer checkpoint why it was not taken."""

    submission_id: str
    step: int
    path: str
    world_size: int
    skipped: list[str] = []


def last_whole(folder: JobFolder, layout: CheckpointLayout) -> Resume:
    """The newest whole checkpoint of a job. Raises BadInput when it has none, with the reason for each that it has."""
    skipped: list[str] = []
    for found in every(folder, layout):
        if not found.problem:
            return Resume(
                submission_id=folder.submission_id,
                step=found.step,
                path=str(found.path),
                world_size=found.world_size,
                skipped=skipped,
            )
        skipped.append(f"{found.path.name} is not whole: {found.problem}")
    told = "; ".join(skipped) or f"nothing in {folder.checkpoints}"
    raise BadInput(f"job '{folder.submission_id}' has no whole checkpoint to resume: {told}", hint="leave resume_from out")


def every(folder: JobFolder, layout: CheckpointLayout) -> list[Checkpoint]:
    """All checkpoints of a job, newest first, whole or not."""
    try:
        places = {int(match[1]): path for path in folder.checkpoints.iterdir() if (match := _STEP.fullmatch(path.name))}
    except OSError:
        return []
    # A part that any of them has (a critic), all must have: which parts there are depends on the trainer's settings.
    parts = sorted({*layout.parts, *(part for path in places.values() for part in _parts(path))})
    return [_examine(step, places[step], parts, layout.files) for step in sorted(places, reverse=True)]


_STEP = re.compile(r"global_step_(\d+)")


def _parts(checkpoint: Path) -> list[str]:
    """Names of the folders in it that hold shards."""
    return [path.name for path in checkpoint.iterdir() if path.is_dir() and any(map(_shard, path.iterdir()))]


def _shard(path: Path) -> re.Match[str] | None:
    return SHARD.fullmatch(path.name)


def _examine(step: int, path: Path, parts: list[str], files: list[str]) -> Checkpoint:
    try:
        sizes = {part: _world_size(path / part, part) for part in parts}
        if len(set(sizes.values())) != 1:
            raise _Broken(", ".join(f"{part} was written by {size} processes" for part, size in sizes.items()))
        for name in files:
            _archive(path / name, name)
    except _Broken as broken:
        return Checkpoint(step, path, problem=str(broken))
    except OSError as error:
        return Checkpoint(step, path, problem=f"cannot read {error.filename}: {error.strerror}")
    return Checkpoint(step, path, next(iter(sizes.values())))


class _Broken(Exception):
    """Why a checkpoint is not whole."""


def _world_size(folder: Path, part: str) -> int:
    """How many processes wrote this part; raises ``_Broken`` when a file of one of them is missing or cut short."""
    shown = "" if part == "." else f"{part}/"
    if not folder.is_dir():
        raise _Broken(f"{shown} is missing")
    shards = [match for path in folder.iterdir() if (match := _shard(path))]
    sizes = {int(match[2]) for match in shards}
    if len(sizes) != 1:
        raise _Broken(f"{shown} holds shards of {len(sizes)} world sizes" if sizes else f"{shown or 'it'} holds no shards")
    [size] = sizes
    for rank in range(size):
        for kind in KINDS:
            name = f"{kind}_world_size_{size}_rank_{rank}.pt"
            _archive(folder / name, shown + name)
    for name in ("huggingface/config.json", "fsdp_config.json"):
        try:
            facts = json.loads((folder / name).read_bytes())
        except FileNotFoundError:
            raise _Broken(f"{shown}{name} is missing") from None
        except ValueError:
            raise _Broken(f"{shown}{name} is cut short or damaged") from None
    if facts.get("world_size") != size:
        raise _Broken(f"{shown}fsdp_config.json names {facts.get('world_size')} processes, but {size} wrote shards")
    return size


def _archive(path: Path, shown: str) -> None:
    """A file of ``torch.save`` is a zip archive whose directory comes last: what was cut short has none."""
    try:
        with zipfile.ZipFile(path) as archive:
            whole = any(name.endswith("/data.pkl") for name in archive.namelist())
    except FileNotFoundError:
        raise _Broken(f"{shown} is missing") from None
    except zipfile.BadZipFile:
        whole = False
    if not whole:
        raise _Broken(f"{shown} is cut short or damaged ({path.stat().st_size} bytes)")
