"""Pages are made from the folders of truthful jobs; nothing waits for the disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gated_jobs import run_of
from truthful_job import good_job, seals_of

from mvp_helpers import cli
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.cluster import cluster_file
from mvp_helpers.proof.evidence import Job
from mvp_helpers.record import job_folder
from mvp_helpers.report import facts
from mvp_helpers.report.facts import Run


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here outlives its test: waiting for the disk would be most of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def shared(tmp_path: Path) -> SharedRoot:
    (tmp_path / "jobs").mkdir()
    return SharedRoot(tmp_path)


@pytest.fixture
def folder(shared: SharedRoot) -> JobFolder:
    """A truthful PPO job of 25 steps."""
    return good_job(shared, "ppo-a")


@pytest.fixture
def three(shared: SharedRoot) -> list[str]:
    """The ids of three equal jobs, from which a baseline can be recorded."""
    return [run_of(shared, f"ppo-{at}").submission_id for at in range(3)]


@pytest.fixture
def load() -> Callable[[JobFolder], Run]:
    def load(folder: JobFolder) -> Run:
        job = Job(folder, job_folder.read(folder), seals_of(folder))
        return facts.load(job, facts.judge([job])[0].checks)

    return load


@pytest.fixture
def verb(shared: SharedRoot, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a verb; returns its exit code, stdout and stderr."""
    local = msgspec.structs.replace(
        cluster_file.load("local"), shared_root=str(shared.root), state_dir=str(shared.root / "state")
    )
    monkeypatch.setenv("MVP_CLUSTER_JSON", local.to_json())

    def run(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return (cli.main(list(argv)), *capsys.readouterr())

    return run
