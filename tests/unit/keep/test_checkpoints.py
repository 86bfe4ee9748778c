"""Script 57: what is listed, and which checkpoints of a job or chain are removed on request."""

from __future__ import annotations

import functools
import itertools
import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from kept_jobs import Run, kept, make_chain, make_job
from killing import killed_at
from saved_checkpoints import save
from truthful_job import seals_of

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.record import removals


def test_a_chain_lists_the_checkpoints_of_all_attempts_whole_or_not_and_who_resumed_from_them(
    shared: SharedRoot, run: Run
) -> None:
    first = make_job(shared, "a", 2, 4, 6)
    make_job(shared, "a.2", 6, resumes=("a", 4))
    make_job(shared, "other", resumes=("a", 4))
    make_chain(shared, "a", "a.2")
    (first.checkpoints / "global_step_6" / "data.pt").unlink()
    code, out, _ = run("checkpoints", "a.2", "--json")
    document = json.loads(out)
    assert code == 0 and document["jobs"] == ["a", "a.2"]
    facts = [(row["id"], row["step"], row["whole"], row["resumed_by"]) for row in document["checkpoints"]]
    assert facts == [("a", 2, True, []), ("a", 4, True, ["a.2", "other"]), ("a", 6, False, []), ("a.2", 6, True, [])]
    assert document["checkpoints"][2]["problem"] == "data.pt is missing"
    saved = first.checkpoints / "global_step_2"
    assert document["checkpoints"][0]["bytes"] == sum(path.stat().st_size for path in saved.rglob("*") if path.is_file())
    assert [line.split()[0] for line in run("checkpoints", "a")[1].splitlines()[1:]] == ["a:2", "a:4", "a:6", "a.2:6"]


def test_all_jobs_have_totals_the_largest_first(shared: SharedRoot, run: Run) -> None:
    make_job(shared, "small", 2)
    make_job(shared, "large", 2, 4, state="SUCCEEDED")
    make_job(shared, "none")
    code, out, _ = run("checkpoints", "--all", "--json")
    document = json.loads(out)
    facts = [(row["id"], row["state"], row["checkpoints"], row["newest_step"]) for row in document["jobs"]]
    assert code == 0 and facts == [("large", "SUCCEEDED", 2, 4), ("small", "FAILED", 1, 2)]
    assert document["bytes"] == sum(row["bytes"] for row in document["jobs"])
    lines = run("checkpoints", "--all")[1].splitlines()
    assert lines[1].split()[:4] == ["large", "SUCCEEDED", "2", "4"] and lines[-1].startswith("2 jobs")


def test_the_newest_whole_ones_of_a_chain_stay(shared: SharedRoot, run: Run) -> None:
    first, second = make_job(shared, "a", 2, 4), make_job(shared, "a.2", 6, 8, resumes=("a", 4))
    make_chain(shared, "a", "a.2")
    (second.checkpoints / "global_step_8" / "data.pt").unlink()
    code, out, err = run("checkpoints", "a", "--keep", "1")
    assert code == 0 and out.split() == ["a:2", "a:4", "a.2:8"] and "data.pt is missing" in err
    assert (kept(first), kept(second)) == ([2, 4], [6, 8]), "listing removes nothing"
    assert run("remove-checkpoints", "a", *out.split(), "--keep", "1")[:2] == (0, out)
    assert (kept(first), kept(second)) == ([], [6])
    assert run("checkpoints", "a", "--keep", "1")[1] == ""


def test_of_one_step_in_two_attempts_the_later_one_stays(shared: SharedRoot, run: Run) -> None:
    make_job(shared, "a", 2, 4)
    make_job(shared, "a.2", 4, resumes=("a", 2))
    make_chain(shared, "a", "a.2")
    assert run("checkpoints", "a", "--keep", "1")[1].split() == ["a:2", "a:4"]


def test_what_a_running_job_resumes_from_or_may_be_writing_stays(shared: SharedRoot, run: Run) -> None:
    make_job(shared, "a", 2, 4, 6)
    running = make_job(shared, "a.2", 8, state="RUNNING", resumes=("a", 4))
    make_job(shared, "other", state="RUNNING", resumes=("a", 2))
    make_chain(shared, "a", "a.2", ended=False)
    save(running.checkpoints, 10, ("actor",))
    (running.checkpoints / "global_step_10" / "data.pt").unlink()
    assert run("checkpoints", "a", "--keep", "1")[1].split() == ["a:6"]
    code, _, err = run("remove-checkpoints", "a", "a:6", "a:4", "--keep", "1")
    assert code == 2 and "a:4: not a checkpoint that" in err
    assert kept(shared.job("a")) == [2, 4, 6], "nothing is removed when one of the names cannot be"


