"""What the processes of a job imported, from the records that each of them wrote itself (``lib/mvp_verl/import_record.py``).

The proof costs nothing: no process imports the trainer only to be asked. A process that imports another copy refuses to go on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ..base.documents import Damaged, read_as, read_json
from ..base.paths import JobFolder
from ..plan.plan import Plan

HOOK = "mvp_verl.hook"
EXTERNAL_MODULES = "VERL_USE_EXTERNAL_MODULES"
"""The variable in which verl looks for modules to import along with itself. Source: verl/__init__.py since 0.5."""


class _Record(msgspec.Struct):
    """What every record has."""

    role: str
    problem: str
    modules: dict[str, str] = {}
    versions: dict[str, str] = {}


def by_the_trainer(plan: Plan) -> bool:
    """Return whether the job's own processes record their imports: its verl must know external modules, its plan the hook."""
    if plan.imports != ["verl"] or HOOK not in plan.env_vars.get(EXTERNAL_MODULES, "").split(","):
        return False
    try:
        return EXTERNAL_MODULES in Path(str(plan.code_path), "verl", "__init__.py").read_text(errors="replace")
    except OSError:
        return False


def records(folder: JobFolder) -> list[dict[str, Any]]:
    """Return the records so far, the driver's first; one that cannot be read counts as a problem of that process."""
    rows = []
    for path in sorted(folder.imports.glob("[!.]*.json")):
        try:
            read_as(path, _Record)
            rows.append(read_json(path))
        except (OSError, Damaged) as error:
            rows.append({"role": "?", "problem": f"imports/{path.name} cannot be read: {error}", "modules": {}})
    return sorted(rows, key=lambda row: row["role"] != "driver")


def problems(rows: list[dict[str, Any]]) -> list[str]:
    """Return why the records do not prove the imports, a line for each process that refused to go on."""
    return [f"{_where(row)}: {row['problem']}" for row in rows if row["problem"]]


def missing(rows: list[dict[str, Any]], plan: Plan) -> list[str]:
    """Return which records a job that trains lacks: the driver's, or those of its trainer processes."""
    workers = [row for row in rows if row["role"] == "ray worker"]
    lacking = [] if any(row["role"] == "driver" for row in rows) else ["the driver trains without having recorded its imports"]
    if len(workers) < plan.world_size:
        lacking.append(f"{len(workers)} Ray workers recorded their imports, but {plan.world_size} processes train")
    return lacking


def report(rows: list[dict[str, Any]], problems: list[str]) -> dict[str, Any]:
    """Return the part of ``precheck.json`` that the records give."""
    driver = next((row for row in rows if row["role"] == "driver"), None)
    workers = [row for row in rows if row["role"] == "ray worker"]
    return {"ok": not problems, "problems": problems, "driver": driver, "ray_workers": workers}


def _where(row: dict[str, Any]) -> str:
    if row["role"] == "ray worker":
        return f"Ray worker on {row.get('ip')}"
    return str(row["role"]) if row["role"] == "driver" else f"pid {row.get('pid')} on {row.get('host')}"
