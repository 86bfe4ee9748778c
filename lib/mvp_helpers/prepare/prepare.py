"""Script 30: prepare GSM8K-schema data for RL and SFT, and a model, under the shared root; replace damaged folders."""

from __future__ import annotations

import functools
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import BadInput
from ..base.paths import SharedRoot
from ..base.shared_storage import locked, point_to, remove_tree, writing
from . import adopt, generated, gsm8k, hub, manifest, repository, whole
from .adopt import Contents
from .manifest import Manifest
from .settings import DataSettings, Generated, Hub

__all__ = ["DataSettings", "Generated", "Hub", "PreparedItem", "plan", "prepare"]

Say = Callable[[str], None]
DEFAULT_MODEL = "default"


@dataclass(frozen=True)
class PreparedItem:
    """One prepared folder. ``made`` is False when it existed; otherwise ``reason`` is why. ``rows`` is by file."""

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
class _Made:
    """The contents of a filled folder: rows by file, and the commit that they were taken from."""

    rows: dict[str, int]
    commit: str = ""


@dataclass(frozen=True)
class _Item:
    """The wanted content of ``path``: its recipe, how to fill an empty folder with it, and the check of a foreign folder."""

    path: Path
    recipe: dict[str, Any]
    fill: Callable[[Path], _Made]
    check: Callable[[Path, SharedRoot], Contents]
    libraries: tuple[str, ...]


def prepare(settings: DataSettings, shared: SharedRoot, say: Say, *, dry_run: bool = False) -> list[PreparedItem]:
    """Make ``datasets/gsm8k``, ``datasets/gsm8k_sft`` and ``common/models/<name>`` where they are missing or damaged.

    Folders without a manifest, these and all other data sets and models, are adopted: checked, hashed, and left as they are.
    ``common/models/default`` then points to the chosen model, so that one JobSpec runs on every cluster. Folders that match their
    manifests are not touched. With ``dry_run`` nothing is written and ``made`` means "would be".

    Raises:
        BadInput: a repository, revision or folder does not exist or has another layout, or a foreign folder cannot be used.
        Blocked: the hub does not answer, or the shared root cannot be written.
        TimedOut: another host has been preparing for hours.
    """
    model, items = _items(settings, shared, say)
    problems = {item.path: manifest.problem(item.path, item.recipe) for item in items}
    foreign = adopt.others(shared, {item.path for item in items})
    if dry_run:
        results = [_would(item, shared, problems[item.path], say) for item in items]
        for folder in foreign:
            say(f"would adopt {folder.relative_to(shared.root)}, if it is whole")
        return results
    if foreign or any(problems.values()):
        # One lock for all items, checked again inside it: of hosts that prepare at once, one makes each item.
        with locked(shared.root / "common" / ".prepare.lock", "preparing data and model", say):
            results = [_ensure(item, shared, say) for item in items]
            _adopt_others(shared, {item.path for item in items}, say)
    else:
        results = [_found(item, shared, say) for item in items]
    with writing(shared.models):
        point_to(shared.models / DEFAULT_MODEL, model)
    return results


def plan(settings: DataSettings, shared: SharedRoot, say: Say) -> list[Path]:
    """Print what an empty shared root would get; return the folders. Reads nothing."""
    _, items = _items(settings, shared, say)
    for item in items:
        say(f"would make {item.path.relative_to(shared.root)} from {_origin(item.recipe)}")
    return [item.path for item in items]


def _items(settings: DataSettings, shared: SharedRoot, say: Say) -> tuple[str, list[_Item]]:
    """Return the model's name, and all items. Asks no hub."""
    model, items = (
        _hub_items(settings.hub, shared, say) if settings.source == "hub" else _generated_items(settings.generated, shared)
    )
    if model in ("", DEFAULT_MODEL):
        raise BadInput(f"a model cannot be named '{model}'", hint="another data.hub.model: its last part is the model's name")
    return model, items


def _origin(recipe: dict[str, Any]) -> str:
    repo = str(recipe.get("repo", ""))
    if not repo or repository.is_folder(repo):
        return repo or str(recipe["source"])
    return f"{repo} at {recipe['revision']} ({hub.address()})"


def _generated_items(settings: Generated, shared: SharedRoot) -> tuple[str, list[_Item]]:
    recipe: dict[str, Any] = {"source": "generated", "version": generated.VERSION, "seed": settings.seed}
    rows = recipe | {"train_rows": settings.train_rows, "test_rows": settings.test_rows}
    sizes = recipe | {"hidden_size": settings.hidden_size, "layers": settings.layers}

    def fill_model(folder: Path) -> _Made:
        generated.write_model(folder, settings)
        return _Made({})

    return settings.model, [
        *_dataset_items(shared, rows, lambda: (*generated.splits(settings), ""), ("pyarrow",)),
        _Item(shared.models / settings.model, sizes, fill_model, adopt.check_model, generated.MADE_WITH),
    ]


def _hub_items(settings: Hub, shared: SharedRoot, say: Say) -> tuple[str, list[_Item]]:
    model = repository.name(settings.model)
    data = {"source": "hub", "repo": settings.dataset, "revision": settings.dataset_revision}
    weights = {"source": "hub", "repo": settings.model, "revision": settings.model_revision, "files": list(settings.model_files)}
    data_folders, model_folder = _data_folders(shared), shared.models / model

    def splits() -> tuple[list[gsm8k.Problem], list[gsm8k.Problem], str]:
        revision = _resolved(data, data_folders)
        taken = repository.take(settings.dataset, "dataset", revision, repository.DATA_FILES, shared, say)
        return repository.read_problems(taken.files, "train"), repository.read_problems(taken.files, "test"), taken.commit

    def fill_model(folder: Path) -> _Made:
        revision = _resolved(weights, [model_folder])
        taken = repository.take(settings.model, "model", revision, settings.model_files, shared, say)
        # Relative links stay valid: the temporary folder is a sibling of the final one.
        repository.write_model(folder, taken.files, shared)
        if problem := whole.model_problem(folder):
            raise BadInput(f"{settings.model}: {problem}", hint="choose another data.hub.model or data.hub.model_files")
        return _Made({}, taken.commit)

    return model, [
        *_dataset_items(shared, data, splits, hub.MADE_WITH),
        _Item(model_folder, weights, fill_model, adopt.check_model, hub.MADE_WITH),
    ]


