"""What the chain watcher does at one look. Submissions are recorded instead of made: tests/bats/retry.bats makes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_ray import FakeRay, node_rows
from saved_checkpoints import save
from toys import plan_of

from mvp_helpers.base.errors import BadInput, Blocked, MvpError, TimedOut
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.times import now
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.plan import feasibility, plan
from mvp_helpers.record import chain as chains
from mvp_helpers.record import job_folder
from mvp_helpers.record.chain import Attempt, Chain, Retry
from mvp_helpers.record.job_folder import Result, State
from mvp_helpers.retry import follow, watcher


@pytest.fixture
def shared(tmp_path: Path) -> SharedRoot:
    return SharedRoot(tmp_path)


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The JobSpecs of all attempts, with ``lineage`` and the values of the secrets."""
    given: list[dict[str, Any]] = []

    def submit(data: bytes, _source: str, _cluster: Cluster, _say: Any, environment: Mapping[str, str], *, lineage: Any) -> None:
        given.append({**json.loads(data), "lineage": lineage, "secrets": dict(environment)})

    monkeypatch.setattr(watcher.submit, "submit", submit)
    monkeypatch.setattr(watcher, "_check_complete", lambda cluster: None)
    return given


def an_attempt(shared: SharedRoot, name: str, state: State, reason: str = "the trainer was killed by SIGKILL") -> JobFolder:
    folder = job_folder.claim(shared, Result(submission_id=name, workload="ppo", state="CLAIMED"))
    folder.resolved.write_text(plan.to_yaml(msgspec.structs.replace(plan_of(name, shared.root), workload="ppo")))
    folder.job_spec(".yaml").write_text("workload: ppo\ndataset: d\nresume_from: older\n")
    result = msgspec.structs.replace(job_folder.read(folder), state=state, reason=reason, ended_at=now())
    job_folder.write(folder, result)
    return folder


def a_chain(shared: SharedRoot, *names: str) -> Chain:
    chain = Chain(cluster="local", retry=Retry(on=["host"]), attempts=[Attempt(id=name) for name in names])
    for attempt in chain.attempts[:-1]:
        attempt.state, attempt.cause, attempt.step = "FAILED", "host", 1 + chain.attempts.index(attempt)
    chains.write(shared, chain)
    return chain


def look(chain: Chain, shared: SharedRoot, cluster: Cluster) -> Chain:
    watcher.advance(chain, shared, cluster)
    found = chains.find(shared, chain.id)
    assert found
    return found


def test_the_next_attempt_is_the_users_spec_with_its_own_id_and_lineage(
    shared: SharedRoot, cluster: Cluster, submitted: list[dict[str, Any]]
) -> None:
    an_attempt(shared, "job", "FAILED")
    chains.secrets(shared, "job").parent.mkdir(parents=True)
    chains.secrets(shared, "job").write_text('{"TOKEN": "value"}')
    found = look(a_chain(shared, "job"), shared, cluster)
    (spec,) = submitted
    assert {key: spec[key] for key in ("workload", "dataset", "submission_id", "resume_from", "secrets")} == {
        "workload": "ppo",
        "dataset": "d",
        "submission_id": "job.2",
        "resume_from": "older",
        "secrets": {"TOKEN": "value"},
    }
    why = "the trainer was killed by SIGKILL"
    assert spec["lineage"] == {"chain": "job", "number": 2, "previous": "job", "cause": "host", "why": why}
    assert [attempt.id for attempt in found.attempts] == ["job", "job.2"] and found.note == "" and not found.ended_at


def test_the_newest_whole_checkpoint_of_all_attempts_is_resumed(
    shared: SharedRoot, cluster: Cluster, submitted: list[dict[str, Any]]
) -> None:
    first, second = an_attempt(shared, "job", "FAILED"), an_attempt(shared, "job.2", "FAILED")
    for step in (10, 20):
        save(first.checkpoints, step)
    (next(first.checkpoints.glob("global_step_20/actor/model_*"))).write_bytes(b"cut")
    save(second.checkpoints, 5)
    assert watcher.newest_checkpoint(a_chain(shared, "job", "job.2"), shared) == "job"
    save(second.checkpoints, 12)
    look(a_chain(shared, "job", "job.2"), shared, cluster)
    assert submitted[0]["resume_from"] == "job.2" and submitted[0]["submission_id"] == "job.3"


