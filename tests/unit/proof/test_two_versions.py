"""The proof that two versions were at work at the same time: every check fails when its evidence is doctored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from toys import plan_of
from truthful_job import seals_of

from mvp_helpers.base import files
from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.job.two_versions import MODULE
from mvp_helpers.plan import plan
from mvp_helpers.prepare import snapshot
from mvp_helpers.proof import two_versions
from mvp_helpers.proof.evidence import Job
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result

IPS = ["127.0.0.11", "127.0.0.12"]


def at(second: int) -> str:
    return f"2026-01-31T10:00:{second:02}.000Z"


def code(shared: SharedRoot, code_id: str) -> Path:
    source = shared.root.parent / "src"
    (source / "verl" / "protocol.py").write_text(f"MVP_CHANGE = '{code_id}'\n")
    return snapshot.snapshot(snapshot.Source(path=source), shared, code_id).path


def job(shared: SharedRoot, code_path: Path, name: str, beside: str, began: int, ended: int) -> JobFolder:
    """A job folder as a job of workload ``versions`` leaves it."""
    folder = job_folder.claim(shared, Result(submission_id=name, workload="versions", state="CLAIMED"))
    the_plan = msgspec.structs.replace(plan_of(name, shared.root), code_path=str(code_path), code_id=code_path.name)
    folder.resolved.write_text(plan.to_yaml(the_plan))
    folder.provenance.write_text(json.dumps({"hosts": [{"role": "worker", "ip": ip} for ip in IPS]}))
    folder.driver_log.write_text(f"MVP_PRECHECK_MARKER={code_path.name}\n")
    file = code_path / two_versions.FILE
    look = {
        "modules": {MODULE: str(file)},
        "sha256": {MODULE: files.sha256(file)},
        "marker": code_path.name,
        "errors": {},
    }
    seen = [{"where": "driver", **look}, *({"where": f"Ray worker on {ip}", "ip": ip, **look} for ip in IPS)]
    files.write_json(folder.path / "versions.json", {"beside": beside, "began": at(20), "ended": at(25), "seen": seen})
    result = Result(submission_id=name, workload="versions", state="SUCCEEDED", started_at=at(began), ended_at=at(ended))
    job_folder.write(folder, result)
    return folder


@pytest.fixture
def pair(shared: SharedRoot) -> tuple[JobFolder, JobFolder]:
    one, other = code(shared, "one"), code(shared, "other")
    return job(shared, one, "job1", "job2", 10, 40), job(shared, other, "job2", "job1", 15, 45)


def failed(pair: tuple[JobFolder, JobFolder]) -> dict[str, str]:
    """What does not pass in the first job's report, with the reason."""
    reports = two_versions.verdict([Job(folder, job_folder.read(folder), seals_of(folder)) for folder in pair])
    return {check.name: check.reason for check in reports[0].checks if check.verdict != "Pass"}


def test_two_jobs_with_their_own_code_at_the_same_time_pass(pair: tuple[JobFolder, JobFolder]) -> None:
    assert failed(pair) == {} == failed(pair[::-1])


def test_one_version_twice_fails(pair: tuple[JobFolder, JobFolder], shared: SharedRoot) -> None:
    again = job(shared, shared.verl_code / "one", "job3", "job1", 15, 45)
    assert failed((pair[0], again))["two versions"] == "one and one do not differ in verl/protocol.py"


def test_a_job_that_failed_fails(pair: tuple[JobFolder, JobFolder], replace: Callable[..., Any]) -> None:
    job_folder.write(pair[0], replace(job_folder.read(pair[0]), state="FAILED", reason="no"))
    assert failed(pair) == {"succeeded": "result.json: FAILED: no"}


def test_one_after_the_other_fails(pair: tuple[JobFolder, JobFolder], replace: Callable[..., Any]) -> None:
    job_folder.write(pair[1], replace(job_folder.read(pair[1]), started_at=at(41), ended_at=at(50)))
    assert set(failed(pair)) == {"at the same time", "own file"}


def test_the_others_marker_fails(pair: tuple[JobFolder, JobFolder]) -> None:
    pair[0].driver_log.write_text("MVP_PRECHECK_MARKER=one\nMVP_PRECHECK_MARKER=other\n")
    assert failed(pair) == {"own marker": "logs/driver.log: MVP_PRECHECK_MARKER=['one', 'other'], not one"}


@pytest.mark.parametrize("row", [0, 1, 2])
@pytest.mark.parametrize("what", ["modules", "sha256", "marker"])
def test_another_file_in_the_driver_or_in_any_worker_fails(pair: tuple[JobFolder, JobFolder], row: int, what: str) -> None:
    evidence = json.loads((pair[0].path / "versions.json").read_bytes())
    evidence["seen"][row][what] = "other" if what == "marker" else {MODULE: "other"}
    files.write_json(pair[0].path / "versions.json", evidence)
    assert list(failed(pair)) == ["own file"]


def test_a_worker_that_was_not_asked_fails(pair: tuple[JobFolder, JobFolder]) -> None:
    evidence = json.loads((pair[0].path / "versions.json").read_bytes())
    del evidence["seen"][2]
    files.write_json(pair[0].path / "versions.json", evidence)
    assert failed(pair) == {"own file": "versions.json: Ray workers only on ['127.0.0.11']"}


def test_a_look_while_the_other_did_not_run_fails(pair: tuple[JobFolder, JobFolder]) -> None:
    evidence = json.loads((pair[0].path / "versions.json").read_bytes())
    files.write_json(pair[0].path / "versions.json", evidence | {"began": at(12)})
    assert failed(pair) == {"own file": "versions.json: its imports were not recorded while job2 ran"}


def test_anything_but_two_jobs_is_bad_input(pair: tuple[JobFolder, JobFolder]) -> None:
    with pytest.raises(BadInput, match="expected exactly 2 job ids, got 1"):
        failed(pair[:1])  # type: ignore[arg-type]
