"""The files of a repository, from a hub or from a folder, and their contents: problems of GSM8K, a model's folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from ..base.errors import BadInput
from ..base.paths import SharedRoot
from . import hub
from .gsm8k import Problem
from .hub import Fetched, Kind

DATA_FILES = ("main/*.parquet", "train-*.parquet", "test-*.parquet")
"""GSM8K's repository has the configurations main and socratic; in a copy of one, the files may be at the top."""


def is_folder(source: str) -> bool:
    return source.startswith(("/", "~"))


def name(source: str) -> str:
    """Return the last part of a repository's or folder's name; in a Hugging Face cache that of the repository in it."""
    place = Path(source)
    if place.parent.name == "snapshots":
        place = place.parents[1]
    return place.name.rpartition("--")[2]


def take(
    source: str, kind: Kind, revision: str, patterns: Sequence[str], shared: SharedRoot, say: Callable[[str], None]
) -> Fetched:
    """Return the files of a repository on the hub, or of a folder, that match ``patterns``.

    Raises:
        BadInput: no such repository, revision, folder or file.
        Blocked: see ``hub.fetch``.
    """
    if not is_folder(source):
        return hub.fetch(source, kind, revision, patterns, shared.hf_cache, say)
    folder = _snapshot(Path(source).expanduser(), kind, revision)
    names = {str(path.relative_to(folder)): path.resolve() for path in sorted(folder.rglob("*")) if path.is_file()}
    wanted = {name: path for name, path in names.items() if hub.matches(name, patterns)}
    if not wanted:
        raise BadInput(f"data.hub.{kind}: {folder} has no file like {', '.join(patterns)}", hint=f"correct data.hub.{kind}")
    say(f"taking {len(wanted)} files from {folder}")
    return Fetched(wanted, hub.commit_of(folder))


def _snapshot(folder: Path, kind: Kind, revision: str) -> Path:
    """Return ``folder``, or the snapshot in it when it is a repository's folder in a Hugging Face cache."""
    host = os.environ.get("MVP_HOST") or os.uname().nodename
    if not folder.is_dir():
        raise BadInput(f"data.hub.{kind}: {host} has no folder {folder}", hint=f"correct data.hub.{kind} in the cluster file")
    if not (folder / "snapshots").is_dir():
        return folder
    reference = folder / "refs" / revision
    snapshot = folder / "snapshots" / (reference.read_text().strip() if reference.is_file() else revision)
    if not snapshot.is_dir():
        known = sorted(path.name for path in (folder / "snapshots").iterdir())
        raise BadInput(
            f"data.hub.{kind}: {folder} has no snapshot of '{revision}'",
            hint=f"data.hub.{kind}_revision: {' | '.join(known[:3]) or 'another one'}",
        )
    return snapshot


def write_model(folder: Path, fetched: dict[str, Path], shared: SharedRoot) -> None:
    """Fill a model folder with relative links to files under the shared root, valid wherever it is mounted; copy other files.

    Raises:
        BadInput: the repository has no ``*.safetensors`` or no ``config.json``.
    """
    if "config.json" not in fetched or not any(name.endswith(".safetensors") for name in fetched):
        raise BadInput(
            "the model repository has no config.json, or no weights as *.safetensors",
            hint="choose another model or data.hub.model_files",
        )
    root = shared.root.resolve()
    for name, origin in fetched.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if origin.is_relative_to(root):
            place.symlink_to(os.path.relpath(origin, place.parent.resolve()))
        else:
            shutil.copyfile(origin, place)


def read_problems(fetched: dict[str, Path], split: str) -> list[Problem]:
    """Return the problems of ``split``. Raises BadInput when the repository does not have GSM8K's layout."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [path for name, path in sorted(fetched.items()) if Path(name).name.startswith(f"{split}-")]
    try:
        rows = [row for path in paths for row in pq.read_table(path, columns=["question", "answer"]).to_pylist()]
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"the dataset's {split} split is not parquet with the columns question and answer: {error}") from None
    if not rows:
        raise BadInput(f"the dataset has no {split} split: no main/{split}-*.parquet")
    return [Problem(row["question"], row["answer"]) for row in rows]