def test_a_running_attempt_is_left_alone(shared: SharedRoot, cluster: Cluster, submitted: list[dict[str, Any]]) -> None:
    folder = an_attempt(shared, "job", "FAILED")
    job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), state="RUNNING", ended_at=None))
    assert look(a_chain(shared, "job"), shared, cluster).latest.state == "" and not submitted


@pytest.mark.parametrize(
    ("state", "reason", "note"),
    [
        ("SUCCEEDED", "", "succeeded"),
        ("FAILED", "KeyError: 1", "not a cause"),
        ("BLOCKED", "other verl", "not a cause"),
    ],
)
def test_an_end_that_is_no_cause_ends_the_chain(
    shared: SharedRoot, cluster: Cluster, submitted: list[dict[str, Any]], state: State, reason: str, note: str
) -> None:
    an_attempt(shared, "job", state, reason)
    found = look(a_chain(shared, "job"), shared, cluster)
    assert found.ended_at and found.note.startswith(note) and not submitted


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (Blocked("no worker is alive"), True),
        (TimedOut("no answer"), True),
        (feasibility.DoesNotFit("no room"), True),
        (BadInput("the dataset is gone"), False),
    ],
)
def test_what_may_come_back_is_waited_for(
    shared: SharedRoot, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, error: MvpError, waits: bool
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    an_attempt(shared, "job", "FAILED")
    monkeypatch.setattr(watcher.submit, "submit", refuse)
    monkeypatch.setattr(watcher, "_check_complete", lambda cluster: None)
    found = look(a_chain(shared, "job"), shared, cluster)
    assert error.what in found.note and bool(found.ended_at) is not waits
    if waits:
        assert found.note == f"attempt 2 waits: {error.what}"


def test_a_node_that_is_missing_is_waited_for(
    shared: SharedRoot, cluster: Cluster, submitted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    an_attempt(shared, "job", "FAILED")
    with FakeRay() as ray:
        ray.has_cluster()
        ray.has_rows("nodes", node_rows()[:2])
        monkeypatch.setattr(watcher.ray_api, "of", lambda cluster: ray.api())
        found = look(a_chain(shared, "job"), shared, cluster)
    assert "worker-1" in found.note and found.note.startswith("attempt 2 waits: ") and not submitted


def test_an_attempt_that_was_claimed_by_a_watcher_that_died_is_taken_as_it_is(
    shared: SharedRoot, cluster: Cluster, submitted: list[dict[str, Any]]
) -> None:
    an_attempt(shared, "job", "FAILED")
    an_attempt(shared, "job.2", "RUNNING")
    found = look(a_chain(shared, "job"), shared, cluster)
    assert [attempt.id for attempt in found.attempts] == ["job", "job.2"] and not submitted


def test_a_follower_goes_from_attempt_to_attempt_to_the_reason(shared: SharedRoot) -> None:
    folder = an_attempt(shared, "job", "FAILED")
    last = an_attempt(shared, "job.2", "SUCCEEDED")
    chain = a_chain(shared, "job", "job.2")
    chains.end(shared, chain, "succeeded")
    seen: list[str] = []
    said: list[str] = []

    def follow_one(attempt: JobFolder, left_s: float | None) -> Result:
        seen.append(attempt.submission_id)
        assert left_s is not None and left_s <= 60
        return job_folder.read(attempt)

    assert follow.to_the_end(folder, follow_one, said.append, 60) == (last, job_folder.read(last))
    assert seen == ["job", "job.2"]
    assert said == ["job.2: attempt 2 of job", "job: no further attempt after 2 attempts: succeeded"]


def test_a_follower_that_may_wait_no_longer_says_what_is_waited_for(shared: SharedRoot) -> None:
    folder = an_attempt(shared, "job", "FAILED")
    chain = a_chain(shared, "job")
    chain.note = "attempt 2 waits: no worker is alive"
    chains.write(shared, chain)
    with pytest.raises(TimedOut, match="no next attempt yet \\(attempt 2 waits: no worker is alive"):
        follow.to_the_end(folder, lambda attempt, _: job_folder.read(attempt), lambda _: None, 0)


def test_a_job_without_a_chain_is_followed_alone(shared: SharedRoot) -> None:
    folder = an_attempt(shared, "job", "FAILED")
    assert follow.to_the_end(folder, lambda attempt, _: job_folder.read(attempt), pytest.fail)[0] == folder
