"""What a JobSpec points to must be there, whole, and on the shared root."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.plan import inputs


def resolve(value: str, shared: SharedRoot) -> Path:
    return inputs.resolve(value, "model", shared.root, "job.json")


@pytest.mark.parametrize("value", ["common/models/tiny", "${SHARED_ROOT}/common/models/tiny", "{root}/common/models/tiny"])
def test_a_path_may_be_relative_absolute_or_named_by_the_shared_root(shared: SharedRoot, value: str) -> None:
    assert resolve(value.replace("{root}", str(shared.root)), shared) == shared.models / "tiny"


def test_a_link_is_followed_so_that_the_plan_names_what_it_meant(shared: SharedRoot) -> None:
    (shared.models / "default").symlink_to("tiny")
    assert resolve("common/models/default", shared) == shared.models / "tiny"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("common/models/none", "does not exist"),
        ("/etc", "outside the shared root"),
        ("../src", "outside the shared root"),
        ("a/" * 3000, "File name too long"),
        ("a b", "that a Hydra override cannot contain"),
        ("$(id)", "that a Hydra override cannot contain"),
        ("a,b", "that a Hydra override cannot contain"),
    ],
)
def test_a_path_workers_could_not_use_is_refused(shared: SharedRoot, value: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        resolve(value, shared)
    assert message in caught.value.what


def test_a_whole_parquet_and_a_whole_model_pass(shared: SharedRoot) -> None:
    inputs.check_parquet(shared.datasets / "gsm8k" / "train.parquet", "dataset", "job.json")
    inputs.check_model(shared.models / "tiny", "job.json")


@pytest.mark.parametrize("keep", [0, 4, 20, -1])
def test_a_truncated_parquet_is_refused(shared: SharedRoot, keep: int) -> None:
    path = shared.datasets / "gsm8k" / "train.parquet"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BadInput, match="truncated or not parquet"):
        inputs.check_parquet(path, "dataset", "job.json")


def test_a_missing_parquet_is_refused_with_the_script_that_makes_it(shared: SharedRoot) -> None:
    with pytest.raises(BadInput, match=r"lacks none\.parquet") as caught:
        inputs.check_parquet(shared.datasets / "none.parquet", "dataset", "job.json")
    assert "30_prepare_data_and_model" in caught.value.hint


def cut(model: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def grow(model: Path) -> None:
    with (model / "model.safetensors").open("ab") as stream:
        stream.write(b"x")


def promise(model: Path) -> None:
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": "model-2.safetensors"}}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda model: (model / "config.json").unlink(), "config.json is missing or damaged"),
        (lambda model: (model / "config.json").write_text("{"), "config.json is missing or damaged"),
        (lambda model: (model / "tokenizer.json").unlink(), "no tokenizer"),
        (lambda model: (model / "model.safetensors").unlink(), "no weights"),
        (lambda model: (model / "model.safetensors").write_bytes(b""), "is damaged"),
        (lambda model: (model / "model.safetensors").write_bytes(b"\xff" * 16), "is truncated"),
        (cut, "bytes instead of"),
        (grow, "bytes instead of"),
        (promise, "model-2.safetensors is missing"),
        (lambda model: (model / "model.safetensors.index.json").write_text("{}"), "is damaged"),
    ],
)
def test_a_damaged_model_is_refused_with_the_file(shared: SharedRoot, damage: Callable[[Path], object], message: str) -> None:
    model = shared.models / "tiny"
    damage(model)
    with pytest.raises(BadInput) as caught:
        inputs.check_model(model, "job.json")
    assert message in caught.value.what
