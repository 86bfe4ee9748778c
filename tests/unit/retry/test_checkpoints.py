"""A chain keeps the newest checkpoints of all its attempts, and nothing of a job that is no attempt of it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from saved_checkpoints import save
from toys import plan_of

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.plan import plan
from mvp_helpers.record import chain as chains
from mvp_helpers.record.chain import Attempt, Chain, Retry
from mvp_helpers.retry import checkpoints
from mvp_verl.watch import Watch

KEEP = ["python3", "-m", "verl.trainer.main_ppo", "trainer.max_actor_ckpt_to_keep=3", "trainer.max_critic_ckpt_to_keep=3"]


@pytest.fixture
def shared(tmp_path: Path) -> SharedRoot:
    return SharedRoot(tmp_path)


def attempt(shared: SharedRoot, number: int, *steps: int, argv: list[str] = KEEP) -> JobFolder:
    """Attempt ``number`` of the chain ``a``, with whole checkpoints of these steps; the chain's record follows later."""
    folder = shared.job("a" if number == 1 else f"a.{number}")
    folder.config.mkdir(parents=True)
    folder.resolved.write_text(plan.to_yaml(plan_of(folder.submission_id, shared.root, argv)))
    folder.provenance.write_text(json.dumps({"attempt": {"chain": "a", "number": number}}))
    for step in steps:
        save(folder.checkpoints, step)
    return folder


def record(shared: SharedRoot, attempts: int) -> None:
    ids = ["a", *(f"a.{number}" for number in range(2, attempts + 1))]
    chains.write(shared, Chain(cluster="local", retry=Retry(on=["host"]), attempts=[Attempt(id=each) for each in ids]))


def kept(folder: JobFolder) -> list[int]:
    return sorted(int(path.name.removeprefix("global_step_")) for path in folder.checkpoints.glob("global_step_*"))


def test_each_save_of_a_later_attempt_removes_the_oldest_of_the_earlier_ones(shared: SharedRoot) -> None:
    first, second = attempt(shared, 1, 2, 4, 6), attempt(shared, 2)
    record(shared, 2)
    assert checkpoints.remove_older(second) == [], "nothing before it has saved"
    save(second.checkpoints, 8)
    Watch(second, "PPOTrainer").saved(str(second.checkpoints / "global_step_8"), 1.0)
    assert (kept(first), kept(second)) == ([4, 6], [8])
    save(second.checkpoints, 10)
    save(second.checkpoints, 12)
    assert len(checkpoints.remove_older(second)) == 2
    assert (kept(first), kept(second)) == ([], [8, 10, 12])


def test_an_attempt_that_is_not_yet_in_the_record_counts(shared: SharedRoot) -> None:
    first, second = attempt(shared, 1, 2, 4, 6), attempt(shared, 2, 8)
    record(shared, 1)
    checkpoints.remove_older(second)
    assert kept(first) == [4, 6]


def test_a_checkpoint_that_was_cut_short_goes_once_a_later_attempt_has_saved(shared: SharedRoot) -> None:
    first, second = attempt(shared, 1, 2, 4), attempt(shared, 2)
    record(shared, 2)
    (first.checkpoints / "global_step_4" / "data.pt").unlink()
    save(second.checkpoints, 3)
    (second.checkpoints / "global_step_3" / "data.pt").unlink()
    assert checkpoints.remove_older(second) == [], "its own is not whole either"
    save(second.checkpoints, 5)
    checkpoints.remove_older(second)
    assert kept(first) == [2]


def test_nothing_is_removed_without_a_limit_in_a_first_attempt_or_outside_of_the_chain(shared: SharedRoot) -> None:
    first, second = attempt(shared, 1, 2, 4, 6), attempt(shared, 2, 8, 10, 12, argv=["python3", "-m", "verl"])
    other = shared.job("other")
    save(other.checkpoints, 2)
    record(shared, 2)
    assert checkpoints.remove_older(second) == checkpoints.remove_older(first) == []
    alone = attempt(shared, 3, 20, 21, 22)
    alone.provenance.write_text(json.dumps({"attempt": None, "resumed_from": {"submission_id": "other"}}))
    assert checkpoints.remove_older(alone) == [] and kept(other) == [2]


def test_a_record_that_cannot_be_read_is_a_warning_and_the_training_goes_on(
    shared: SharedRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    second = attempt(shared, 2, 8)
    (shared.jobs / ".chains").mkdir()
    (shared.jobs / ".chains" / "a.json").write_text("{")
    Watch(second, "PPOTrainer").saved("x", 1.0)
    assert "MVP_WARNING: cannot remove checkpoints of earlier attempts: cannot read" in capsys.readouterr().err


def test_54_expects_from_an_earlier_attempt_only_what_the_chain_keeps(shared: SharedRoot) -> None:
    first, second = attempt(shared, 1, 6), attempt(shared, 2, 8, 10)
    record(shared, 2)
    assert checkpoints.saved_later(first) == {8, 10} and checkpoints.saved_later(second) == set()
    assert [folder.submission_id for folder in checkpoints.earlier(second)] == ["a"]
    planned = msgspec.structs.replace(plan_of("a", shared.root, KEEP))
    assert planned.given["trainer.max_actor_ckpt_to_keep"] == "3"
