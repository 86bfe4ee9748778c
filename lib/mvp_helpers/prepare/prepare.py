"""Script 30: prepare GSM8K-schema data for RL and SFT, and a model, under the shared root; replace damaged folders."""

from __future__ import annotations

import functools
import os
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import BadInput
from ..base.paths import SharedRoot
from ..base.shared_storage import locked, point_to, remove_tree, writing
from ..base.times import now
from . import generated, gsm8k, hub, manifest
from .settings import DataSettings, Generated, Hub

__all__ = ["DataSettings", "Generated", "Hub", "PreparedItem", "prepare"]

Say = Callable[[str], None]
DEFAULT_MODEL = "default"


@dataclass(frozen=True)
class PreparedItem:
    """One prepared folder. ``made`` is False when it existed undamaged; otherwise ``reason`` is why. ``rows`` is by file."""

    name: str
    path: Path
    made: bool
    reason: str
    files: int
    rows: dict[str, int]
    seconds: float

    def size(self) -> str:
        return f"{self.files} files" + (f", {sum(self.rows.values())} rows" if self.rows else "")


@dataclass(frozen=True)
class _Item:
    """The wanted content of ``path``: its recipe, and a function that fills an empty folder (returns rows by file)."""

    path: Path
    recipe: dict[str, Any]
    fill: Callable[[Path], dict[str, int]]
    libraries: tuple[str, ...]


def prepare(settings: DataSettings, shared: SharedRoot, say: Say, *, dry_run: bool = False) -> list[PreparedItem]:
    """Make what is missing or damaged of ``datasets/gsm8k``, ``datasets/gsm8k_sft`` and ``common/models/<name>``.

    ``common/models/default`` then points to that model, so that one JobSpec runs on every cluster. Folders that match their
    manifests are not touched. With ``dry_run`` nothing is written and ``made`` means "would be".

    Raises:
        BadInput: a hub revision is not a commit, or the repository does not exist or has another layout.
        Blocked: the hub does not answer, or the shared root cannot be written.
        TimedOut: another host has been preparing for hours.
    """
    model, items = (
        _hub_items(settings.hub, shared, say) if settings.source == "hub" else _generated_items(settings.generated, shared)
    )
    if model == DEFAULT_MODEL:
        raise BadInput("a model cannot be named 'default': that name points to the chosen one")
    problems = {item.path: manifest.problem(item.path, item.recipe) for item in items}
    if dry_run or not any(problems.values()):
        results = [_found(item, shared, problems[item.path]) for item in items]
        for result in results:
            say(f"would make {result.name}: {result.reason}" if result.made else f"skip: exists {result.name} ({result.size()})")
    else:
        # One lock for all items, checked again inside it: of hosts that prepare at once, one makes each item.
        with locked(shared.root / "common" / ".prepare.lock", "preparing data and model", say):
            results = [_ensure(item, shared, say) for item in items]
    if not dry_run:
        with writing(shared.models):
            point_to(shared.models / DEFAULT_MODEL, model)
    return results


def _generated_items(settings: Generated, shared: SharedRoot) -> tuple[str, list[_Item]]:
    recipe: dict[str, Any] = {"source": "generated", "version": generated.VERSION, "seed": settings.seed}
    rows = recipe | {"train_rows": settings.train_rows, "test_rows": settings.test_rows}
    sizes = recipe | {"hidden_size": settings.hidden_size, "layers": settings.layers}

    def fill_model(folder: Path) -> dict[str, int]:
        generated.write_model(folder, settings)
        return {}

    return settings.model, [
        *_dataset_items(shared, rows, lambda: generated.splits(settings), ("pyarrow",)),
        _Item(shared.models / settings.model, sizes, fill_model, generated.MADE_WITH),
    ]


