"""Whether another attempt follows, and what is kept of a chain."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.plan import jobspec
from mvp_helpers.record import chain as chains
from mvp_helpers.record.chain import Attempt, Cause, Chain, Retry


def attempt(step: int, cause: Cause | None = "cluster", rule: str = "node-died", state: str = "FAILED") -> Attempt:
    return Attempt(id="job", state=state, cause=cause, rule=rule, why="because", step=step)


def chain_of(*attempts: Attempt, on: tuple[Cause, ...] = chains.CAUSES, most: int = 3, idle: int = 2) -> Chain:
    for number, one in enumerate(attempts, 1):
        one.id = "job" if number == 1 else f"job.{number}"
    return Chain(cluster="c", retry=Retry(on=list(on), max=most, no_progress_max=idle), attempts=list(attempts))


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        (chain_of(attempt(5)), ""),
        (chain_of(attempt(0)), ""),
        (chain_of(attempt(5), attempt(9), attempt(12)), ""),
        (chain_of(attempt(5), attempt(5), attempt(6)), ""),
        (chain_of(attempt(20, None, state="SUCCEEDED")), "succeeded"),
        (chain_of(attempt(5, None, "nan")), "not a cause for another attempt: because"),
        (chain_of(attempt(5, "host"), on=("ray", "cluster")), "its cause is 'host', and retry.on names ray, cluster: because"),
        (chain_of(attempt(0), attempt(0)), "2 attempts without a new step"),
        (chain_of(attempt(5), attempt(5), attempt(4)), "2 attempts without a new step"),
        (chain_of(attempt(5), attempt(5), idle=1), "1 attempts without a new step"),
        (chain_of(attempt(1), attempt(2), attempt(3), attempt(4)), "4 attempts, 3 after the first (retry.max)"),
        (chain_of(attempt(1), attempt(2), most=1), "2 attempts, 1 after the first (retry.max)"),
        (chain_of(attempt(7, "host", "no-memory"), attempt(7, "host", "no-memory")), "out of memory at step 7 again"),
        (chain_of(attempt(7, "host", "no-memory"), attempt(9, "host", "no-memory")), ""),
        (chain_of(attempt(7, "host", "no-memory")), ""),
    ],
)
def test_another_attempt_follows_or_the_reason_is_given(chain: Chain, reason: str) -> None:
    decided = chains.decide(chain)
    assert decided.startswith(reason) if reason else decided == ""


def test_every_attempt_finds_its_chain_before_and_after_its_end(tmp_path: Path) -> None:
    shared, chain = SharedRoot(tmp_path), chain_of(attempt(5), attempt(6))
    chains.write(shared, chain)
    for name in ("job", "job.2"):
        assert chains.find(shared, name) == chain
    assert chains.find(shared, "job.3") is None and chains.find(shared, "other") is None
    assert chains.active(shared, "c") == [chain] and chains.active(shared, "another cluster") == []
    chains.secrets(shared, "job").parent.mkdir(parents=True)
    chains.secrets(shared, "job").write_text("{}")
    chains.end(shared, chain, "succeeded")
    found = chains.find(shared, "job.2")
    assert found and (found.note, found.ended_at) == ("succeeded", chain.ended_at) and chain.ended_at
    assert chains.active(shared, "c") == [] and not chains.secrets(shared, "job").exists()


def test_an_id_that_only_looks_like_an_attempt_is_a_job_of_its_own(tmp_path: Path) -> None:
    shared = SharedRoot(tmp_path)
    chain = Chain(cluster="c", retry=Retry(on=["host"]), attempts=[Attempt(id="model.2")])
    chains.write(shared, chain)
    assert chains.find(shared, "model.2") == chain and chain.next_id == "model.2.2"
    assert chains.find(shared, "model") is None and chains.find(shared, "model.3") is None


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b'{"cluster": 1}', b'["a"]'])
def test_a_damaged_record_is_named_and_starts_nothing(tmp_path: Path, damage: bytes) -> None:
    shared = SharedRoot(tmp_path)
    chains.write(shared, chain_of(attempt(5)))
    (shared.jobs / ".chains" / "job.json").write_bytes(damage)
    with pytest.raises(BadInput, match=r"\.chains/job\.json"):
        chains.find(shared, "job")
    assert chains.active(shared, "c") == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    shared = SharedRoot(tmp_path)
    chains.write(shared, chain_of(attempt(5)))
    (shared.jobs / ".chains" / "job.json").chmod(0)
    with pytest.raises(BadInput, match="cannot read"):
        chains.find(shared, "job")


@pytest.mark.parametrize(
    ("retry", "message"),
    [
        (
            '{"on": ["hosts"]}',
            "job.json: 'retry.on[0]': 'hosts' is not one of cluster, host, preempted, ray (did you mean 'host'?)",
        ),
        ('{"on": []}', "retry.on"),
        ("{}", "retry"),
        ('{"on": ["host"], "max": 0}', "retry.max"),
        ('{"on": ["host"], "max": 99}', "retry.max"),
        ('{"on": ["host"], "no_progress_max": 0}', "retry.no_progress_max"),
        ('{"on": ["host"], "often": 1}', "often"),
        ('["host"]', "retry"),
    ],
)
def test_a_wrong_retry_is_named(retry: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        jobspec.load(f'{{"workload": "ppo", "retry": {retry}}}'.encode(), "job.json")
    assert message in caught.value.what and "\n" not in caught.value.what


def test_an_id_that_leaves_no_room_for_attempts_is_refused_only_with_retry() -> None:
    spec = '{"workload": "ppo", "submission_id": "%s"%s}'
    long, retry = "a" * 61, ', "retry": {"on": ["host"]}'
    assert jobspec.load((spec % (long, "")).encode(), "job.json").submission_id == long
    with pytest.raises(BadInput, match="has 61 characters; with retry 60 at most"):
        jobspec.load((spec % (long, retry)).encode(), "job.json")
