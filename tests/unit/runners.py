"""Job runners of tests: real processes over a job folder as the submitter leaves it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
from toys import plan_of

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.plan import plan, planning
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
    "PYTHONPATH": str(PROJECT / "lib"),
    "MVP_HOST": "worker-0",
}


def job(root: Path, argv: list[str], state: str = "SUBMITTED", **fields: object) -> JobFolder:
    """A job folder as the submitter leaves it."""
    the_plan = msgspec.structs.replace(plan_of("job1", root, argv), **fields)
    folder = job_folder.claim(SharedRoot(root), Result(submission_id="job1", workload="echo", state="CLAIMED"))
    folder.resolved.write_text(plan.to_yaml(the_plan))
    job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), state=state))
    return folder


def start(folder: JobFolder, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(PROJECT / "lib" / planning.ISOLATED), "run-job", str(folder.path)],
        env=ENVIRONMENT | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def run(folder: JobFolder, **environment: str) -> tuple[int, str, Result]:
    process = start(folder, **environment)
    out, errors = process.communicate(timeout=120)
    return process.returncode, out + errors, job_folder.read(folder)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]
