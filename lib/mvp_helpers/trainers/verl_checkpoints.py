"""verl's checkpoints: where they are, and which of them are whole.

A trainer that is killed while it saves leaves a folder that looks like a checkpoint. verl saves in this order:

1. ``global_step_N/`` with the state of the model: for SFT in the folder itself, for RL in ``actor/`` and ``critic/``.
   With FSDP every process writes ``{model,optim,extra_state}_world_size_W_rank_R.pt``, then rank 0 adds ``huggingface/`` and
   ``fsdp_config.json``. With Megatron there are ``{model,optimizer,extra}/dist_ckpt/``, ``model/huggingface/`` and last
   ``ckpt_contents.json`` (in older versions ``dist_ckpt/`` and ``huggingface/``, without that file).
2. The data loader's state: RL ``data.pt``, SFT ``data_0.pt``.
3. ``latest_checkpointed_iteration.txt`` beside ``global_step_N``: the tracker, which contains N.

Only names, small JSON files, headers and the directories of zip archives are read, never the weights.
"""

from __future__ import annotations

import os
import pickle
import re
import struct
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..base import files
from ..base.documents import MOST_BYTES, Damaged, from_json, read_json
from ..base.errors import BadInput
from ..base.paths import JobFolder
from .checkpoint import Checkpoint, CheckpointLayout, Resume

RL = CheckpointLayout(parts=["actor"], files=["data.pt"])
SFT = CheckpointLayout(parts=["."], files=["data_0.pt"])
TRACKER = "latest_checkpointed_iteration.txt"
KINDS = ("model", "optim", "extra_state")
SHARD = re.compile(rf"({'|'.join(KINDS)})_world_size_(\d+)_rank_(\d+)\.pt")
WEIGHTS = (".pt", ".distcp", ".safetensors", ".bin")
RETENTION = ("trainer.max_actor_ckpt_to_keep", "trainer.max_critic_ckpt_to_keep", "trainer.max_ckpt_to_keep")
_STEP = re.compile(r"global_step_(\d+)")
_MANIFEST = "ckpt_contents.json"
_MEGATRON = {"model", "optimizer", "extra"}
HF_MODEL = "hf_model"
"""A kind that verl saves: weights in Hugging Face's format, in a folder of ``_HF_WEIGHTS``; with LoRA the adapters alone."""
_HF_WEIGHTS = ("huggingface", "adapter_checkpoint", "lora_adapter")
_ZIP_END, _ZIP_END_BYTES = b"PK\x05\x06", 22
"""The record that ends a zip archive without a comment."""
_MOST_JSON = 1 << 20
"""Bytes of a JSON file that is read: an index or settings, not a tokenizer's vocabulary."""
_MOST_HEADER = 100 << 20
"""Bytes of a safetensors header, at most, by that format's definition."""


class _Broken(Exception):
    """Why a checkpoint is not whole."""


def last_whole(job: JobFolder, layout: CheckpointLayout) -> Resume:
    """Return the newest whole checkpoint of a job. Raises BadInput when it has none, with the reason for each that it has."""
    skipped: list[str] = []
    for checkpoint in every(job.checkpoints, layout):
        if not checkpoint.problem:
            return Resume(
                submission_id=job.submission_id,
                step=checkpoint.step,
                path=str(checkpoint.path),
                world_size=checkpoint.world_size,
                skipped=skipped,
            )
        skipped.append(f"{checkpoint.path.name} is not whole: {checkpoint.problem}")
    reasons = "; ".join(skipped) or f"nothing in {job.checkpoints}"
    raise BadInput(f"job '{job.submission_id}' has no whole checkpoint to resume: {reasons}", hint="leave resume_from out")


