"""Checks that several witnesses of a job say the same: the job runner, Ray, the job's processes, the submission; and when."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base.errors import BadInput
from ..base.times import moment_of, seconds_of
from ..cluster.ray_api import ENDED
from ..job import import_proof
from ..prepare import snapshot
from ..record import job_folder
from .evidence import Job, fail, need
from .ownership import CLOCK_TOLERANCE_S


def agree(job: Job, _: Sequence[Job]) -> str:
    """Ray's records, the processes' own records of imports and packages, and the provenance say what result and plan say."""
    _check_ray(job)
    _check_bundles(job)
    code = _check_code(job)
    packages = _check_packages(job)
    return f"Ray's {len(job.ray_records)} records and {len(job.bundles)} bundles agree with result.json; {code}; {packages}"


def _check_ray(job: Job) -> None:
    result, entrypoint = job.result, shlex.join(job.plan.entrypoint)
    for file in (job.in_bundles("job.json") or job.in_bundles("jobs.json"))[-1:]:
        job.cite(file, '"status"')
    for record in job.ray_records:
        code, status = record.get("driver_exit_code"), str(record.get("status"))
        need(code in (None, result.exit_code), f"debug/*/job.json: driver_exit_code {code}, result.json has {result.exit_code}")
        # When a job ends badly, Ray may not know which bad end it was, but the job runner does.
        alike = status not in ENDED or (status == "SUCCEEDED") == (result.state == "SUCCEEDED")
        need(alike, f"debug/*/job.json: Ray reports {status}, result.json {result.state}")
        ran = record.get("entrypoint")
        need(ran == entrypoint, f"debug/*/job.json: Ray ran '{ran}', resolved.yaml has '{entrypoint}'")


def _check_bundles(job: Job) -> None:
    for path in job.in_bundles("job.json"):
        others = sorted({str(row.get("submission_id")) for row in job.read_json(path)} - {job.folder.submission_id})
        need(not others, f"{job.name_of(path)}: it is of job {', '.join(others)}")
    for path in job.in_bundles("bundle.json"):
        about = job.read_json(path)
        need(about["submission_id"] == job.folder.submission_id, f"{job.name_of(path)}: it is of job {about['submission_id']}")
        asked = about["ray_address"]
        need(asked == job.plan.address, f"{job.name_of(path)}: Ray at {asked}, but resolved.yaml has {job.plan.address}")


def _check_code(job: Job) -> str:
    """The code's id is the same in the plan, the provenance, the snapshot and every process's own record."""
    plan = job.plan
    named: Any = job.provenance.get("code")
    if plan.code_id is None:
        need(named is None, f"provenance.json: code {named}, but resolved.yaml names none")
        return "no code snapshot"
    if named is None:
        fail(f"provenance.json: no code, but resolved.yaml has code_id {plan.code_id}")
    job.cite(job.folder.provenance, '"code_id"')
    need(named["code_id"] == plan.code_id, f"provenance.json: code_id {named['code_id']}, resolved.yaml has {plan.code_id}")
    need(named["path"] == plan.code_path, f"provenance.json: code at {named['path']}, resolved.yaml has {plan.code_path}")
    try:
        content = snapshot.load(Path(str(plan.code_path))).content
    except BadInput:  # removed since
        content = named["content"]
    need(named["content"] == content, f"provenance.json: the code's content is {named['content']}, the snapshot's is {content}")
    rows = import_proof.records(job.folder)
    for row in rows:
        need(
            row.get("marker") == plan.code_id,
            f"imports/: {row.get('role')} pid {row.get('pid')} found marker {row.get('marker')}",
        )
    if import_proof.by_the_trainer(plan) and job.folder.precheck.is_file():
        seen = [each for each in [job.precheck["driver"], *job.precheck["ray_workers"]] if each]
        recorded = [row for row in rows if row["role"] in ("driver", "ray worker")]
        need(_processes(seen) == _processes(recorded), "precheck.json does not have the processes that imports/ recorded")
    return f"code_id {plan.code_id} in plan, provenance and {len(rows)} processes"


def _processes(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    keys = ("role", "host", "pid", "node_id", "marker", "modules")
    return sorted(tuple(str(row.get(key)) for key in keys) for row in rows)


def _check_packages(job: Job) -> str:
    """Python, Ray, torch and verl are of one version at the submission, in the precheck and in every process of the job."""
    seen = {"provenance.json": {name: job.provenance[name] for name in ("python", "ray") if job.provenance.get(name)}}
    if job.folder.precheck.is_file():
        seen["precheck.json"] = job.precheck.get("versions") or {}
        for row in (job.precheck.get("driver"), *(job.precheck.get("ray_workers") or [])):
            seen[f"precheck.json: {_process(row)}"] = (row or {}).get("versions") or {}
    for row in import_proof.records(job.folder):
        seen[f"imports/: {_process(row)}"] = row.get("versions") or {}
    first: dict[str, tuple[str, str]] = {}
    for place, versions in seen.items():
        for name, version in versions.items():
            known, where = first.setdefault(name, (version, place))
            need(version == known, f"{place} has {name} {version}, {where} has {known}")
    processes = sum(bool(versions) for place, versions in seen.items() if place != "provenance.json")
    names = ", ".join(f"{name} {version}" for name, (version, _) in sorted(first.items()))
    return f"{names} in {processes} processes" if processes else "no process recorded its packages"


def _process(row: dict[str, Any] | None) -> str:
    return f"{row.get('role') or 'process'} pid {row.get('pid')} on {row.get('host')}" if row else "no driver"


def times_in_order(job: Job, _: Sequence[Job]) -> str:
    """The job's moments follow each other, in all files that record them."""
    result = job.result
    job.cite(job.folder.result, '"started_at"')
    job.cite(job.folder.result, '"ended_at"')
    moments = [(name, getattr(result, name)) for name in ("claimed_at", "submitted_at", "started_at", "ended_at")]
    known = [(name, moment) for name, moment in moments if moment]
    for (earlier, first), (later, second) in itertools.pairwise(known):
        need(_in_order(first, second), f"result.json: {later} {second} is before {earlier} {first}")
    for path in job.in_bundles("bundle.json"):
        about = job.read_json(path)
        event, taken = about["event"], about["taken_at"]
        after = {"started": result.started_at, **dict.fromkeys(_ENDS, result.started_at)}.get(event) or result.claimed_at
        before = result.ended_at if event in ("submitted", "started", *_ENDS) else None
        need(_in_order(after, taken), f"{job.name_of(path)}: taken at {taken}, before {after}")
        need(before is None or _in_order(taken, before), f"{job.name_of(path)}: taken at {taken}, after the job's end {before}")
    for record in job.ray_records:
        if (began := record.get("start_time")) and result.started_at:
            moment = moment_of(began / 1000)
            between = _in_order(result.claimed_at, moment) and _in_order(moment, result.started_at)
            need(between, f"debug/*/job.json: Ray began at {moment}, not between claimed_at and started_at in result.json")
    return ", ".join(f"{name} {moment}" for name, moment in known)


_ENDS = tuple(state.lower() for state in job_folder.TERMINAL)


def _in_order(first: str, second: str) -> bool:
    return seconds_of(first) <= seconds_of(second) + CLOCK_TOLERANCE_S
