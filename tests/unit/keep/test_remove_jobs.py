"""Script 59: a job folder goes for good, what depends on it keeps it, and its id says what happened."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import pytest
from kept_jobs import Run, make_chain, make_job
from killing import killed_at
from truthful_job import seals_of

from mvp_helpers.base import shared_storage
from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.record import chain as chains
from mvp_helpers.record import job_folder, removals, seal_request
from mvp_helpers.record.job_folder import Result


def test_the_folder_goes_and_the_id_never_comes_back(shared: SharedRoot, run: Run) -> None:
    job = make_job(shared, "a", 2)
    seals_of(job).seal_now(job)
    seal_request.make(job, "local")
    make_job(shared, "b")
    assert run("remove-jobs", "a", "--check")[:2] == (0, "a\n") and job.path.is_dir()
    assert run("remove-jobs", "a")[:2] == (0, "a\n")
    assert not job.path.exists() and job_folder.newest_ids(shared, 9) == ["b"] and seal_request.ids(shared, "local") == []
    assert [path.name for path in shared.jobs.iterdir() if not path.name.startswith(".")] == ["b"]
    assert not list(shared.jobs.glob(".gone-*"))
    for verb in ("explain", "verify", "logs", "checkpoints", "remove-jobs", "status"):
        code, out, err = run(verb, *(["--follow"] if verb == "status" else []), "a")
        assert (code, out) == (2, ""), verb
        assert "job 'a' was removed on request at 2" in err and f"by {removals.who()} (ppo, FAILED)" in err, verb
    with pytest.raises(BadInput, match="submission_id 'a' is already used: job 'a' was removed on request"):
        job_folder.claim(shared, Result(submission_id="a", workload="ppo", state="CLAIMED"))


@pytest.mark.parametrize("state", ["RUNNING", "FAILED"])
def test_what_others_resumed_from_stays_unless_they_go_too(shared: SharedRoot, run: Run, state: job_folder.State) -> None:
    make_job(shared, "a", 2)
    make_job(shared, "b", state=state, resumes=("a", 2))
    make_job(shared, "c")
    code, out, err = run("remove-jobs", "c", "a")
    assert (code, out) == (2, "") and "'b' resumed from step 2 of 'a'" in err
    assert all(shared.job(name).path.is_dir() for name in "abc"), "all or nothing"
    assert run("remove-jobs", "a", "b")[0] == (2 if state == "RUNNING" else 0)


def test_a_job_that_runs_and_a_chain_that_goes_on_stay(shared: SharedRoot, run: Run) -> None:
    make_job(shared, "runs", state="RUNNING")
    make_job(shared, "a")
    make_chain(shared, "a", ended=False)
    code, _, err = run("remove-jobs", "runs", "a")
    assert code == 2 and "'runs' has not ended" in err and "'a' is an attempt of chain 'a', which goes on" in err


def test_a_chain_says_which_attempts_were_removed_until_none_is_left(shared: SharedRoot, run: Run) -> None:
    for name in ("a", "a.2"):
        make_job(shared, name)
    make_chain(shared, "a", "a.2")
    assert run("remove-jobs", "a.2")[0] == 0
    found = chains.find(shared, "a")
    assert found and [attempt.id for attempt in found.attempts] == ["a", "a.2"]
    assert run("remove-jobs", "a")[0] == 0
    assert chains.find(shared, "a") is None


def test_a_shared_root_that_is_a_file_says_nothing_about_removed_jobs(tmp_path: Path) -> None:
    (tmp_path / "root").touch()
    shared = SharedRoot(tmp_path / "root")
    assert removals.find_job(shared, "a") == ""
    assert removals.job_ids(shared) == frozenset()


def test_a_removal_that_is_killed_anywhere_is_finished_by_the_next(shared: SharedRoot, run: Run) -> None:
    for number in itertools.count(1):
        job = make_job(shared, f"a{number}", 2)
        make_chain(shared, job.submission_id)
        seal_request.make(job, "local")
        if not killed_at(number, shared.root, functools.partial(run, "remove-jobs", job.submission_id)):
            break
        code, out, err = run("remove-jobs", job.submission_id)
        assert (code, out) == (0, f"{job.submission_id}\n") or "was removed on request" in err, (number, err)
        assert not job.path.exists() and not list(shared.jobs.glob(".gone-*")) and not job_folder.newest_ids(shared, 9), number
        assert seal_request.ids(shared, "local") == [] and chains.find(shared, job.submission_id) is None
        with pytest.raises(BadInput, match="already used"):
            job_folder.claim(shared, Result(submission_id=job.submission_id, workload="ppo", state="CLAIMED"))
    assert number > 10


def test_files_that_cannot_be_removed_are_reported(shared: SharedRoot, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make_job(shared, "a", 2)
    monkeypatch.setattr(shared_storage, "remove_tree", lambda path: None)
    code, out, err = run("remove-jobs", "a")
    assert (code, out) == (3, "") and "files are left in " in err
