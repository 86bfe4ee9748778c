"""What the unit tests share: a small shared root with a code snapshot, data and a model, as scripts 30 and 31 leave them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from toys import ECHO, TRAINER_CONFIG, WORKLOAD, write_model, write_parquet

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.cluster import cluster_file
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.plan import snapshot


@pytest.fixture
def shared(tmp_path: Path) -> SharedRoot:
    """A shared root with the snapshot ``codeA`` (a toy verl), a dataset and a model."""
    root = tmp_path / "shared"
    code = tmp_path / "src"
    config = code / "verl" / "trainer" / "config"
    config.mkdir(parents=True)
    (code / "verl" / "__init__.py").write_text("__version__ = '0'\n")
    (config / "toy.yaml").write_text(TRAINER_CONFIG)
    root.mkdir()
    snapshot.snapshot(snapshot.Source(path=code), SharedRoot(root), "codeA")
    data = root / "datasets" / "gsm8k"
    data.mkdir(parents=True)
    write_parquet(data / "train.parquet", rows=20)
    write_model(root / "common" / "models" / "tiny")
    return SharedRoot(root)


@pytest.fixture
def workloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of workload files of the test's own: ``toy`` (Hydra, as PPO) and ``echo`` (a plain command)."""
    folder = tmp_path / "workloads"
    folder.mkdir()
    (folder / "toy.yaml").write_text(WORKLOAD)
    (folder / "echo.yaml").write_text(ECHO)
    monkeypatch.setenv("MVP_WORKLOADS", str(folder))
    return folder


@pytest.fixture
def cluster(shared: SharedRoot) -> Cluster:
    """The local cluster's settings over that shared root."""
    local = cluster_file.load("local")
    return msgspec.structs.replace(local, shared_root=str(shared.root), state_dir=str(shared.root.parent / "state"))


@pytest.fixture
def replace() -> Callable[..., Any]:
    """``msgspec.structs.replace``, untyped: a copy with some fields changed."""
    return msgspec.structs.replace


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A process imports verl once, and the plugin must be there then: its tests come before others that need verl."""
    items.sort(key=lambda item: item.path.name != "test_verl_cpu.py")