def test_without_any_whole_checkpoint_nothing_is_removed(shared: SharedRoot, run: Run) -> None:
    job = make_job(shared, "a", 2)
    (job.checkpoints / "global_step_2" / "data.pt").unlink()
    code, out, err = run("checkpoints", "a", "--keep", "1")
    assert (code, out) == (0, "") and "nothing to remove" in err


def test_a_number_below_one_and_half_a_command_are_bad_input_and_remove_nothing(shared: SharedRoot, run: Run) -> None:
    job = make_job(shared, "a", 2, 4)
    wrong = [
        ["checkpoints", *argv]
        for argv in (["a", "--keep", "0"], ["a", "--keep", "-1"], [], ["a", "--all"], ["--all", "--keep", "1"], ["unknown"])
    ]
    wrong += [["remove-checkpoints", "a", "a:2", "--keep", number] for number in ("0", "-1", "x", "1.5", "")]
    for argv in wrong:
        code, out, err = run(*argv)
        assert (code, out) == (2, "") and err.startswith("bad input: ") and len(err.splitlines()) <= 2, argv
    assert kept(job) == [2, 4]


def test_the_seal_states_what_was_removed_and_by_whom(shared: SharedRoot, run: Run) -> None:
    job = make_job(shared, "a", 2, 4)
    seals = seals_of(job)
    seals.seal_now(job)
    before = seals.read(job).contents
    assert run("remove-checkpoints", "a", "a:2", "--keep", "1")[0] == 0
    seal = seals.read(job)
    assert not seals.compare(seal, job)
    gone = {name for name in before.files if name.startswith("checkpoints/global_step_2/")}
    assert gone and set(seal.statements[-1].removed) == gone and seal.statements[-1].kind == "removed"
    assert before.names - seal.contents.names == gone and len(seal.contents.names - before.names) == 1
    assert removals.of(job)[2].endswith(f" by {removals.who()}")
    shutil.rmtree(job.checkpoints / "global_step_4")
    assert seals.compare(seals.read(job), job).missing, "what nobody asked for still shows"


def test_a_seal_that_is_not_the_jobs_own_keeps_everything(shared: SharedRoot, run: Run) -> None:
    job = make_job(shared, "a", 2, 4)
    seals_of(job).seal_now(job)
    job.seal.unlink()
    code, _, err = run("remove-checkpoints", "a", "a:2", "--keep", "1")
    assert code == 1 and "is missing, but the journal has" in err
    assert kept(job) == [2, 4] and not job.removals.exists()


def test_a_removal_that_is_killed_anywhere_is_finished_by_the_next(shared: SharedRoot, run: Run) -> None:
    for number in itertools.count(1):
        job = make_job(shared, f"a{number}", 2, 4)
        name, seals = job.submission_id, seals_of(job)
        seals.seal_now(job)
        if not killed_at(number, shared.root, functools.partial(run, "remove-checkpoints", name, f"{name}:2", "--keep", "1")):
            break
        code, left, _ = run("checkpoints", name, "--keep", "1")
        assert code == 0 and left.split() in ([], [f"{name}:2"]), (number, left)
        assert not left or run("remove-checkpoints", name, f"{name}:2", "--keep", "1")[0] == 0, number
        assert kept(job) == [4] and not seals.compare(seals.read(job), job), number
    assert number > 20


def test_a_job_that_has_just_chosen_a_checkpoint_waits_for_a_removal_and_is_refused(shared: SharedRoot) -> None:
    path = make_job(shared, "a", 2, 4).checkpoints / "global_step_2"
    removals.check_kept(shared, "a:2", path)
    with ThreadPoolExecutor() as threads:
        with removals.locked(shared):
            chosen = threads.submit(removals.check_kept, shared, "a:2", path)
            time.sleep(0.2)
            assert not chosen.done(), "it waits until the removal is over"
            shutil.rmtree(path)
        with pytest.raises(BadInput, match="the checkpoint a:2 was removed meanwhile"):
            chosen.result()
