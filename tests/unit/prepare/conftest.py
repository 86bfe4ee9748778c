"""Shared by the tests of script 30: a prepared shared root, an empty one, and a hub on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fake_hub
import pytest
from preparing import ITEMS, gsm8k_parquet, made

from mvp_helpers.base.paths import SharedRoot


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared root prepared once: the model costs seconds."""
    root = tmp_path_factory.mktemp("template") / "shared"
    assert list(made(SharedRoot(root))) == ITEMS
    return root


@pytest.fixture
def empty(tmp_path: Path) -> SharedRoot:
    return SharedRoot(tmp_path / "empty")


@pytest.fixture
def server(template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_hub.FakeHub]:
    model = {path.name: path.read_bytes() for path in (template / "common" / "models" / "tiny-qwen2").iterdir()}
    repos = {
        "datasets/openai/gsm8k": {
            "main/train-00000-of-00001.parquet": gsm8k_parquet(20),
            "main/test-00000-of-00001.parquet": gsm8k_parquet(5),
            "socratic/train-00000-of-00001.parquet": b"not asked for",
        },
        "models/org/tiny": model | {"pytorch_model.bin": b"the same weights again"},
    }
    with fake_hub.running(repos) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running
