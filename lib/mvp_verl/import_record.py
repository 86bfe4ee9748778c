"""Records, at the import of verl, which files a process of a job imports, and refuses the import when they are another copy's.

Each process of the job does so for itself: the driver, and every Ray worker that imports verl. The record is one file,
``imports/<host>-<pid>.json`` in the job folder; the job runner makes ``precheck.json`` of all of them (``job/import_proof.py``).
"""

from __future__ import annotations

import importlib
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

from mvp_helpers.base.processes import RUNNER_PID, versions

from . import packages


class WrongCode(ImportError):
    """This process imports another copy of the code than the job's snapshot."""


def check(job_folder: str, module: str = "verl") -> None:
    """Record what this process imports as ``module``.

    Raises WrongCode when it does not come from the job's ``code_path``, or its marker is not the job's ``code_id``.
    """
    planned = _planned(Path(job_folder))
    seen = look(module)
    wrong = problem(seen, module, planned["code_path"], planned["code_id"])
    _write(Path(job_folder), seen | {"role": _role(), "problem": wrong})
    if _role() == "driver":
        packages.record(Path(job_folder))
        print(f"MVP_PRECHECK_{module.upper()}_FILE={seen['modules'][module]}", flush=True)
        print(f"MVP_PRECHECK_MARKER={seen['marker']}", flush=True)
    if wrong:
        print(f"MVP_PRECHECK_PROBLEM={_where(seen)}: {wrong}", flush=True)
        raise WrongCode(f"{_where(seen)}: {wrong}")


def look(module: str) -> dict[str, Any]:
    """Return the file of ``module``, the snapshot's marker, the versions of the packages, and where this process runs."""
    seen: dict[str, Any] = {"host": socket.gethostname(), "pid": os.getpid(), "modules": {}, "errors": {}} | _ray_node()
    seen["gpus_seen"] = os.environ.get("CUDA_VISIBLE_DEVICES")  # None: all of the host
    seen["modules"][module] = os.path.realpath(str(sys.modules[module].__file__))
    seen["versions"] = versions() | {module: str(getattr(sys.modules[module], "__version__", "unknown"))}
    try:
        seen["marker"] = importlib.import_module("mvp_marker").MARKER
    except Exception as error:
        seen["marker"] = None
        seen["errors"]["mvp_marker"] = f"{type(error).__name__}: {error}"
    return seen


def problem(seen: dict[str, Any], module: str, code_path: str, code_id: str) -> str:
    """Return why ``seen`` is not the snapshot at ``code_path``; "" when it is."""
    for name, why in seen["errors"].items():
        return f"cannot import {name}: {why}"
    root, file = Path(os.path.realpath(code_path)), Path(seen["modules"][module])
    if not file.is_relative_to(root):
        return f"{module} comes from {file}, not from code_path {root}"
    return "" if seen["marker"] == code_id else f"the marker is '{seen['marker']}', not '{code_id}'"


def _planned(job_folder: Path) -> dict[str, str]:
    """Return the job's code_path and code_id, read as text: parsing YAML would cost every process 50 ms."""
    text = (job_folder / "config" / "resolved.yaml").read_text()
    return {name: re.findall(rf"^{name}: (\S+)$", text, re.MULTILINE)[0].strip("'\"") for name in ("code_path", "code_id")}


def _role() -> str:
    """Return ``driver``, ``ray worker``, or ``child`` for a process that one of these started."""
    if os.environ.get(RUNNER_PID) == str(os.getppid()):
        return "driver"
    return "ray worker" if _ray_node() else "child"


def _ray_node() -> dict[str, Any]:
    """Return the node of this Ray worker; empty in any other process."""
    worker = getattr(sys.modules.get("ray._private.worker"), "global_worker", None)
    if worker is None or not worker.connected or worker.mode != sys.modules["ray._private.worker"].WORKER_MODE:
        return {}
    import ray

    context = ray.get_runtime_context()
    gpus = context.get_accelerator_ids().get("GPU", [])
    return {"node_id": context.get_node_id(), "ip": ray.util.get_node_ip_address(), "gpus_given": gpus}


def _where(seen: dict[str, Any]) -> str:
    return f"Ray worker on {seen['ip']}" if "ip" in seen else "driver" if _role() == "driver" else f"pid {seen['pid']}"


def _write(job_folder: Path, record: dict[str, Any]) -> None:
    from mvp_helpers.base import files

    folder = job_folder / "imports"
    folder.mkdir(exist_ok=True)
    files.write_json(folder / f"{record['host']}-{record['pid']}.json", record)
