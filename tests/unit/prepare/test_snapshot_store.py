"""Which snapshots there are, which jobs used them, and that removing the unused never takes one that a job names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.prepare import snapshot, snapshot_store
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result, State


def quiet(_: str) -> None:
    pass


def make(shared: SharedRoot, code_id: str) -> Path:
    """A snapshot of the toy verl with a file of its own."""
    source = shared.root.parent / "src"
    (source / "verl" / "own.py").write_text(f"NAME = '{code_id}'\n")
    return snapshot.snapshot(snapshot.Source(path=source), shared, code_id).path


def job(shared: SharedRoot, name: str, code_id: str | None, state: State = "SUCCEEDED") -> None:
    folder = job_folder.claim(shared, Result(submission_id=name, workload="ppo", state="CLAIMED"))
    folder.provenance.write_text(json.dumps({"code": {"code_id": code_id, "path": "x"} if code_id else None, "ray": "2.60.0"}))
    job_folder.write(folder, Result(submission_id=name, workload="ppo", state=state))


def test_the_list_shows_origin_size_and_jobs_newest_first(shared: SharedRoot) -> None:
    make(shared, "codeB")
    for at, name in enumerate(["first", "second", "third", "fourth"]):
        job(shared, name, "codeA")
        os.utime(shared.job(name).provenance, (at, at))
    job(shared, "without-code", None)
    one, other = snapshot_store.stored(shared)
    assert (one.code_id, one.jobs, one.current) == ("codeA", ["fourth", "third", "second", "first"], False)
    assert (other.code_id, other.jobs, other.current) == ("codeB", [], True)
    assert other.size == sum(path.stat().st_size for path in (other.path / "verl").rglob("*") if path.is_file())
    lines = snapshot_store.table([one, other], 200).splitlines()
    assert "4: fourth, third, second, …" in lines[1] and f"directory {os.uname().nodename}:{shared.root.parent}/src" in lines[1]
    assert lines[2].startswith("codeB (current)") and " - " in lines[2]


@pytest.mark.parametrize("state", ["SUBMITTED", "RUNNING", "SUCCEEDED", "FAILED", "NOT_SUBMITTED"])
def test_a_snapshot_that_a_job_names_stays_whatever_the_state_of_the_job(shared: SharedRoot, state: State) -> None:
    make(shared, "unused")
    make(shared, "latest")
    job(shared, "job1", "codeA", state)
    assert snapshot_store.prune(shared, quiet, dry_run=True) == ["unused"]
    assert (shared.verl_code / "unused").is_dir()
    assert snapshot_store.prune(shared, quiet) == ["unused"]
    assert sorted(path.name for path in shared.verl_code.glob("[!.]*")) == ["codeA", "current", "latest"]
    assert snapshot.check(shared.verl_code / "codeA").code_id == "codeA"
    assert snapshot_store.prune(shared, quiet) == []


def test_the_current_snapshot_stays_even_when_no_job_names_it(shared: SharedRoot) -> None:
    make(shared, "codeB")
    assert snapshot_store.prune(shared, quiet) == ["codeA"]
    assert snapshot.check(shared.verl_code / "current").code_id == "codeB"


def test_files_that_a_removed_snapshot_shared_with_another_stay_whole(shared: SharedRoot) -> None:
    kept = make(shared, "codeB")
    assert (kept / "verl" / "__init__.py").stat().st_nlink > 1
    snapshot_store.prune(shared, quiet)
    assert snapshot.damage(kept) == []


def test_a_job_that_chooses_a_snapshot_while_it_is_removed_keeps_it(shared: SharedRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    make(shared, "codeB")
    looked = snapshot_store.uses
    messages: list[str] = []

    def chosen_in_between(shared: SharedRoot) -> dict[str, list[str]]:
        seen = looked(shared)
        if not shared.job("late").path.exists():
            job(shared, "late", "codeA", "SUBMITTED")
        return seen

    monkeypatch.setattr(snapshot_store, "uses", chosen_in_between)
    assert snapshot_store.prune(shared, messages.append) == []
    assert messages == ["kept codeA: job late has just chosen it"]
    assert snapshot.check(shared.verl_code / "codeA").code_id == "codeA"


def test_snapshots_of_an_interrupted_removal_are_removed_or_restored(shared: SharedRoot) -> None:
    make(shared, "used")
    make(shared, "codeC")
    job(shared, "job1", "used")
    for name in ("codeA", "used"):
        (shared.verl_code / name).rename(shared.verl_code / f".gone-{name}")
    assert snapshot_store.prune(shared, quiet) == ["codeA"]
    assert sorted(path.name for path in shared.verl_code.glob("*") if path.name != ".sources") == ["codeC", "current", "used"]


def test_a_damaged_snapshot_is_listed_with_the_error(shared: SharedRoot) -> None:
    manifest = shared.verl_code / "codeA" / "mvp_manifest.json"
    manifest.chmod(0o644)
    manifest.write_text("{")
    (row,) = snapshot_store.stored(shared)
    assert row.code_id == "codeA" and row.origin.startswith("damaged: ")
