"""The manifest beside a prepared folder: its recipe and the hash of every file. It decides whether the folder is used."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..base import files
from ..base.times import now


class FileFacts(msgspec.Struct, frozen=True):
    """Size in bytes and SHA-256 of one file."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """``<folder>.manifest.json``. ``recipe`` decides the content; ``made_with`` only records library versions: compared, they
    would make two hosts with different versions rebuild each other's data again and again."""

    recipe: dict[str, Any]
    files: dict[str, FileFacts]
    rows: dict[str, int] = {}
    made_with: dict[str, str] = {}
    made_at: str = ""
    made_by: str = ""


def place(folder: Path) -> Path:
    """Return the path of the manifest of ``folder``."""
    return folder.with_name(f"{folder.name}.manifest.json")


def read(folder: Path) -> Manifest | None:
    """Return the manifest of ``folder``; None when it is missing or damaged."""
    try:
        return msgspec.json.decode(place(folder).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError):
        return None


def describe(folder: Path, recipe: dict[str, Any], rows: dict[str, int], libraries: Sequence[str]) -> Manifest:
    """Return the manifest of a newly made ``folder``; reads every file."""
    return Manifest(
        recipe=recipe,
        files={name: FileFacts(size=path.stat().st_size, sha256=files.sha256(path)) for name, path in _files(folder).items()},
        rows=rows,
        made_with={name: importlib.metadata.version(name) for name in libraries},
        made_at=now(),
        made_by=os.uname().nodename,
    )


def write(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of ``folder`` atomically. Raises OSError."""
    files.write_bytes(place(folder), msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def problem(folder: Path, recipe: dict[str, Any]) -> str:
    """Return why ``folder`` is not what ``recipe`` made; an empty string when it is. Reads every file."""
    manifest = read(folder)
    if not folder.is_dir():
        return "missing"
    if manifest is None:
        return "it has no readable manifest"
    if manifest.recipe != recipe:
        keys = sorted(key for key in manifest.recipe.keys() | recipe.keys() if manifest.recipe.get(key) != recipe.get(key))
        return f"the settings changed: {', '.join(keys)}"
    paths = _files(folder)
    if differing := sorted(paths.keys() ^ manifest.files.keys()):
        return f"{differing[0]} is {'not in its manifest' if differing[0] in paths else 'missing'}"
    for name, facts in manifest.files.items():
        try:
            size = paths[name].stat().st_size
            if size != facts.size:
                return f"{name} has {size} bytes instead of {facts.size}"
            if files.sha256(paths[name]) != facts.sha256:
                return f"{name} was edited"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    return ""


def _files(folder: Path) -> dict[str, Path]:
    """Return relative name and path of every file, sorted; symlinks to files count as files."""
    paths = (Path(parent) / name for parent, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)): path for path in sorted(paths)}
