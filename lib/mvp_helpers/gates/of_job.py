"""What gates read of one job: its metrics, series of the job as a whole, and the hardware and versions that it ran with."""

from __future__ import annotations

from typing import Any

from ..base.documents import Damaged, as_number, read_json
from ..base.paths import JobFolder
from ..plan.plan import Plan
from ..record import metrics
from ..record.job_folder import Result
from ..usage import resources

START_UP, MEMORY = "job/start_up_s", "job/memory_gib"
"""Series of a single value: seconds from the job's start to its first step; the most memory of its processes on one host."""


def data(folder: JobFolder, result: Result) -> dict[str, dict[int, float]]:
    """Return the metrics by name and step, with those of the job as a whole at step 1."""
    found: dict[str, dict[int, float]] = {}
    for step, values in metrics.read(folder.metrics).steps.items():
        for name, value in values.items():
            number = as_number(value)
            if number is not None and step > 0:
                found.setdefault(name, {})[step] = number
    if result.wall_time:
        seconds = result.wall_time.seconds
        found[START_UP] = {1: seconds.get("precheck", 0.0) + seconds.get("start_up", 0.0)}
    if used := [sample.job.memory for sample in resources.read(folder.resources)]:
        found[MEMORY] = {1: max(used) / (1 << 30)}
    return found


def hardware(folder: JobFolder, plan: Plan) -> dict[str, str]:
    """Return what the speed of a job depends on; unknown facts are left out."""
    found = {"device": str(plan.device), "processes": f"{plan.nnodes} x {plan.processes_per_node}"}
    if gpus := _packages(folder).get("gpus"):
        found["gpus"] = ", ".join(map(str, gpus))
    if cores := {sample.cpu.cores for sample in resources.read(folder.resources)}:
        found["cores"] = ", ".join(map(str, sorted(cores)))
    return found


def versions(folder: JobFolder) -> dict[str, str]:
    """Return the versions of Python, CUDA and the packages that matter most; those that are recorded."""
    record = _packages(folder)
    packages = record.get("packages") or {}
    named = {name: packages.get(name) for name in ("verl", "torch", "ray", "vllm", "transformers")}
    known = {"python": record.get("python"), "cuda": record.get("cuda"), **named}
    return {name: str(value) for name, value in known.items() if value}


def _packages(folder: JobFolder) -> dict[str, Any]:
    try:
        value = read_json(folder.packages)
    except (OSError, Damaged):
        return {}
    return value if isinstance(value, dict) else {}
