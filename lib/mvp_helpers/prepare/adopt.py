"""Adopt data and models that are there without a manifest: check them, hash them, and leave them where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import BadInput
from ..base.paths import SharedRoot
from . import hub, manifest, whole
from .manifest import Manifest

RL_COLUMNS = frozenset({"data_source", "prompt", "reward_model"})
SFT_COLUMNS = frozenset({"messages"})
"""What verl reads of the rows of either schema."""


@dataclass(frozen=True)
class Contents:
    """What a usable folder contains: sizes in bytes, rows by file."""

    size: int
    rows: dict[str, int]


def is_foreign(folder: Path) -> bool:
    """Return whether something is there that no manifest describes; an empty folder is nothing."""
    if not os.path.lexists(folder) or manifest.read(folder) is not None:
        return False
    return not folder.is_dir() or any(folder.iterdir())


def check_model(folder: Path, shared: SharedRoot) -> Contents:
    """Raise BadInput unless a foreign ``folder`` is a whole model that all hosts see."""
    size = _size(folder, shared)
    if problem := whole.model_problem(folder):
        raise _unusable(folder, problem)
    return Contents(size, {})


def check_data(folder: Path, shared: SharedRoot, splits: tuple[str, ...] = (), columns: frozenset[str] = frozenset()) -> Contents:
    """Raise BadInput unless a foreign ``folder`` has the parquet files ``splits`` with ``columns``, and only whole ones."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = _size(folder, shared)
    if missing := [name for name in splits if not (folder / name).is_file()]:
        raise _unusable(folder, f"{missing[0]} is missing")
    rows = {}
    for name, path in manifest.contents(folder).items():
        if not name.endswith(".parquet"):
            continue
        try:
            if problem := whole.parquet_problem(path):
                raise _unusable(folder, f"{name} {problem}")
            about = pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise _unusable(folder, f"{name}: {error}") from None
        if name in splits and (lacking := sorted(columns - set(about.schema_arrow.names))):
            raise _unusable(folder, f"{name} has no column {lacking[0]}")
        rows[name] = about.metadata.num_rows
        if name in splits and not rows[name]:
            raise _unusable(folder, f"{name} has no rows")
    if not rows:
        raise _unusable(folder, "no parquet file")
    return Contents(size, rows)


def adopt(folder: Path, contents: Contents, say: Callable[[str], None]) -> Manifest:
    """Write the manifest of a checked folder. Raises OSError."""
    say(f"adopting {folder}: hashing {contents.size / 1e6:.1f} MB")
    about = manifest.describe(folder, manifest.ADOPTED, contents.rows, (), hub.commit_of(folder.resolve()))
    manifest.write(folder, about)
    return about


def others(shared: SharedRoot, known: set[Path]) -> dict[Path, Callable[[Path, SharedRoot], Contents]]:
    """Return the other foreign folders among data sets and models, with the check of each."""
    checks: dict[Path, Callable[[Path, SharedRoot], Contents]] = {shared.models: check_model, shared.datasets: check_data}
    return {
        folder: check
        for parent, check in checks.items()
        for folder in sorted(parent.glob("[!.]*"))
        if folder not in known and folder.is_dir() and not _is_elsewhere(folder, shared) and is_foreign(folder)
    }


def _is_elsewhere(folder: Path, shared: SharedRoot) -> bool:
    """Links to a prepared folder (``default``) or to the weights of a job (``learn``) are not contents of their own."""
    if not folder.is_symlink():
        return False
    target = Path(os.path.normpath(folder.parent / os.readlink(folder)))
    return any(target.is_relative_to(home) for home in (shared.models, shared.datasets, shared.jobs))


def _size(folder: Path, shared: SharedRoot) -> int:
    """Return the bytes of all files. Raises BadInput unless all of them are under the shared root, where every host sees them."""
    if folder.is_symlink() and not folder.exists():
        raise _unusable(folder, f"it is a link to {os.readlink(folder)}, which does not exist")
    if not folder.is_dir():
        raise _unusable(folder, "it is not a folder")
    root, size = shared.root.resolve(), 0
    for name, path in {"": folder, **manifest.contents(folder)}.items():
        real = path.resolve()
        if not real.is_relative_to(root):
            raise _unusable(
                folder, f"{name or 'it'} is a link to {real}, outside the shared root, where other hosts may not see it"
            )
        try:
            size += path.stat().st_size if name else 0
        except OSError as error:
            raise _unusable(folder, f"{name}: {error.strerror}") from None
    return size


def _unusable(folder: Path, problem: str) -> BadInput:
    return BadInput(
        f"{folder} was not made by this script and cannot be used: {problem}",
        hint="complete it, or move it away: it is then made from the cluster file's data",
    )
