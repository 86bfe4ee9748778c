"""Ray's records of ended jobs: removed when, and only when, the folder tells all that they tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_ray import FakeRay, job_record

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.record import job_folder, retention
from mvp_helpers.record.job_folder import Result, State


@pytest.fixture
def ray() -> Iterator[FakeRay]:
    with FakeRay() as ray:
        yield ray


@pytest.fixture
def forgetting(cluster: Cluster, replace: Callable[..., Any]) -> Cluster:
    """The cluster file with ``ray.keep_job_records: false``."""
    changed: Cluster = replace(cluster, ray=replace(cluster.ray, keep_job_records=False))
    return changed


def job(shared: SharedRoot, ray: FakeRay, name: str, state: State = "SUCCEEDED", *, bundle: bool = True) -> JobFolder:
    folder = job_folder.claim(shared, Result(submission_id=name, workload="ppo", state="CLAIMED"))
    folder.submit_cmd.write_text(f"ray job submit --address {ray.address} --submission-id {name}\n")
    if bundle:
        (folder.debug / f"20260131T000000Z-{state.lower()}").mkdir()
    job_folder.write(folder, Result(submission_id=name, workload="ppo", state=state))
    return folder


def deletable(ray: FakeRay, *records: tuple[str, str]) -> None:
    ray.answers["/api/jobs/"] = [job_record(name, status) for name, status in records]
    for name, _ in records:
        ray.answers[f"DELETE /api/jobs/{name}"] = {"deleted": True}


def deletions(ray: FakeRay) -> list[str]:
    return [path.rpartition("/")[2] for path in ray.asked if path.startswith("DELETE ")]


def test_by_default_ray_keeps_its_records_and_is_not_even_asked(cluster: Cluster, ray: FakeRay) -> None:
    assert retention.sweep(cluster, ray.api()) == [] and ray.asked == []


def test_records_of_ended_jobs_whose_evidence_is_whole_are_removed(forgetting: Cluster, shared: SharedRoot, ray: FakeRay) -> None:
    for name, state in (("good", "SUCCEEDED"), ("bad", "FAILED"), ("blocked", "BLOCKED")):
        job(shared, ray, name, state)  # type: ignore[arg-type]
    deletable(ray, ("good", "SUCCEEDED"), ("bad", "FAILED"), ("blocked", "FAILED"))
    assert retention.sweep(forgetting, ray.api()) == ["good", "bad", "blocked"] == deletions(ray)


def test_jobs_that_run_and_jobs_of_others_are_left_alone(forgetting: Cluster, shared: SharedRoot, ray: FakeRay) -> None:
    job(shared, ray, "runs", "RUNNING")
    job(shared, ray, "ends", "SUCCEEDED")  # Ray has not noticed yet, and would refuse
    elsewhere = job(shared, ray, "elsewhere", "SUCCEEDED")
    elsewhere.submit_cmd.write_text("ray job submit --address http://127.0.0.99:1\n")
    ray.answers["/api/jobs/"] = [
        job_record("runs", "RUNNING"),
        job_record("ends", "RUNNING"),
        job_record("elsewhere", "SUCCEEDED"),
        job_record("no-folder", "SUCCEEDED"),
        job_record("x", "SUCCEEDED") | {"type": "DRIVER", "submission_id": None},
    ]
    assert retention.sweep(forgetting, ray.api()) == [] == deletions(ray)


def test_what_the_folder_lacks_is_written_before_the_record_goes(forgetting: Cluster, shared: SharedRoot, ray: FakeRay) -> None:
    folder = job(shared, ray, "orphan", "RUNNING", bundle=False)
    ray.has_cluster()
    for kind in ("actors", "placement_groups"):
        ray.has_rows(kind, [])
    ray.has_job("orphan", "FAILED", message="the runner was killed")
    deletable(ray, ("orphan", "FAILED"))
    assert retention.sweep(forgetting, ray.api()) == ["orphan"]
    result = job_folder.read(folder)
    assert (result.state, result.reason) == ("FAILED", "the runner was killed")
    (bundle,) = folder.debug.glob("*-failed")
    assert "the runner was killed" in (bundle / "job.json").read_text()
    assert ray.asked[-1] == "DELETE /api/jobs/orphan"


def test_a_removal_that_fails_is_made_up_for_next_time_and_holds_up_no_other(
    forgetting: Cluster, shared: SharedRoot, ray: FakeRay
) -> None:
    job(shared, ray, "one")
    job(shared, ray, "two")
    deletable(ray, ("one", "SUCCEEDED"), ("two", "SUCCEEDED"))
    ray.answers["DELETE /api/jobs/one"] = 500
    assert retention.sweep(forgetting, ray.api()) == ["two"]
    deletable(ray, ("one", "SUCCEEDED"))
    assert retention.sweep(forgetting, ray.api()) == ["one"]


def test_a_ray_that_does_not_answer_is_no_failure(forgetting: Cluster, ray: FakeRay) -> None:
    api = ray.api()
    ray.close()
    assert retention.sweep(forgetting, api) == []


def test_many_old_records_go_in_portions(forgetting: Cluster, shared: SharedRoot, ray: FakeRay) -> None:
    names = [f"job-{at}" for at in range(retention.AT_ONCE + 3)]
    for name in names:
        job(shared, ray, name)
    deletable(ray, *((name, "SUCCEEDED") for name in names))
    assert retention.sweep(forgetting, ray.api()) == names[: retention.AT_ONCE]