def _resolved(recipe: dict[str, Any], folders: Sequence[Path]) -> str:
    """Return the commit that a manifest recorded for this recipe, so that a branch is resolved once; else its revision."""
    repo, revision = recipe["repo"], str(recipe["revision"])
    for about in map(manifest.read, folders):
        if about and about.commit and [about.recipe.get("repo"), about.recipe.get("revision")] == [repo, revision]:
            return about.commit
    return revision


def _data_folders(shared: SharedRoot) -> list[Path]:
    return [shared.datasets / "gsm8k", shared.datasets / "gsm8k_sft"]


def _dataset_items(
    shared: SharedRoot,
    recipe: dict[str, Any],
    splits: Callable[[], tuple[list[gsm8k.Problem], list[gsm8k.Problem], str]],
    libraries: tuple[str, ...],
) -> list[_Item]:
    once = functools.cache(splits)

    def fill_rl(folder: Path) -> _Made:
        train, test, commit = once()
        return _Made(gsm8k.write_rl(folder, {"train": train, "test": test}), commit)

    def fill_sft(folder: Path) -> _Made:
        train, test, commit = once()
        return _Made(gsm8k.write_sft(folder, {"train": train, "val": test}), commit)

    rl, sft = _data_folders(shared)
    check_rl = functools.partial(adopt.check_data, splits=("train.parquet", "test.parquet"), columns=adopt.RL_COLUMNS)
    check_sft = functools.partial(adopt.check_data, splits=("train.parquet", "val.parquet"), columns=adopt.SFT_COLUMNS)
    return [
        _Item(rl, recipe | {"schema": "rl"}, fill_rl, check_rl, libraries),
        _Item(sft, recipe | {"schema": "sft"}, fill_sft, check_sft, libraries),
    ]


def _is_adoptable(path: Path) -> bool:
    """An adopted folder that was edited is adopted again: it is the user's."""
    about = manifest.read(path)
    return adopt.is_foreign(path) or (about is not None and about.is_adopted and os.path.lexists(path))


def _would(item: _Item, shared: SharedRoot, problem: str, say: Say) -> PreparedItem:
    if not problem:
        return _found(item, shared, say)
    result = _result(item, shared, problem)
    if _is_adoptable(item.path):
        contents = item.check(item.path, shared)
        say(f"would adopt {result.name} ({contents.size / 1e6:.1f} MB): {problem}")
    else:
        say(f"would make {result.name} from {_origin(item.recipe)}: {problem}")
    return result


def _found(item: _Item, shared: SharedRoot, say: Say) -> PreparedItem:
    result = _result(item, shared, "")
    about = manifest.read(item.path)
    say(f"skip: exists {result.name} ({result.size()}{', adopted' if about and about.is_adopted else ''})")
    return result


def _result(item: _Item, shared: SharedRoot, reason: str, seconds: float = 0) -> PreparedItem:
    about = manifest.read(item.path)
    files, rows = (len(about.files), about.rows) if about else (0, {})
    return PreparedItem(str(item.path.relative_to(shared.root)), item.path, bool(reason), reason, files, rows, seconds)


def _ensure(item: _Item, shared: SharedRoot, say: Say) -> PreparedItem:
    """Make or adopt one folder unless it is undamaged; call it with the lock held."""
    reason = manifest.problem(item.path, item.recipe)
    if not reason:
        return _found(item, shared, say)
    name, began = str(item.path.relative_to(shared.root)), time.monotonic()
    with writing(item.path):
        if adopts := _is_adoptable(item.path):
            adopt.adopt(item.path, item.check(item.path, shared), say)
        else:
            say(f"making {name}: {reason}")
            _make(item, say)
    result = _result(item, shared, reason, time.monotonic() - began)
    say(f"{'adopted' if adopts else 'made'} {name} in {result.seconds:.1f} s ({result.size()})")
    return result


def _adopt_others(shared: SharedRoot, known: set[Path], say: Say) -> None:
    """Adopt data sets and models that no setting names; one that cannot be used is left alone."""
    for folder, check in adopt.others(shared, known).items():
        try:
            contents = check(folder, shared)
        except BadInput as error:
            say(f"not adopted: {error.what}")
            continue
        with writing(folder):
            adopt.adopt(folder, contents, say)


def _make(item: _Item, say: Say) -> Manifest:
    """Fill a hidden sibling of the folder, then rename it: the folder never appears half full."""
    parent, hidden = item.path.parent, f".{item.path.name}.tmp-"
    parent.mkdir(parents=True, exist_ok=True)
    for leftover in parent.glob(f"{hidden}*"):
        remove_tree(leftover)
    work = Path(tempfile.mkdtemp(prefix=hidden, dir=parent))
    try:
        made = item.fill(work)
        work.chmod(0o755)
        about = manifest.describe(work, item.recipe, made.rows, item.libraries, made.commit)
        if os.path.lexists(item.path):  # made by this module, or empty
            remove_tree(item.path.rename(item.path.with_name(f"{hidden}{uuid.uuid4().hex}")))
        manifest.write(item.path, about)
        work.rename(item.path)
    finally:
        remove_tree(work)
    return about