def every(folder: Path, layout: CheckpointLayout | None = None) -> list[Checkpoint]:
    """Return all checkpoints in ``folder``, newest first, whole or not. Without a layout, RL's or SFT's is recognised."""
    try:
        places = {int(match[1]): path for path in folder.iterdir() if (match := _STEP.fullmatch(path.name)) and path.is_dir()}
    except OSError:
        return []
    layout = layout or (SFT if any(map(_is_sft, places.values())) else RL)
    # A part that any of them has (a critic), all must have: which parts there are depends on the trainer's settings.
    parts = sorted({*layout.parts, *(part for path in places.values() for part in _parts(path))})
    checkpoints = [_examine(step, places[step], parts, layout.files) for step in sorted(places, reverse=True)]
    return [_tracked(folder, checkpoint, newest=not at) for at, checkpoint in enumerate(checkpoints)]


def problem(folder: Path, step: int, contents: Mapping[str, list[str]] | None = None) -> str:
    """Return why verl would not resume ``step`` from the tracker somewhere below ``folder``; "" when it would.

    ``contents``: the models that are trained, each with what verl saves of it (model, optimizer, extra, hf_model). The folder of
    a run that chose its own name below ``folder`` is found by its tracker.
    """
    problems = []
    for tracker in sorted(path for path in files.below(folder) if path.name == TRACKER):
        if (named := _tracker_step(tracker)) != step:
            problems.append(f"{tracker} names step {named}")
            continue
        checkpoint = next((checkpoint for checkpoint in every(tracker.parent) if checkpoint.step == step), None)
        where = tracker.parent / f"global_step_{step}"
        missing = [text for part, kinds in (contents or {}).items() if (text := _missing(where / part, kinds))]
        if checkpoint and not (why := checkpoint.problem or next(iter(missing), "")):
            return ""
        problems.append(f"{where} is not whole: {why}" if checkpoint else f"{where} is missing")
    return f"no checkpoint of step {step}: {'; '.join(problems) or f'no {TRACKER} below {folder}'}"


def _missing(part: Path, kinds: list[str]) -> str:
    """Return that a part of a checkpoint, or one of its saved ``kinds``, is missing; "" when it is complete."""
    names = {path.name for path in _entries(part)}
    if not names:
        return f"{part.name}/ is missing or empty"
    if names & _MEGATRON:
        gone = [kind for kind in kinds if kind in _MEGATRON and kind not in names]
        return f"{part.name}/{gone[0]} is missing" if gone else ""
    # Older Megatron layouts, and FSDP's, keep the other kinds in the same files.
    if HF_MODEL in kinds and not any(_has_weights(part / place) for place in _HF_WEIGHTS):
        return f"{part.name}/{_HF_WEIGHTS[0]} contains no weights"
    return ""


def step_of(name: str) -> int | None:
    """Return the step of a checkpoint's folder by its name; None for any other name."""
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else None


def kept(overrides: Mapping[str, str]) -> int | None:
    """Return how many of the newest checkpoints these overrides make verl keep; None: all of them."""
    limits = [int(overrides[key]) for key in RETENTION if overrides.get(key, "").isdecimal()]
    return min((limit for limit in limits if limit), default=None)


def tracked_step(folder: Path) -> int | None:
    """Return the step that verl recorded last as saved in ``folder``; None without a tracker that names one."""
    return _tracker_step(folder / TRACKER)


def _is_sft(checkpoint: Path) -> bool:
    return any(_shard(path) or path.name in SFT.files for path in _entries(checkpoint))


def _parts(checkpoint: Path) -> list[str]:
    """Return the names of the folders in it that contain the state of a model."""
    return [path.name for path in _entries(checkpoint) if path.name not in _MEGATRON and _is_part(path)]


def _is_part(folder: Path) -> bool:
    return any(_shard(path) or path.name in (_MANIFEST, "dist_ckpt", *_MEGATRON) for path in _entries(folder))


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _shard(path: Path) -> re.Match[str] | None:
    return SHARD.fullmatch(path.name)


def _tracker_step(tracker: Path) -> int | None:
    try:
        return int(files.read(tracker, _MOST_JSON))
    except (OSError, ValueError):
        return None


