"""What a reader concludes, and writes, about a job whose own processes may be gone."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from fake_ray import WORKER_0_ID, FakeRay

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.times import moment_of
from mvp_helpers.record import job_folder, reconcile
from mvp_helpers.record.job_folder import TERMINAL, Result, State
from mvp_helpers.record.reconcile import Decision, Seen, Submitter, decide

GONE = "the Ray cluster that ran it is gone"
NEVER = "the submitter ended before Ray accepted the job"
SEEN = {
    "silent": Seen(False, message="refused"),
    "unknown": Seen(True),
    "pending": Seen(True, "PENDING", "waiting"),
    "running": Seen(True, "RUNNING"),
    "stopped": Seen(True, "STOPPED"),
    "failed": Seen(True, "FAILED", "boom"),
    "succeeded": Seen(True, "SUCCEEDED"),
}


@pytest.mark.parametrize(
    ("state", "seen", "submitter", "age"),
    list(itertools.product(get_args(State), SEEN, get_args(Submitter), (1.0, 30.0, 90.0))),
)
def test_every_combination_has_the_one_true_decision(state: State, seen: str, submitter: Submitter, age: float) -> None:
    verdict = decide(state, SEEN[seen], submitter, age)
    lost = {"alive": False, "gone": age > 15, "unknown": age > 60}[submitter]
    expected: Decision
    if state in TERMINAL:
        expected = Decision(None)
    elif seen == "unknown" and state == "CLAIMED":
        expected = Decision("NOT_SUBMITTED", NEVER) if lost else Decision(None, "being submitted")
    else:
        expected = {
            "silent": Decision(None, "as the job folder says; refused"),
            "unknown": Decision("FAILED", GONE),
            "pending": Decision(None, "Ray reports PENDING: waiting"),
            "running": Decision(None, "" if state == "RUNNING" else "Ray reports RUNNING"),
            "stopped": Decision("STOPPED", "stopped"),
            "failed": Decision("FAILED", "boom"),
            "succeeded": Decision("FAILED", "Ray reports SUCCEEDED but the job runner left no result"),
        }[seen]
    assert verdict == expected


def test_of_the_log_that_ray_appends_only_the_end_is_kept() -> None:
    message = (
        "Job entrypoint command failed with exit code 137, last available logs (truncated to 20,000 chars):\nfirst\nKilled\n"
    )
    assert decide("RUNNING", Seen(True, "FAILED", message), "alive", 1).reason == (
        "Job entrypoint command failed with exit code 137: Killed"
    )


def test_of_the_log_that_ray_appends_the_last_error_is_kept_whatever_follows_it() -> None:
    log = "OSError: full\nINFO: saved\n"
    message = f"Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n{log}"
    assert decide("RUNNING", Seen(True, "FAILED", message), "alive", 1).reason == (
        "Job entrypoint command failed with exit code 1: OSError: full"
    )


def test_a_long_message_of_ray_keeps_its_end() -> None:
    verdict = decide("RUNNING", Seen(True, "FAILED", "x" * 20_000 + "ValueError: here"), "alive", 1)
    assert verdict.reason.endswith("ValueError: here") and len(verdict.reason) < 1_100


@pytest.fixture
def ray() -> Iterator[FakeRay]:
    with FakeRay() as server:
        yield server


def claim(root: Path, state: State, **fields: Any) -> JobFolder:
    folder = job_folder.claim(SharedRoot(root), Result(submission_id="a", workload="ppo", state="CLAIMED"))
    result = job_folder.read(folder)
    job_folder.write(folder, msgspec.structs.replace(result, state=state, **fields))
    return folder


def settle(folder: JobFolder, ray: FakeRay | None) -> Result:
    return reconcile.settle(folder, job_folder.read(folder), ray.api() if ray else None)


def test_a_dead_runners_job_is_written_as_failed_with_rays_reason(tmp_path: Path, ray: FakeRay) -> None:
    folder = claim(tmp_path, "RUNNING")
    folder.metrics.write_text('{"step":7,"data":{"critic/score/mean":0.5}}\n')
    ray.has_job("a", "FAILED", message="the node died", driver_exit_code=137, end_time=1795225400000)
    settled = settle(folder, ray)
    assert settled == job_folder.read(folder)
    assert (settled.state, settled.reason, settled.exit_code, settled.ended_at) == (
        "FAILED",
        "the node died",
        137,
        moment_of(1795225400),
    )
    assert (settled.steps_done, settled.last_metrics, settled.driver_node_id) == (7, {"critic/score/mean": 0.5}, WORKER_0_ID)
    assert job_folder.active_ids(SharedRoot(tmp_path)) == []


def test_an_ending_that_the_runner_writes_during_the_grace_wins(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "GRACE_S", 0.4)
    folder = claim(tmp_path, "RUNNING")
    ray.has_job("a", "SUCCEEDED")

    def finish() -> None:
        time.sleep(0.1)
        job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), state="SUCCEEDED", exit_code=0))

    runner = threading.Thread(target=finish)
    runner.start()
    settled = settle(folder, ray)
    runner.join()
    assert settled.state == job_folder.read(folder).state == "SUCCEEDED"


def test_a_job_that_goes_on_is_noted_and_never_written(tmp_path: Path, ray: FakeRay) -> None:
    folder = claim(tmp_path, "SUBMITTED")
    before = folder.result.read_bytes()
    ray.has_job("a", "PENDING", message="waiting for resources")
    settled = settle(folder, ray)
    assert (settled.state, settled.reason) == ("SUBMITTED", "Ray reports PENDING: waiting for resources")
    assert folder.result.read_bytes() == before


def test_a_ray_that_is_down_proves_nothing(tmp_path: Path) -> None:
    folder = claim(tmp_path, "RUNNING")
    with FakeRay() as ray:
        pass
    before = folder.result.read_bytes()
    assert "does not answer" in settle(folder, ray).reason
    assert settle(folder, None).reason == "as the job folder says; the cluster is not up"
    assert folder.result.read_bytes() == before


def test_a_restarted_cluster_means_that_the_job_is_gone(tmp_path: Path, ray: FakeRay) -> None:
    folder = claim(tmp_path, "RUNNING")
    folder.submit_cmd.write_text(f"export A=b\nray job submit --address {ray.address} --submission-id a -- x\n")
    ray.lacks_job("a")
    assert (settle(folder, ray).state, job_folder.read(folder).reason) == ("FAILED", GONE)


def test_another_cluster_not_knowing_a_job_says_nothing_about_it(tmp_path: Path, ray: FakeRay) -> None:
    folder = claim(tmp_path, "RUNNING")
    folder.submit_cmd.write_text("ray job submit --address http://10.0.0.1:8265 --submission-id a -- x\n")
    ray.lacks_job("a")
    settled = settle(folder, ray)
    assert settled.state == job_folder.read(folder).state == "RUNNING"
    assert "another Ray, at http://10.0.0.1:8265" in settled.reason


@pytest.mark.parametrize(("alive", "state"), [(True, "CLAIMED"), (False, "NOT_SUBMITTED")])
def test_an_old_claim_is_settled_by_whether_its_submitter_lives(tmp_path: Path, ray: FakeRay, alive: bool, state: State) -> None:
    folder = claim(tmp_path, "CLAIMED", claimed_at=moment_of(time.time() - 100))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    pid = os.getpid() if alive else dead.pid
    folder.provenance.write_text(json.dumps({"submitted_from": {"hostname": socket.gethostname(), "pid": pid}}))
    ray.lacks_job("a")
    assert settle(folder, ray).state == state


def test_a_removed_folder_is_left_alone(tmp_path: Path, ray: FakeRay) -> None:
    folder = claim(tmp_path, "RUNNING")
    result = job_folder.read(folder)
    folder.result.unlink()
    ray.lacks_job("a")
    assert reconcile.settle(folder, result, ray.api()).state == "RUNNING"
    assert not folder.result.exists()
