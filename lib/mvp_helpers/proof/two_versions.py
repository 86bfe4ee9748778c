"""Proof from two job folders that two versions of verl's code were at work on one cluster at the same time.

The jobs are those of workload ``versions`` (``job/two_versions.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..base.errors import BadInput
from ..base.times import seconds_of
from ..job.two_versions import MODULE, evidence_file
from ..prepare import snapshot
from .evidence import Job, Judge, fail, judge, need
from .verify import Report

FILE = "verl/protocol.py"
"""``MODULE`` in a snapshot."""


def verdict(jobs: Sequence[Job]) -> list[Report]:
    """Return the checks of both jobs. Raises BadInput for anything but two jobs."""
    if len(jobs) != 2:
        raise BadInput(f"expected exactly 2 job ids, got {len(jobs)}")
    checks: dict[str, Judge] = {
        "two versions": _differ,
        "succeeded": _succeeded,
        "at the same time": _overlap,
        "own marker": _marker,
        "own file": _file,
    }
    return [
        Report(job.folder, job.result.workload, [judge(name, check, job, [other]) for name, check in checks.items()])
        for job, other in (jobs, jobs[::-1])
    ]


def _hashes(job: Job) -> dict[str, str]:
    manifest = snapshot.read_manifest(Path(job.plan.code_path or "/"))
    return {name: facts["sha256"] for name, facts in manifest["files"].items()}


def _differ(job: Job, others: Sequence[Job]) -> str:
    own, other = _hashes(job), _hashes(others[0])
    job.cite(job.folder.resolved, "code_id:")
    changed = sorted({name for name, _ in own.items() ^ other.items()})
    if job.plan.code_id == others[0].plan.code_id or FILE not in changed:
        fail(f"{job.plan.code_id} and {others[0].plan.code_id} do not differ in {FILE}")
    difference = f"{len(changed)} of {len(own)} files differ ({', '.join(changed[:3])})"
    return f"{job.plan.code_id} beside {others[0].plan.code_id}: {difference}"


def _succeeded(job: Job, _: Sequence[Job]) -> str:
    job.cite(job.folder.result, '"state"')
    need(job.result.state == "SUCCEEDED", f"result.json: {job.result.state}: {job.result.reason}")
    return "result.json: SUCCEEDED"


def _overlap(job: Job, others: Sequence[Job]) -> str:
    (began, ended), (other_began, other_ended) = job.span(), others[0].span()
    for either in (job, others[0]):
        either.cite(either.folder.result, '"started_at"')
    together = min(ended, other_ended) - max(began, other_began)
    own, other = job.result, others[0].result
    spans = f"{own.started_at} to {own.ended_at}, the other {other.started_at} to {other.ended_at}"
    need(together > 0, f"not at the same time: {spans}")
    return f"{together:.1f} s together: {spans}"


def _marker(job: Job, _: Sequence[Job]) -> str:
    key = "MVP_PRECHECK_MARKER"
    printed = job.printed.get(key, set())
    job.cite(job.folder.driver_log, f"{key}=")
    need(printed == {str(job.plan.code_id)}, f"logs/driver.log: {key}={sorted(printed)}, not {job.plan.code_id}")
    return f"logs/driver.log: {key}={job.plan.code_id}"


def _file(job: Job, others: Sequence[Job]) -> str:
    other, seen = others[0].folder.submission_id, job.read_json(evidence_file(job.folder))
    began, ended = others[0].span()
    job.cite(evidence_file(job.folder), '"beside"')
    beside = seen.get("beside") == other and began < seconds_of(seen["began"]) <= seconds_of(seen["ended"]) < ended
    need(beside, f"versions.json: its imports were not recorded while {other} ran")
    wanted, path = _hashes(job)[FILE], str(Path(job.plan.code_path or "/") / FILE)
    for row in seen["seen"]:
        if (row["modules"].get(MODULE), row["sha256"].get(MODULE), row["marker"]) != (path, wanted, job.plan.code_id):
            fail(f"versions.json: {row['where']} imported {row['modules'] or row['errors']} (marker {row['marker']})")
    workers = sorted(row["ip"] for row in seen["seen"][1:])
    need(workers == sorted(host["ip"] for host in job.hosts("worker")), f"versions.json: Ray workers only on {workers}")
    return f"driver and Ray workers on {', '.join(workers)} imported {path} while {other} ran"
