"""Script 30 where data and models are already there: left by version 1, copied by hand, or linked into a Hugging Face cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import fake_hub
import pytest
from preparing import COMMIT, HUB, HUB_ITEMS, made, quiet, tree, truncate
from toys import write_model, write_parquet

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.prepare import gsm8k, manifest, prepare
from mvp_helpers.prepare.gsm8k import Problem

PROBLEMS = [Problem("1+1?", "2\n#### 2"), Problem("1+2?", "3\n#### 3")]


@pytest.fixture
def left(tmp_path: Path) -> SharedRoot:
    """A shared root with the data and a model of someone else, and no manifest; no hub can be reached."""
    shared = SharedRoot(tmp_path / "left")
    for name in ("gsm8k", "gsm8k_sft"):
        (shared.datasets / name).mkdir(parents=True)
    gsm8k.write_rl(shared.datasets / "gsm8k", {"train": PROBLEMS, "test": PROBLEMS[:1]})
    gsm8k.write_sft(shared.datasets / "gsm8k_sft", {"train": PROBLEMS, "val": PROBLEMS[:1]})
    write_model(shared.models / "tiny")
    return shared


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


def link_into_cache(shared: SharedRoot) -> Path:
    """Replace the model by a link to a snapshot in a Hugging Face cache under the shared root; return the snapshot."""
    snapshot = shared.hf_cache / "hub" / "models--org--tiny" / "snapshots" / COMMIT
    blobs = snapshot.parents[1] / "blobs"
    snapshot.mkdir(parents=True)
    (shared.models / "tiny").rename(blobs)
    for blob in blobs.iterdir():
        (snapshot / blob.name).symlink_to(os.path.relpath(blob, snapshot))
    (shared.models / "tiny").symlink_to(os.path.relpath(snapshot, shared.models))
    return snapshot


def test_whole_folders_without_a_manifest_are_adopted_where_they_are(left: SharedRoot) -> None:
    before = tree(left.root)
    assert list(made(left, HUB)) == HUB_ITEMS
    after = tree(left.root)
    assert {name: after.get(name) for name in before} == before and os.readlink(left.models / "default") == "tiny"
    about = manifest.read(left.datasets / "gsm8k")
    assert about and about.is_adopted and about.rows == {"test.parquet": 1, "train.parquet": 2}
    said: list[str] = []
    prepare.prepare(HUB, left, said.append)
    assert said[0] == "skip: exists datasets/gsm8k (2 files, 3 rows, adopted)"


def test_a_link_into_a_cache_is_adopted_with_its_commit(left: SharedRoot) -> None:
    snapshot = link_into_cache(left)
    made(left, HUB)
    made(left, HUB)
    assert not manifest.place(left.models / "default").exists(), "a link to a prepared folder is not a folder of its own"
    about = manifest.read(left.models / "tiny")
    assert about and about.commit == COMMIT and (left.models / "tiny").is_symlink()
    assert os.listdir(snapshot.parent) == [COMMIT], "the cache was written to"
    # A job records the real path of its model.
    assert manifest.owner((left.models / "default").resolve(), left) == left.models / "tiny"


def test_an_adopted_folder_that_was_edited_is_adopted_again(left: SharedRoot) -> None:
    made(left, HUB)
    first = manifest.read(left.datasets / "gsm8k")
    gsm8k.write_rl(left.datasets / "gsm8k", {"train": PROBLEMS[:1]})
    assert made(left, HUB).keys() == {"datasets/gsm8k"}
    second = manifest.read(left.datasets / "gsm8k")
    assert first and second and second.is_adopted and second.rows["train.parquet"] == 1 and first.files != second.files


def test_other_folders_are_adopted_too_and_unusable_ones_left_alone(left: SharedRoot) -> None:
    write_model(left.models / "mine")
    (left.models / "notes").mkdir()
    (left.models / "notes" / "todo.txt").write_text("")
    (left.datasets / "math").mkdir()
    write_parquet(left.datasets / "math" / "train.parquet", rows=3)
    (left.models / "learn").symlink_to(left.models / "mine")
    said: list[str] = []
    prepare.prepare(HUB, left, said.append)
    adopted = sorted(str(path.relative_to(left.root)) for path in left.root.rglob("*.manifest.json"))
    assert adopted == sorted(f"{name}.manifest.json" for name in [*HUB_ITEMS, "common/models/mine", "datasets/math"])
    assert any(line.startswith(f"not adopted: {left.models}/notes ") for line in said)


def test_an_empty_folder_is_filled(server: fake_hub.FakeHub, empty: SharedRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    (empty.datasets / "gsm8k").mkdir(parents=True)
    assert list(made(empty, HUB)) == HUB_ITEMS


def outside(shared: SharedRoot) -> None:
    away = shared.root.parent / "away"
    (shared.models / "tiny").rename(away)
    (shared.models / "tiny").symlink_to(away)


def without_rows(shared: SharedRoot) -> None:
    gsm8k.write_rl(shared.datasets / "gsm8k", {"train": []})


def other_columns(shared: SharedRoot) -> None:
    write_parquet(shared.datasets / "gsm8k_sft" / "val.parquet", rows=2)


def shard_without_index(shared: SharedRoot) -> None:
    weights = shared.models / "tiny" / "model.safetensors"
    weights.rename(weights.with_name("model-00001-of-00002.safetensors"))


def dangling(shared: SharedRoot) -> None:
    shutil.rmtree(shared.models / "tiny")
    (shared.models / "tiny").symlink_to("gone")


def a_file(shared: SharedRoot) -> None:
    shutil.rmtree(shared.models / "tiny")
    (shared.models / "tiny").write_text("")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda shared: (shared.models / "tiny" / "config.json").unlink(), "config.json is missing"),
        (lambda shared: (shared.models / "tiny" / "tokenizer.json").unlink(), "no tokenizer"),
        (lambda shared: (shared.models / "tiny" / "model.safetensors").unlink(), "no weights"),
        (lambda shared: truncate(shared.models / "tiny" / "model.safetensors"), "model.safetensors is truncated"),
        (shard_without_index, "the index of its weights"),
        (dangling, "it is a link to gone, which does not exist"),
        (a_file, "it is not a folder"),
        (outside, "outside the shared root"),
        (lambda shared: (shared.datasets / "gsm8k" / "test.parquet").unlink(), "test.parquet is missing"),
        (lambda shared: truncate(shared.datasets / "gsm8k" / "train.parquet"), "train.parquet is truncated"),
        (without_rows, "train.parquet has no rows"),
        (other_columns, "val.parquet has no column messages"),
    ],
)
def test_a_folder_that_cannot_be_used_is_bad_input_and_stays(
    left: SharedRoot, harm: Callable[[SharedRoot], None], message: str
) -> None:
    harm(left)
    before = tree(left.root)
    with pytest.raises(BadInput, match="was not made by this script and cannot be used: ") as caught:
        prepare.prepare(HUB, left, quiet)
    assert message in caught.value.what and "\n" not in caught.value.what
    after = tree(left.root)
    assert {name: after.get(name) for name in before} == before, "something was moved or changed"
