"""Script 30 with folders instead of repositories on a hub."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest
from preparing import COMMIT, HUB, gsm8k_parquet, made
from toys import write_model

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.prepare import manifest
from mvp_helpers.prepare.prepare import DataSettings


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies of both repositories outside of the shared root; no hub can be reached."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    (tmp_path / "mirror" / "gsm8k" / "main").mkdir(parents=True)
    for split in ("train", "test"):
        (tmp_path / "mirror" / "gsm8k" / "main" / f"{split}-00000-of-00001.parquet").write_bytes(gsm8k_parquet(4))
    write_model(tmp_path / "mirror" / "tiny")
    return tmp_path / "mirror"


def settings(dataset: Path, model: Path, revision: str = "main") -> DataSettings:
    places = {"dataset": str(dataset), "model": str(model), "model_revision": revision}
    return msgspec.structs.replace(HUB, hub=msgspec.structs.replace(HUB.hub, **places))


def as_cache_entry(repository: Path) -> Path:
    """Turn a copy into that repository's folder in a Hugging Face cache, with the branch main."""
    entry = repository.with_name(f"models--org--{repository.name}")
    (entry / "snapshots").mkdir(parents=True)
    (entry / "refs").mkdir()
    (entry / "refs" / "main").write_text(COMMIT)
    repository.rename(entry / "snapshots" / COMMIT)
    return entry


def test_a_copy_outside_of_the_shared_root_is_copied(mirror: Path, empty: SharedRoot) -> None:
    wanted = settings(mirror / "gsm8k", mirror / "tiny")
    assert len(made(empty, wanted)) == 3 and made(empty, wanted) == {}
    weights = empty.models / "tiny" / "model.safetensors"
    assert not weights.is_symlink() and os.readlink(empty.models / "default") == "tiny"
    shutil.rmtree(mirror)
    assert made(empty, wanted) == {}


def test_a_copy_below_the_shared_root_is_linked(mirror: Path, empty: SharedRoot) -> None:
    empty.root.mkdir()
    mirror.rename(empty.root / "mirror")
    made(empty, settings(empty.root / "mirror" / "gsm8k", empty.root / "mirror" / "tiny"))
    weights = empty.models / "tiny" / "model.safetensors"
    assert not os.path.isabs(os.readlink(weights)) and weights.is_file()


def test_a_repository_in_a_cache_gives_the_snapshot_of_its_revision(mirror: Path, empty: SharedRoot) -> None:
    entry = as_cache_entry(mirror / "tiny")
    for source in (entry, entry / "snapshots" / COMMIT):
        made(empty, settings(mirror / "gsm8k", source))
        about = manifest.read(empty.models / "tiny")
        assert about and about.commit == COMMIT and about.recipe["repo"] == str(source)
    with pytest.raises(BadInput, match=r"data\.hub\.model: .* has no snapshot of 'v2'") as caught:
        made(empty, settings(mirror / "gsm8k", entry, "v2"))
    assert COMMIT in caught.value.hint


@pytest.mark.parametrize(
    ("dataset", "model", "message"),
    [
        ("gone", "tiny", r"data\.hub\.dataset: \S+ has no folder .*/gone"),
        ("gsm8k", "gone", r"data\.hub\.model: \S+ has no folder .*/gone"),
        ("tiny", "tiny", r"data\.hub\.dataset: .*/tiny has no file like main/\*\.parquet"),
        ("gsm8k", "gsm8k", r"data\.hub\.model: .*/gsm8k has no file like \*\.safetensors"),
        ("gsm8k", "half", r"/half: model\.safetensors is truncated"),
    ],
)
def test_a_folder_without_the_files_is_bad_input(mirror: Path, empty: SharedRoot, dataset: str, model: str, message: str) -> None:
    shutil.copytree(mirror / "tiny", mirror / "half")
    os.truncate(mirror / "half" / "model.safetensors", 9)
    with pytest.raises(BadInput, match=message):
        made(empty, settings(mirror / dataset, mirror / model))
    assert not list(empty.root.glob("common/models/*"))


@pytest.mark.parametrize("model", ["/", "/models/default"])
def test_a_folder_that_gives_no_name_for_the_model_is_bad_input(empty: SharedRoot, model: str) -> None:
    with pytest.raises(BadInput, match="a model cannot be named"):
        made(empty, settings(Path("/data"), Path(model)))
