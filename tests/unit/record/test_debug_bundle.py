"""Debug bundles: whole, bounded in time, without secrets, and without raising for a Ray that is gone."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_ray import STATUS_TEXT, FakeRay, job_record, node_rows

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder
from mvp_helpers.masking import known
from mvp_helpers.record import debug_bundle


@pytest.fixture
def ray() -> Iterator[FakeRay]:
    with FakeRay() as server:
        server.has_cluster()
        server.answers["/api/jobs/"] = [
            job_record("mine", "RUNNING"),
            job_record("theirs", "FAILED", entrypoint="x --password s3cr3t"),
        ]
        server.has_job("mine", "RUNNING")
        theirs = {"job_id": "04000000", "name": "of another job"}
        actors = [{"job_id": "02000000", "serialized_runtime_env": "s3cr3t", "state": "ALIVE"}, theirs]
        server.has_rows("actors", [{"actor_id": str(at), "class_name": "A", **row} for at, row in enumerate(actors)])
        groups = [{"placement_group_id": at, "creator_job_id": job} for at, job in enumerate(("02000000", "04000000"))]
        server.has_rows("placement_groups", groups)
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    (tmp_path / "mine").mkdir()
    return JobFolder(tmp_path / "mine")


def load(bundle: Path, name: str) -> Any:
    return json.loads((bundle / name).read_bytes())


def test_a_bundle_holds_every_kind_and_says_what_it_collected(ray: FakeRay, folder: JobFolder) -> None:
    bundle = debug_bundle.take(folder, ray.api(), "started")
    assert bundle.parent == folder.debug and bundle.name.endswith("-started")
    assert (bundle / "ray_status.txt").read_text() == STATUS_TEXT
    assert [row["node_id"] for row in load(bundle, "nodes.json")] == [row["node_id"] for row in node_rows()]
    assert [row["creator_job_id"] for row in load(bundle, "placement_groups.json")] == ["02000000"]
    assert [job["submission_id"] for job in load(bundle, "jobs.json")] == ["mine", "theirs"]
    assert load(bundle, "job.json")[0]["driver_node_id"]
    items = load(bundle, "bundle.json")["items"]
    assert {name: item["rows"] for name, item in items.items()} == {
        "ray_status": None,
        "jobs": 2,
        "job": 1,
        "nodes": 3,
        "actors": 1,
        "placement_groups": 1,
    }
    assert not any(item["error"] for item in items.values())


def test_no_secret_reaches_a_bundle(ray: FakeRay, folder: JobFolder) -> None:
    bundle = debug_bundle.take(folder, ray.api(), "started")
    assert not [path.name for path in bundle.iterdir() if "s3cr3t" in path.read_text()]
    assert load(bundle, "jobs.json")[0]["entrypoint"], "the job's own entrypoint is evidence"


def test_actors_of_every_driver_of_the_job_are_its_own_and_no_others(ray: FakeRay, folder: JobFolder) -> None:
    """Ray's record names one of the job's drivers, and counts the supervisors of all jobs to a job of its own."""

    def variables(of: str) -> str:
        return json.dumps({"env_vars": {"MVP_JOB_FOLDER": f"{folder.path.parent}/{of}", "OWN": "nested"}})

    rows = [
        {"class_name": "Trainer", "job_id": "02000000", "serialized_runtime_env": "{}"},
        {"class_name": "Look", "job_id": "03000000", "serialized_runtime_env": variables("mine")},
        {"class_name": "JobSupervisor", "job_id": "01000000", "serialized_runtime_env": variables("mine")},
        {"class_name": "JobSupervisor", "job_id": "01000000", "serialized_runtime_env": variables("theirs")},
        {"class_name": "Trainer", "job_id": "04000000", "serialized_runtime_env": variables("mine-too")},
    ]
    ray.has_rows("actors", rows)
    ray.has_rows("placement_groups", [{"creator_job_id": f"0{at}000000"} for at in range(1, 5)])
    bundle = debug_bundle.take(folder, ray.api(), "started")
    found = [(row["class_name"], row["job_id"]) for row in load(bundle, "actors.json")]
    assert found == [("Trainer", "02000000"), ("Look", "03000000"), ("JobSupervisor", "01000000")]
    assert [row["creator_job_id"] for row in load(bundle, "placement_groups.json")] == ["02000000", "03000000"]
    assert load(bundle, "bundle.json")["items"]["actors"] | {"seconds": 0} == {
        "file": "actors.json",
        "seconds": 0,
        "rows": 3,
        "truncated": 0,
        "error": "",
    }


def test_a_secret_that_ray_still_knows_is_masked_when_its_value_is_gone(ray: FakeRay, folder: JobFolder) -> None:
    value = 'n4me/"of an actor"'
    known.remember(folder.shared, [value])
    ray.has_rows("actors", [{"actor_id": "1", "job_id": "02000000", "name": value, value: 1}])
    ray.answers["/api/v0/nodes?detail=1&limit=10000"] = 500
    ray.answers["/api/jobs/"] = [job_record("theirs", "FAILED", error_type=value)]
    bundle = debug_bundle.take(folder, ray.api(), "manual")
    assert load(bundle, "actors.json") == [{"actor_id": "1", "job_id": "02000000", "name": "***", "***": 1}]
    assert not [path.name for path in bundle.iterdir() if "of an actor" in path.read_text()]


def test_a_slow_job_list_does_not_cost_the_rest(ray: FakeRay, folder: JobFolder) -> None:
    ray.delays["/api/jobs/"] = 5
    began = time.monotonic()
    bundle = debug_bundle.take(folder, ray.api(), "started", timeout_s=0.5)
    assert time.monotonic() - began < 4
    failed, collected = debug_bundle.outcome(bundle)
    assert failed == {"jobs": "no answer within 0.5 s"}
    assert not (bundle / "jobs.json").exists()
    assert set(collected) == {"ray_status", "job", "nodes", "actors", "placement_groups"}


def test_one_refused_call_is_recorded_and_the_others_are_kept(ray: FakeRay, folder: JobFolder) -> None:
    ray.answers["/api/v0/actors?detail=1&limit=10000"] = 500
    failed, collected = debug_bundle.outcome(debug_bundle.take(folder, ray.api(), "started"))
    assert list(failed) == ["actors"] and "500" in failed["actors"]
    assert "nodes" in collected


def test_truncated_rows_are_counted(ray: FakeRay, folder: JobFolder) -> None:
    ray.has_rows("actors", [{"actor_id": "1"}], total=12_000)
    bundle = debug_bundle.take(folder, ray.api(), "started")
    assert load(bundle, "bundle.json")["items"]["actors"]["truncated"] == 11_999


def test_a_ray_that_is_gone_leaves_a_bundle_of_errors(folder: JobFolder) -> None:
    with FakeRay() as ray:
        pass
    bundle = debug_bundle.take(folder, ray.api(), "failed")
    failed, collected = debug_bundle.outcome(bundle)
    assert not collected and len(failed) == 6
    assert "does not answer" in failed["nodes"]
    assert [path.name for path in bundle.iterdir()] == ["bundle.json"]


def test_nothing_half_written_is_ever_seen(ray: FakeRay, folder: JobFolder) -> None:
    bundles = [debug_bundle.take(folder, ray.api(), "manual") for _ in range(2)]
    assert sorted(folder.debug.iterdir()) == sorted(bundles)


def test_a_full_disk_leaves_no_half_bundle(ray: FakeRay, folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(debug_bundle.files, "write_json", full)
    with pytest.raises(OSError, match="No space left"):
        debug_bundle.take(folder, ray.api(), "manual")
    assert list(folder.debug.iterdir()) == []


def test_what_a_killed_writer_left_goes_with_the_next_bundle(ray: FakeRay, folder: JobFolder) -> None:
    old, fresh = (folder.debug / f".20260101T00000{at}.000Z-manual.7" for at in (1, 2))
    for draft in (old, fresh):
        draft.mkdir(parents=True)
    os.utime(old, (0, 0))
    bundle = debug_bundle.take(folder, ray.api(), "manual")
    assert sorted(folder.debug.iterdir()) == sorted([fresh, bundle])


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"items": 3}', '{"items": {"jobs": []}}', "[" * 100_000])
def test_a_damaged_bundle_is_named(ray: FakeRay, folder: JobFolder, damage: str) -> None:
    bundle = debug_bundle.take(folder, ray.api(), "manual")
    (bundle / "bundle.json").write_text(damage)
    with pytest.raises(BadInput, match=r"cannot read .*bundle\.json"):
        debug_bundle.outcome(bundle)


def test_an_event_must_be_usable_in_a_name(ray: FakeRay, folder: JobFolder) -> None:
    with pytest.raises(BadInput, match=r"'\.\./x' is not a name for a debug bundle"):
        debug_bundle.take(folder, ray.api(), "../x")