def _tracked(folder: Path, checkpoint: Checkpoint, *, newest: bool) -> Checkpoint:
    """Return ``checkpoint``, with a problem if the tracker, which verl writes last, does not reach it."""
    if checkpoint.problem:
        return checkpoint
    step = _tracker_step(folder / TRACKER)
    if step is None and newest:
        why = f"{TRACKER}, which verl writes last, names no step or is missing"
    elif step is not None and step < checkpoint.step:
        why = f"{TRACKER}, which verl writes last, names step {step}"
    else:
        return checkpoint
    return Checkpoint(checkpoint.step, checkpoint.path, checkpoint.world_size, why)


def _examine(step: int, path: Path, parts: list[str], files: list[str]) -> Checkpoint:
    try:
        sizes = {part: _examine_part(path / part, part, files) for part in parts}
        known = {part: size for part, size in sizes.items() if size}
        if len(set(known.values())) > 1:
            raise _Broken(", ".join(f"{part} was written by {size} processes" for part, size in known.items()))
        for name in files:
            _archive(path / name, name)
    except _Broken as broken:
        return Checkpoint(step, path, problem=str(broken))
    except OSError as error:
        return Checkpoint(step, path, problem=f"cannot read {error.filename}: {error.strerror}")
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        return Checkpoint(step, path, problem=f"a JSON file in it is damaged: {type(error).__name__}: {error}")
    return Checkpoint(step, path, max(sizes.values()))


def _examine_part(folder: Path, part: str, beside: list[str]) -> int:
    """Return how many processes wrote this part (0: unknown). Raises ``_Broken`` when a file of it is missing or cut short."""
    shown = "" if part == "." else f"{part}/"
    if not folder.is_dir():
        raise _Broken(f"{shown} is missing")
    if folder.is_symlink():  # verl makes none, and one to / would be looked through for hours
        raise _Broken(f"{shown} is a link")
    inside = list(folder.iterdir())
    names = {path.name for path in inside}
    if any(map(_shard, inside)) or "fsdp_config.json" in names:
        return _fsdp(folder, shown)
    if not _has_weights(folder, beside):
        raise _Broken(f"{shown or 'the folder'} contains no weights")
    for file in files.below(folder):
        _content(file, f"{shown}{file.relative_to(folder)}")
    return _megatron(folder, shown, v2=bool(names & _MEGATRON))


def _has_weights(folder: Path, beside: Collection[str] = ()) -> bool:
    return any(file.suffix in WEIGHTS and file.name not in beside for file in files.below(folder))


def _fsdp(folder: Path, shown: str) -> int:
    shards = [match for path in folder.iterdir() if (match := _shard(path))]
    sizes = {int(match[2]) for match in shards}
    if len(sizes) != 1:
        raise _Broken(f"{shown or 'the folder'} contains shards of {len(sizes)} world sizes")
    [size] = sizes
    for rank in range(size):
        for kind in KINDS:
            name = f"{kind}_world_size_{size}_rank_{rank}.pt"
            _archive(folder / name, shown + name)
    _json(folder / "huggingface" / "config.json", f"{shown}huggingface/config.json")
    settings = _json(folder / "fsdp_config.json", f"{shown}fsdp_config.json")
    if settings.get("world_size") != size:
        raise _Broken(f"{shown}fsdp_config.json names {settings.get('world_size')} processes, but {size} wrote shards")
    return size


def _megatron(folder: Path, shown: str, *, v2: bool) -> int:
    manifest: dict[str, Any] = {}
    if v2 or (folder / _MANIFEST).exists():
        manifest = _json(folder / _MANIFEST, f"{shown}{_MANIFEST}")
    for entry in manifest.get("contents", {}).values():
        if not (saved := folder / entry["path"]).exists():
            raise _Broken(f"{shown}{entry['path']} is missing")
        if saved.is_dir() and not _has_weights(saved):
            raise _Broken(f"{shown}{entry['path']} contains no weights")
    for place in files.below(folder):
        if manifest and place.is_dir() and not _entries(place):
            continue  # verl makes the folders of all kinds, also of those that it does not save
        if place.name == "dist_ckpt":
            _dist_ckpt(place, f"{shown}{place.relative_to(folder)}")
        elif place.name == "huggingface":
            _json(place / "config.json", f"{shown}{place.relative_to(folder)}/config.json")
    return int(manifest.get("world_size") or 0)