def _hub_items(settings: Hub, shared: SharedRoot, say: Say) -> tuple[str, list[_Item]]:
    hub.require_commit(settings.dataset_revision, "dataset_revision")
    hub.require_commit(settings.model_revision, "model_revision")
    model = settings.model.rpartition("/")[2]

    def splits() -> tuple[list[gsm8k.Problem], list[gsm8k.Problem]]:
        found = hub.fetch(settings.dataset, "dataset", settings.dataset_revision, ["main/*.parquet"], shared.hf_cache, say)
        return hub.read_problems(found, "train"), hub.read_problems(found, "test")

    def fill_model(folder: Path) -> dict[str, int]:
        found = hub.fetch(settings.model, "model", settings.model_revision, settings.model_files, shared.hf_cache, say)
        # Relative links stay valid: the temporary folder is a sibling of the final one.
        hub.write_model(folder, found)
        return {}

    data = {"source": "hub", "repo": settings.dataset, "revision": settings.dataset_revision}
    weights = {"source": "hub", "repo": settings.model, "revision": settings.model_revision, "files": list(settings.model_files)}
    return model, [
        *_dataset_items(shared, data, splits, hub.MADE_WITH),
        _Item(shared.models / model, weights, fill_model, hub.MADE_WITH),
    ]


def _dataset_items(
    shared: SharedRoot,
    recipe: dict[str, Any],
    splits: Callable[[], tuple[list[gsm8k.Problem], list[gsm8k.Problem]]],
    libraries: tuple[str, ...],
) -> list[_Item]:
    once = functools.cache(splits)

    def fill_rl(folder: Path) -> dict[str, int]:
        train, test = once()
        return gsm8k.write_rl(folder, {"train": train, "test": test})

    def fill_sft(folder: Path) -> dict[str, int]:
        train, test = once()
        return gsm8k.write_sft(folder, {"train": train, "val": test})

    return [
        _Item(shared.datasets / "gsm8k", recipe | {"schema": "rl"}, fill_rl, libraries),
        _Item(shared.datasets / "gsm8k_sft", recipe | {"schema": "sft"}, fill_sft, libraries),
    ]


def _found(item: _Item, shared: SharedRoot, problem: str) -> PreparedItem:
    about = None if problem else manifest.read(item.path)
    files, rows = (len(about.files), about.rows) if about else (0, {})
    return PreparedItem(str(item.path.relative_to(shared.root)), item.path, bool(problem), problem, files, rows, 0)


def _ensure(item: _Item, shared: SharedRoot, say: Say) -> PreparedItem:
    """Make one folder unless it is undamaged; call it with the lock held."""
    reason = manifest.problem(item.path, item.recipe)
    found = _found(item, shared, reason)
    if not reason:
        say(f"skip: exists {found.name} ({found.size()})")
        return found
    say(f"making {found.name}: {reason}")
    began = time.monotonic()
    with writing(item.path):
        about = _make(item, say)
    made = PreparedItem(found.name, item.path, True, reason, len(about.files), about.rows, time.monotonic() - began)
    say(f"made {made.name} in {made.seconds:.1f} s ({made.size()})")
    return made


def _make(item: _Item, say: Say) -> manifest.Manifest:
    """Fill a hidden sibling of the folder, then rename it: the folder never appears half full."""
    parent, hidden = item.path.parent, f".{item.path.name}.tmp-"
    parent.mkdir(parents=True, exist_ok=True)
    for leftover in parent.glob(f"{hidden}*"):
        remove_tree(leftover)
    work = Path(tempfile.mkdtemp(prefix=hidden, dir=parent))
    try:
        rows = item.fill(work)
        work.chmod(0o755)
        about = manifest.describe(work, item.recipe, rows, item.libraries)
        if os.path.lexists(item.path):
            _move_aside(item.path, hidden, say)
        manifest.write(item.path, about)
        work.rename(item.path)
    finally:
        remove_tree(work)
    return about


def _move_aside(path: Path, hidden: str, say: Say) -> None:
    """Remove a folder that this module made; rename one without a manifest, which a user made."""
    if manifest.place(path).exists():
        remove_tree(path.rename(path.with_name(f"{hidden}{uuid.uuid4().hex}")))
    else:
        kept = path.rename(path.with_name(f"{path.name}.replaced-{now().replace(':', '')}"))
        say(f"renamed {path} to {kept.name}: it was not made by this script")
