"""The status screen: newest and active jobs only, asked about only while they go on, readable without a cluster."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_ray import FakeRay, node_rows

from mvp_helpers.base.errors import Blocked
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.terminal import wants_colour
from mvp_helpers.base.times import moment_of
from mvp_helpers.cluster import cluster_file
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.cluster.ray_api import RayApi
from mvp_helpers.job import status
from mvp_helpers.record import chain as chains
from mvp_helpers.record import job_folder, removals
from mvp_helpers.record.chain import Attempt, Chain, Retry
from mvp_helpers.record.job_folder import Result
from mvp_helpers.record.wall_time import Account
from mvp_helpers.usage.resources import Log

_opened: list[str] | None = None


def _note_open(event: str, args: tuple[Any, ...]) -> None:
    if _opened is not None and event == "open":
        _opened.append(str(args[0]))


sys.addaudithook(_note_open)  # cannot be removed again: it does nothing while _opened is None


@pytest.fixture
def ray() -> Iterator[FakeRay]:
    with FakeRay() as server:
        server.has_cluster()
        yield server


@pytest.fixture
def small(tmp_path: Path) -> Cluster:
    return msgspec.structs.replace(cluster_file.load("local"), shared_root=str(tmp_path))


def add_job(root: Path, name: str, at: float, **fields: Any) -> JobFolder:
    """A job folder as it is left behind, claimed ``at`` this Unix time."""
    shared = SharedRoot(root)
    folder = job_folder.claim(shared, Result(submission_id=name, workload="ppo", state="CLAIMED"))
    (entry,) = shared.job_index.glob(f"*_{name}")
    claimed = moment_of(at)
    entry.rename(shared.job_index / f"{claimed.replace(':', '')}_{name}")
    done = {"state": "SUCCEEDED", "started_at": claimed, "ended_at": moment_of(at + 72), "steps_done": 20, "steps_total": 20}
    job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), claimed_at=claimed, **{**done, **fields}))
    return folder


def test_the_number_of_opened_files_does_not_grow_with_the_jobs(small: Cluster, ray: FakeRay, tmp_path: Path) -> None:
    global _opened
    opened = {}
    for count in (30, 1_000):
        root = tmp_path / str(count)
        for at in range(count):
            name = f"job-{at}"
            folder = JobFolder(root / "jobs" / name)
            folder.path.mkdir(parents=True)
            result = Result(submission_id=name, workload="ppo", state="SUCCEEDED", claimed_at=moment_of(at))
            folder.result.write_bytes(msgspec.json.encode(result))
            index = SharedRoot(root).job_index
            index.mkdir(exist_ok=True)
            (index / f"{moment_of(at).replace(':', '')}_{name}").touch()
        _opened = []
        found = status.collect(msgspec.structs.replace(small, shared_root=str(root)), ray.api(), limit=20)
        opened[count] = len([path for path in _opened if path.startswith(str(tmp_path))])
        _opened = None
        assert [job["id"] for job in found["jobs"]][:2] == [f"job-{count - 1}", f"job-{count - 2}"]
    assert opened[1_000] == opened[30] == 20


def test_only_jobs_that_have_not_ended_are_asked_about_one_by_one(small: Cluster, ray: FakeRay, tmp_path: Path) -> None:
    for at in range(5):
        add_job(tmp_path, f"old-{at}", at)
    add_job(tmp_path, "going", 1_000, state="RUNNING", ended_at=None, steps_done=3)
    ray.has_job("going", "RUNNING")
    found = status.collect(small, ray.api(), limit=2)
    assert [job["id"] for job in found["jobs"]] == ["going", "old-4"]
    assert [path for path in ray.asked if path.startswith("/api/jobs")] == ["/api/jobs/going"]


def test_an_active_job_shows_however_old_it_is(small: Cluster, ray: FakeRay, tmp_path: Path) -> None:
    add_job(tmp_path, "old-active", 1, state="RUNNING", ended_at=None)
    add_job(tmp_path, "new", 2)
    ray.has_job("old-active", "RUNNING")
    assert {job["id"] for job in status.collect(small, ray.api(), limit=1)["jobs"]} == {"new", "old-active"}


def test_a_chain_is_one_line_with_its_attempts(small: Cluster, ray: FakeRay, tmp_path: Path) -> None:
    add_job(tmp_path, "job", 1_000.0, state="FAILED", reason="the node died")
    add_job(tmp_path, "other", 2_000.0)
    add_job(tmp_path, "job.2", 3_000.0, state="FAILED", reason="Ray lost an actor")
    first, second = Attempt(id="job", state="FAILED", cause="cluster"), Attempt(id="job.2")
    chain = Chain(cluster=small.name, retry=Retry(on=["cluster"]), attempts=[first, second], note="attempt 3 waits: no worker")
    chains.write(SharedRoot(tmp_path), chain)
    state = status.collect(small, ray.api(), 20)
    assert [(job["id"], [attempt["state"] for attempt in job["attempts"]]) for job in state["jobs"]] == [
        ("job.2", ["FAILED", "FAILED"]),
        ("other", []),
    ]
    screen = status.screen(state, 200, False)
    assert "attempts: 1 FAILED (cluster), 2 FAILED; attempt 3 waits: no worker" in screen


def test_a_chain_shows_with_its_newest_attempt_that_was_not_removed(small: Cluster, ray: FakeRay, tmp_path: Path) -> None:
    add_job(tmp_path, "job", 1_000.0, state="FAILED", reason="the node died")
    attempts = [Attempt(id="job", state="FAILED", cause="cluster"), Attempt(id="job.2", state="FAILED")]
    chain = Chain(cluster=small.name, retry=Retry(on=["cluster"]), attempts=attempts, note="enough")
    chains.write(SharedRoot(tmp_path), chain)
    facts = {"workload": "ppo", "state": "FAILED", "claimed_at": "", "removed_at": "", "by": "me@vm"}
    removals.record_job(SharedRoot(tmp_path), removals.RemovedJob(submission_id="job.2", bytes=1, **facts))
    state = status.collect(small, ray.api(), 20)
    assert [job["id"] for job in state["jobs"]] == ["job"]
    assert "attempts: 1 FAILED (cluster), 2 FAILED, removed; enough" in status.screen(state, 200, False)


def test_a_damaged_chain_does_not_hide_its_job(small: Cluster, ray: FakeRay, tmp_path: Path) -> None:
    add_job(tmp_path, "job", 1_000.0)
    (tmp_path / "jobs" / ".chains").mkdir()
    (tmp_path / "jobs" / ".chains" / "job.json").write_text("{")
    (job,) = status.collect(small, ray.api(), 20)["jobs"]
    assert "cannot read" in job["note"] and job["attempts"] == []


def test_a_running_job_shows_its_step_reward_and_last_error(small: Cluster, ray: FakeRay, tmp_path: Path) -> None:
    folder = add_job(tmp_path, "a", 1, state="RUNNING", ended_at=None, steps_done=0, driver_host="worker-0")
    folder.metrics.write_text('{"step":4,"data":{"critic/score/mean":0.25}}\n')
    folder.driver_log.write_text("x" * 70_000 + "\n(TaskRunner pid=1) ray.exceptions.ActorDiedError: gone\nmore\n")
    ray.has_job("a", "RUNNING")
    found = status.collect(small, ray.api(), limit=5)
    (job,) = found["jobs"]
    assert (job["steps_done"], job["metric"], job["value"]) == (4, "reward", 0.25)
    assert job["last_error"] == "ray.exceptions.ActorDiedError: gone"
    assert "a    ppo       RUNNING  worker-0  4/20" in status.screen(found, 200, colour=False)


def test_a_running_job_shows_what_it_uses_and_every_job_where_its_time_went(small: Cluster, ray: FakeRay, tmp_path: Path) -> None:
    account = Account(0.0, 5.0).so_far(20.0, [], None)
    add_job(tmp_path, "ended", 1, state="SUCCEEDED", wall_time=account)
    found = status.collect(small, ray.api(), limit=5)
    assert found["jobs"][0]["wall_time"]["seconds"]["queue"] == 5 and found["jobs"][0]["use"] is None
    assert "USE" not in status.screen(found, 200, colour=False)
    folder = add_job(tmp_path, "a", 2, state="RUNNING", ended_at=None, steps_done=3)
    ray.has_job("a", "RUNNING")
    gpu = {"index": 0, "utilisation": 0.93, "memory_used": 3, "memory_total": 4}
    memory = {"total": 100, "used": 42}
    Log(folder.resources, 10).add(1.0, 3, [{"host": "w", "memory": memory, "job": {"processes": 1, "cpu": 1.5}, "gpus": [gpu]}])
    found = status.collect(small, ray.api(), limit=5)
    assert found["jobs"][0]["use"] == {"gpu": 0.93, "gpu_memory": 0.75, "cpu": 1.5, "memory": 0.42}
    assert "GPU 93% mem 42%" in status.screen(found, 200, colour=False)
    folder.resources.write_text(folder.resources.read_text().replace('"gpus":[', '"none":['))
    assert "CPU 1.5 mem 42%" in status.screen(status.collect(small, ray.api(), limit=5), 200, colour=False)


def test_a_dead_runners_job_gets_its_last_word_from_the_screen(small: Cluster, ray: FakeRay, tmp_path: Path) -> None:
    folder = add_job(tmp_path, "a", 1, state="RUNNING", ended_at=None)
    ray.has_job("a", "FAILED", message="the node died")
    (job,) = status.collect(small, ray.api(), limit=5)["jobs"]
    assert (job["state"], job["last_error"]) == ("FAILED", "the node died")
    assert job_folder.read(folder).state == "FAILED"


def test_a_folder_that_is_gone_or_damaged_does_not_hide_the_others(small: Cluster, ray: FakeRay, tmp_path: Path) -> None:
    shutil.rmtree(add_job(tmp_path, "removed", 1).path)
    add_job(tmp_path, "damaged", 2).result.write_text("{")
    add_job(tmp_path, "good", 3)
    jobs = {job["id"]: job for job in status.collect(small, ray.api(), limit=5)["jobs"]}
    assert set(jobs) == {"damaged", "good"}
    assert jobs["damaged"]["state"] == "DAMAGED" and "result.json: not JSON" in jobs["damaged"]["last_error"]


def test_names_in_the_index_that_no_job_has_do_not_count(small: Cluster, ray: FakeRay, tmp_path: Path) -> None:
    add_job(tmp_path, "good", 3)
    shared = SharedRoot(tmp_path)
    for folder in (shared.job_index, shared.active_jobs):
        for name in ("stray", ".nfs0001", "20260101T000000Z_..", "20260101T000000Z_", "_", "9999-01-01T000000Z_a\nb", "\udcff"):
            (folder / name).touch()
    assert [job["id"] for job in status.collect(small, ray.api(), limit=1)["jobs"] if job["state"] != "DAMAGED"] == ["good"]


def test_a_list_of_jobs_that_is_no_folder_is_one_line(small: Cluster, ray: FakeRay, tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("")
    with pytest.raises(Blocked, match=r"cannot list the jobs: .*/jobs/\.index: Not a directory"):
        status.collect(small, ray.api(), 5)


@pytest.mark.parametrize("answer", [500, [], 7, {"data": 3}, {"result": True, "data": {"result": {"result": [1]}}}])
def test_a_port_that_does_not_answer_as_ray_does_is_said(small: Cluster, ray: FakeRay, tmp_path: Path, answer: Any) -> None:
    add_job(tmp_path, "a", 1, state="RUNNING", ended_at=None)
    ray.answers = dict.fromkeys([*ray.answers, "/api/jobs/a"], answer)
    found = status.collect(small, ray.api(), 5)
    assert not found["cluster"]["up"] and ray.address in found["cluster"]["problem"]
    assert [job["id"] for job in found["jobs"]] == ["a"]


def test_a_port_where_something_else_than_http_answers_is_said(small: Cluster, tmp_path: Path) -> None:
    add_job(tmp_path, "a", 1, state="RUNNING", ended_at=None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer_each, args=(server, b"SSH-2.0-OpenSSH_9.6\r\n"), daemon=True).start()
        api = RayApi(f"http://127.0.0.1:{server.getsockname()[1]}")
        found = status.collect(small, api, 5)
    assert "does not answer" in found["cluster"]["problem"] and "SSH-2.0" in found["cluster"]["problem"]
    assert [(job["id"], job["state"]) for job in found["jobs"]] == [("a", "RUNNING")]


def answer_each(server: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # the server was closed
        while True:
            client, _ = server.accept()
            with client:
                client.recv(1000)
                client.sendall(data)


def test_hosts_of_the_cluster_file_are_matched_with_rays_nodes(small: Cluster, ray: FakeRay) -> None:
    rows = node_rows()
    rows[2] |= {"state": "DEAD"}
    ray.has_rows("nodes", [*rows, {**rows[1], "node_id": "f", "node_ip": "127.0.0.99"}])
    cluster = status.collect(small, ray.api(), limit=5)["cluster"]
    assert [(host["name"], host["state"], host["cpu"]) for host in cluster["hosts"]] == [
        ("head", "alive", 0),
        ("worker-0", "alive", 8),
        ("worker-1", "dead", None),
        ("?", "not in the cluster file", 8),
    ]
    assert cluster["usage"] == {"CPU": "3.0/16.0"} and cluster["versions"]["ray"] == "2.60.0"


def test_without_a_cluster_the_jobs_still_show(small: Cluster, tmp_path: Path) -> None:
    add_job(tmp_path, "a", 1)
    add_job(tmp_path, "b", 2, state="RUNNING", ended_at=None)
    with FakeRay() as ray:
        pass
    found = status.collect(small, ray.api(), limit=5)
    text = status.screen(found, 300, colour=False)
    assert "not up: the Ray cluster does not answer" in text
    assert [job["state"] for job in found["jobs"]] == ["RUNNING", "SUCCEEDED"]
    assert "as the job folder says" in text
    assert json.loads(json.dumps(found)) == found


def test_an_empty_shared_root_is_said(small: Cluster, ray: FakeRay) -> None:
    assert f"no jobs in {small.shared_root}/jobs" in status.screen(status.collect(small, ray.api(), limit=5), 200, colour=False)


def test_the_screen_fits_the_terminal_and_colours_only_states(small: Cluster, ray: FakeRay, tmp_path: Path) -> None:
    add_job(tmp_path, "a", 1, state="FAILED", reason="x" * 500)
    found = status.collect(small, ray.api(), limit=5)
    assert max(map(len, status.screen(found, 80, colour=False).splitlines())) <= 80
    assert "\x1b" not in status.screen(found, 80, colour=False)
    assert "\x1b[31mFAILED\x1b[0m" in status.screen(found, 80, colour=True)


@pytest.mark.parametrize(
    ("terminal", "variables", "wanted"), [(True, {}, True), (False, {}, False), (True, {"NO_COLOR": "1"}, False)]
)
def test_colour_is_for_people_who_want_it(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, variables: dict[str, str], wanted: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(terminal) is wanted