def _dist_ckpt(folder: Path, shown: str) -> None:
    """Raise ``_Broken`` if shards or their descriptions are missing; PyTorch's and Megatron's are written after the shards."""
    pickled, settings = folder / ".metadata", folder / "metadata.json"
    if not pickled.is_file() and not settings.is_file():
        raise _Broken(f"{shown} has no metadata")
    if settings.is_file() and _json(settings, f"{shown}/metadata.json").get("sharded_backend") != "torch_dist":
        return
    try:
        description = files.read(pickled, MOST_BYTES)
    except FileNotFoundError:
        raise _Broken(f"{shown}/.metadata is missing") from None
    if not description.endswith(pickle.STOP):
        raise _cut(pickled, f"{shown}/.metadata")
    for name in {match.decode() for match in re.findall(rb"__\d+_\d+\.distcp", description)}:  # never unpickled: it runs code
        if not (folder / name).is_file():
            raise _Broken(f"{shown}/{name} is missing")


def _content(file: Path, shown: str) -> None:
    """Raise ``_Broken`` if a file's format shows that it was cut short."""
    if file.suffix in WEIGHTS and not file.stat().st_size:
        raise _Broken(f"{shown} is empty")
    if file.suffix == ".pt":
        _archive(file, shown)
    elif file.suffix == ".json" and file.stat().st_size < _MOST_JSON:
        document = _json(file, shown)
        for name in {*document["weight_map"].values()} if file.name.endswith(".index.json") else ():
            if not file.with_name(name).is_file():
                raise _Broken(f"{shown} names {name}, which is missing")
    elif file.suffix == ".distcp":
        with files.opened(file) as stream:  # archives of torch.save, one after the other
            begins_as_archive = stream.read(2) == b"PK"
            stream.seek(-min(_ZIP_END_BYTES, file.stat().st_size), os.SEEK_END)
            if begins_as_archive and not stream.read().startswith(_ZIP_END):
                raise _cut(file, shown)
    elif file.suffix == ".safetensors" and file.stat().st_size != _safetensors_size(file):
        raise _cut(file, shown)


def _safetensors_size(file: Path) -> int:
    """Return how long a safetensors file is by its own header; 0 when the header is damaged."""
    with files.opened(file) as stream:
        try:
            [length] = struct.unpack("<Q", stream.read(8))
            header = from_json(stream.read(min(length, _MOST_HEADER)))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            return int(8 + length + max(ends, default=0))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error):
            return 0


def _json(path: Path, shown: str) -> dict[str, Any]:
    try:
        document = read_json(path)
    except FileNotFoundError:
        raise _Broken(f"{shown} is missing") from None
    except Damaged:
        raise _cut(path, shown) from None
    if not isinstance(document, dict):
        raise _cut(path, shown)
    return document


def _archive(path: Path, shown: str) -> None:
    """Raise ``_Broken`` unless this is a whole file of ``torch.save``: a zip archive, whose directory comes last."""
    try:
        with files.opened(path) as stream, zipfile.ZipFile(stream) as archive:
            whole = any(name.endswith("/data.pkl") for name in archive.namelist())
    except FileNotFoundError:
        raise _Broken(f"{shown} is missing") from None
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        whole = False
    if not whole:
        raise _cut(path, shown)


def _cut(path: Path, shown: str) -> _Broken:
    return _Broken(f"{shown} is cut short or damaged ({path.stat().st_size} bytes)")
