"""The manifest beside a prepared folder: its recipe and the hash of every file. It decides whether the folder is used."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..base import files
from ..base.paths import SharedRoot
from ..base.times import now

ADOPTED = {"source": "adopted"}
"""The recipe of a folder that was there before its manifest: only its files decide whether it is still the same."""


class FileFacts(msgspec.Struct, frozen=True):
    """Size in bytes and SHA-256 of one file."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """``<folder>.manifest.json``. ``recipe`` decides the content; ``made_with`` only records library versions: compared, they
    would make two hosts with different versions rebuild each other's data again and again."""

    recipe: dict[str, Any]
    commit: str = ""
    """What the recipe's revision was resolved to, when the folder was made."""
    files: dict[str, FileFacts]
    rows: dict[str, int] = {}
    made_with: dict[str, str] = {}
    made_at: str = ""
    made_by: str = ""

    @property
    def is_adopted(self) -> bool:
        return self.recipe == ADOPTED


def place(folder: Path) -> Path:
    """Return the path of the manifest of ``folder``."""
    return folder.with_name(f"{folder.name}.manifest.json")


def read(folder: Path) -> Manifest | None:
    """Return the manifest of ``folder``; None when it is missing or damaged."""
    try:
        return msgspec.json.decode(place(folder).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError):
        return None


def owner(folder: Path, shared: SharedRoot) -> Path:
    """Return the folder whose manifest describes ``folder``: itself, or a link to it among the data sets and models."""
    if not place(folder).exists():
        for manifest in sorted([*shared.models.glob("*.manifest.json"), *shared.datasets.glob("*.manifest.json")]):
            link = manifest.with_name(manifest.name.removesuffix(".manifest.json"))
            if link.is_symlink() and link.resolve() == folder:
                return link
    return folder


def describe(folder: Path, recipe: dict[str, Any], rows: dict[str, int], libraries: Sequence[str], commit: str = "") -> Manifest:
    """Return the manifest of a newly made or adopted ``folder``; reads every file. Raises OSError."""
    return Manifest(
        recipe=recipe,
        commit=commit,
        files={name: FileFacts(size=path.stat().st_size, sha256=files.sha256(path)) for name, path in contents(folder).items()},
        rows=rows,
        made_with={name: importlib.metadata.version(name) for name in libraries},
        made_at=now(),
        made_by=os.uname().nodename,
    )


def write(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of ``folder`` atomically. Raises OSError."""
    files.write_bytes(place(folder), msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def problem(folder: Path, recipe: dict[str, Any]) -> str:
    """Return why ``folder`` is not what ``recipe`` made or what was adopted; an empty string when it is. Reads every file."""
    manifest = read(folder)
    if not folder.is_dir():
        return "missing"
    if manifest is None:
        return "it has no readable manifest"
    if not manifest.is_adopted and (changed := _changed(manifest, recipe)):
        return f"the settings changed: {', '.join(changed)}"
    paths = contents(folder)
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


def _changed(manifest: Manifest, recipe: dict[str, Any]) -> list[str]:
    """Return the settings that differ. The commit that a branch was resolved to may replace its name."""
    settings = manifest.recipe.keys() | recipe.keys()
    changed = sorted(key for key in settings if manifest.recipe.get(key) != recipe.get(key))
    return [key for key in changed if not (key == "revision" and manifest.commit and recipe.get(key) == manifest.commit)]


def contents(folder: Path) -> dict[str, Path]:
    """Return relative name and path of every file, sorted; symlinks to files count as files."""
    paths = (Path(parent) / name for parent, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)): path for path in sorted(paths)}
