"""Two versions of verl's code at work on one cluster at the same time: the job that shows it, and the proof from two job folders.

The job (``python3 -m mvp_helpers.proof.versions``, workload ``versions``) waits until a job of another version runs beside it.
While both live, its driver and a Ray process on every worker import ``verl.protocol`` and record which file that was, in
``versions.json``.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base import files
from ..base.errors import BadInput, TimedOut
from ..base.paths import JobFolder, SharedRoot
from ..base.times import now, seconds_of
from ..job import precheck
from ..plan import plan, snapshot
from ..record import job_folder
from . import verify
from .verify import Fail, Job, Report

MODULE = "verl.protocol"
FILE = "verl/protocol.py"
COMPANY_S = 300.0
"""How long a job waits for the other version's."""
POLL_S = 0.2


def look(modules: list[str]) -> dict[str, Any]:
    """What this process imports, and the SHA-256 of the file it comes from."""
    found = precheck.look(modules)
    found["sha256"] = {name: files.sha256(Path(path)) for name, path in found["modules"].items()}
    found["change"] = getattr(importlib.import_module(MODULE), "MVP_CHANGE", None)
    return found


def main(folder: JobFolder) -> int:
    """The job, in its own folder. Raises TimedOut when no job of another version comes, or it goes too early."""
    the_plan = plan.read(folder)
    files.write_json(_evidence(folder), {"code_id": the_plan.code_id})
    other = _company(folder, the_plan.code_id, lambda seen: "code_id" in seen)
    began = now()
    seen = [{"where": "driver", **look([MODULE])}]
    workers = precheck.look_on_workers(the_plan, os.environ["RAY_ADDRESS"], look, [MODULE])
    seen += [{"where": f"Ray worker on {worker['ip']}", **worker} for worker in workers]
    for row in seen:
        print(f"MVP_VERSIONS {row['where']}: {row['modules'].get(MODULE)}, MVP_CHANGE = {row.get('change')}", flush=True)
    evidence = {
        "code_id": the_plan.code_id,
        "beside": other.submission_id,
        "began": began,
        "ended": now(),
        "seen": seen,
    }
    files.write_json(_evidence(folder), evidence)
    _company(folder, the_plan.code_id, lambda seen: "seen" in seen)
    return 0


def _evidence(folder: JobFolder) -> Path:
    return folder.path / "versions.json"


def _company(folder: JobFolder, code_id: str | None, ready: Any) -> JobFolder:
    """A job of another version beside this one that is ``ready``."""
    import json

    shared, deadline = SharedRoot(folder.path.parents[1]), time.monotonic() + COMPANY_S
    while time.monotonic() < deadline:
        for name in job_folder.active_ids(shared):
            try:
                seen = json.loads(_evidence(shared.job(name)).read_bytes())
            except (OSError, ValueError):
                continue
            if seen["code_id"] != code_id and ready(seen):
                return shared.job(name)
        time.sleep(POLL_S)
    raise TimedOut(f"no job of another version than {code_id} came (or stayed) within {COMPANY_S:g} s")


def verdict(jobs: Sequence[Job]) -> list[Report]:
    """The checks of both jobs. Raises BadInput for anything but two jobs of this kind."""
    if len(jobs) != 2:
        raise BadInput(f"{len(jobs)} jobs: two are compared")
    checks = {
        "two versions": _differ,
        "succeeded": _succeeded,
        "at the same time": _overlap,
        "own marker": _marker,
        "own file": _file,
    }
    return [
        Report(job.folder, job.result.workload, [verify.judge(name, check, job, [other]) for name, check in checks.items()])
        for job, other in (jobs, jobs[::-1])
    ]


def _hashes(job: Job) -> dict[str, str]:
    about = snapshot.read_manifest(Path(job.plan.code_path or "/"))
    return {name: facts["sha256"] for name, facts in about["files"].items()}


def _differ(job: Job, others: Sequence[Job]) -> str:
    own, other = _hashes(job), _hashes(others[0])
    changed = sorted({name for name, _ in own.items() ^ other.items()})
    if job.plan.code_id == others[0].plan.code_id or FILE not in changed:
        raise Fail(f"{job.plan.code_id} and {others[0].plan.code_id} do not differ in {FILE}")
    told = f"{len(changed)} of {len(own)} files differ ({', '.join(changed[:3])})"
    return f"{job.plan.code_id} beside {others[0].plan.code_id}: {told}"


def _succeeded(job: Job, _: Sequence[Job]) -> str:
    if job.result.state != "SUCCEEDED":
        raise Fail(f"result.json: {job.result.state}: {job.result.reason}")
    return "result.json: SUCCEEDED"


def _span(job: Job) -> tuple[float, float]:
    return seconds_of(str(job.result.started_at)), seconds_of(str(job.result.ended_at))


def _overlap(job: Job, others: Sequence[Job]) -> str:
    (began, ended), (other_began, other_ended) = _span(job), _span(others[0])
    together = min(ended, other_ended) - max(began, other_began)
    own, other = ((one.result.started_at, one.result.ended_at) for one in (job, others[0]))
    told = f"{own[0]} to {own[1]}, the other {other[0]} to {other[1]}"
    if together <= 0:
        raise Fail(f"not at the same time: {told}")
    return f"{together:.1f} s together: {told}"


def _marker(job: Job, _: Sequence[Job]) -> str:
    printed = verify.precheck_lines(job).get("MVP_PRECHECK_MARKER", set())
    if printed != {job.plan.code_id}:
        raise Fail(f"logs/driver.log: MVP_PRECHECK_MARKER={sorted(printed)}, not {job.plan.code_id}")
    return f"logs/driver.log: MVP_PRECHECK_MARKER={job.plan.code_id}"


def _file(job: Job, others: Sequence[Job]) -> str:
    seen = job.read_json(_evidence(job.folder))
    began, ended = _span(others[0])
    if not (
        seen.get("beside") == others[0].folder.submission_id
        and began < seconds_of(seen["began"]) <= seconds_of(seen["ended"]) < ended
    ):
        raise Fail(f"versions.json: not looked while {others[0].folder.submission_id} ran")
    wanted, path = _hashes(job)[FILE], str(Path(job.plan.code_path or "/") / FILE)
    for row in seen["seen"]:
        if (row["modules"].get(MODULE), row["sha256"].get(MODULE), row["marker"]) != (path, wanted, job.plan.code_id):
            raise Fail(f"versions.json: {row['where']} imported {row['modules'] or row['errors']} (marker {row['marker']})")
    workers = sorted(row["ip"] for row in seen["seen"][1:])
    if workers != sorted(host["ip"] for host in job.hosts("worker")):
        raise Fail(f"versions.json: Ray workers only on {workers}")
    return f"driver and Ray workers on {', '.join(workers)} imported {path} while {others[0].folder.submission_id} ran"


if __name__ == "__main__":
    raise SystemExit(main(JobFolder(Path.cwd())))
