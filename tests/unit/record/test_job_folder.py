"""A job folder is claimed once, appears whole, and tells the truth."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mvp_helpers.base import files
from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result


@pytest.fixture
def root(tmp_path: Path) -> SharedRoot:
    return SharedRoot(tmp_path)


def claimed(name: str = "job1") -> Result:
    return Result(submission_id=name, workload="ppo", state="CLAIMED")


def test_a_claimed_folder_is_whole_and_listed(root: SharedRoot) -> None:
    folder = job_folder.claim(root, claimed())
    assert {path.name for path in folder.path.iterdir()} == {"config", "logs", "checkpoints", "debug", "result.json"}
    assert job_folder.read(folder).state == "CLAIMED"
    assert job_folder.newest_ids(root, 5) == job_folder.active_ids(root) == ["job1"]
    assert not list(root.jobs.glob(".claim-*"))


def test_an_id_is_claimed_once_and_the_first_stays_untouched(root: SharedRoot) -> None:
    folder = job_folder.claim(root, claimed())
    before = folder.result.read_bytes()
    with pytest.raises(BadInput, match="'job1' is already used"):
        job_folder.claim(root, claimed())
    assert folder.result.read_bytes() == before
    assert len(list(root.job_index.iterdir())) == 1
    assert not list(root.jobs.glob(".claim-*"))


def test_of_twenty_claims_at_once_exactly_one_wins(root: SharedRoot) -> None:
    def attempt(_: int) -> bool:
        try:
            job_folder.claim(root, claimed())
        except BadInput:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(attempt, range(20))) == 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_shared_root_that_cannot_be_written_blocks_and_leaves_nothing(
    root: SharedRoot, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, "no")

    monkeypatch.setattr(files, "write_bytes", fail)
    with pytest.raises(Blocked, match="cannot write the job folder"):
        job_folder.claim(root, claimed())
    assert not [path for path in root.jobs.iterdir() if path.name not in (".index", ".active")]


def test_an_ended_job_leaves_the_list_of_active_ones(root: SharedRoot) -> None:
    result = claimed()
    folder = job_folder.claim(root, result)
    result.state = "SUCCEEDED"
    job_folder.write(folder, result)
    assert job_folder.active_ids(root) == []
    assert job_folder.newest_ids(root, 5) == ["job1"]


def test_a_failed_write_keeps_the_old_result(root: SharedRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    result = claimed()
    folder = job_folder.claim(root, result)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    result.state = "RUNNING"
    with pytest.raises(OSError, match="full"):
        job_folder.write(folder, result)
    assert job_folder.read(folder).state == "CLAIMED"
    assert not list(folder.path.glob(".result*")), "a temporary file was left"


@pytest.mark.parametrize(
    ("content", "message"), [(None, "does not exist"), ("", "cannot read"), ('{"state": "ODD"}', "cannot read")]
)
def test_a_missing_or_damaged_result_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    folder = JobFolder(tmp_path / "job1")
    if content is not None:
        folder.path.mkdir()
        folder.result.write_text(content)
    with pytest.raises(BadInput, match=message):
        job_folder.read(folder)
