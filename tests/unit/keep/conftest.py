"""Verbs run on a shared root of the test's own; nothing waits for the disk."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from kept_jobs import Run

from mvp_helpers import cli
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.cluster import cluster_file


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here outlives its test: waiting for the disk would be most of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def shared(tmp_path: Path) -> SharedRoot:
    return SharedRoot(tmp_path)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    local = msgspec.structs.replace(cluster_file.load("local"), shared_root=str(tmp_path), state_dir=str(tmp_path / "state"))
    monkeypatch.setenv("MVP_CLUSTER_JSON", local.to_json())

    def run(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.main(list(argv))
        out, err = capsys.readouterr()
        return code, out, err

    return run
