"""The job that shows two versions of verl's code at work on one cluster at the same time (workload ``versions``).

It waits until a job of another version runs beside it. While both run, its driver and a Ray process on every worker import
``verl.protocol`` and record which file that was in ``versions.json``. ``proof/two_versions.py`` judges two such job folders.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base import files
from ..base.documents import Damaged, read_json
from ..base.errors import TimedOut
from ..base.paths import JobFolder
from ..base.times import now
from ..plan import plan
from ..record import job_folder
from . import precheck

MODULE = "verl.protocol"
COMPANY_S = 300.0
"""How long a job waits for one of the other version."""
POLL_S = 0.2


def evidence_file(folder: JobFolder) -> Path:
    return folder.path / "versions.json"


def look(modules: list[str]) -> dict[str, Any]:
    """Return what this process imports, and the SHA-256 of the file it comes from."""
    imported = precheck.look(modules)
    imported["sha256"] = {name: files.sha256(Path(path)) for name, path in imported["modules"].items()}
    imported["change"] = getattr(importlib.import_module(MODULE), "MVP_CHANGE", None)
    return imported


def main(folder: JobFolder) -> int:
    """Run the job in its own folder. Raises TimedOut when no job of another version comes, or it ends too early."""
    the_plan = plan.read(folder)
    files.write_json(evidence_file(folder), {"code_id": the_plan.code_id})
    other = _wait_for_other(folder, the_plan.code_id, lambda evidence: "code_id" in evidence)
    began = now()
    seen = [{"where": "driver", **look([MODULE])}]
    workers = precheck.look_on_workers(the_plan, os.environ["RAY_ADDRESS"], look, [MODULE])
    seen += [{"where": f"Ray worker on {worker['ip']}", **worker} for worker in workers]
    for row in seen:
        print(f"MVP_VERSIONS {row['where']}: {row['modules'].get(MODULE)}, MVP_CHANGE = {row.get('change')}", flush=True)
    evidence = {"code_id": the_plan.code_id, "beside": other.submission_id, "began": began, "ended": now(), "seen": seen}
    files.write_json(evidence_file(folder), evidence)
    _wait_for_other(folder, the_plan.code_id, lambda evidence: "seen" in evidence)
    return 0


def _wait_for_other(folder: JobFolder, code_id: str | None, ready: Callable[[dict[str, Any]], bool]) -> JobFolder:
    """Return the folder of an active job of another version, as soon as its evidence is ``ready``."""
    shared, deadline = folder.shared, time.monotonic() + COMPANY_S
    while time.monotonic() < deadline:
        for name in job_folder.active_ids(shared):
            try:
                evidence = read_json(evidence_file(shared.job(name)))
                if evidence["code_id"] != code_id and ready(evidence):
                    return shared.job(name)
            except (OSError, Damaged, KeyError, TypeError, AttributeError):  # not of this workload, or not complete yet
                continue
        time.sleep(POLL_S)
    raise TimedOut(f"no job of another version than {code_id} started, or it ended early (waited {COMPANY_S:g} s)")


if __name__ == "__main__":
    raise SystemExit(main(JobFolder(Path.cwd())))
