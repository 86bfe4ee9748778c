"""Check what must be right before a trainer starts: its code is in the snapshot, it has steps to train, its reward works.

Where the processes of the job record their own imports (``import_proof.py``) nothing is imported here. Other code is imported in
this process and in a Ray process on every worker.

``python3 -m mvp_helpers.job.precheck <job folder>`` is a process of its own on the driver's host, so that the job runner never
imports Ray, torch or verl. It writes ``precheck.json`` and exits with 0 when everything is proven, else with 3.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ..base import files, processes
from ..base.paths import JobFolder, SharedRoot
from ..masking import known
from ..plan import plan, reward_trial
from ..plan.plan import Plan
from ..plan.reward_trial import Trial
from . import import_proof

RAY_TASK_TIMEOUT_S = 180


def look(modules: list[str]) -> dict[str, Any]:
    """Import ``modules`` in this process; return their files and versions, the snapshot's marker, and where it runs."""
    seen: dict[str, Any] = {"host": socket.gethostname(), "pid": os.getpid(), "modules": {}, "errors": {}}
    seen["versions"] = processes.versions()
    for name in modules:
        try:
            module = importlib.import_module(name)
            seen["modules"][name] = os.path.realpath(str(module.__file__))
            if version := getattr(module, "__version__", ""):
                seen["versions"][name] = str(version)
        except BaseException as error:
            seen["errors"][name] = f"{type(error).__name__}: {error}"
            seen["traceback"] = traceback.format_exc()
    try:
        seen["marker"] = importlib.import_module("mvp_marker").MARKER
    except Exception as error:
        seen["marker"] = None
        seen["errors"]["mvp_marker"] = f"{type(error).__name__}: {error}"
    return seen


def problems(where: str, seen: dict[str, Any], the_plan: Plan) -> list[str]:
    """Return why ``seen`` does not prove that ``where`` imports the plan's snapshot; empty when it does."""
    messages = [f"{where}: cannot import {name}: {why}" for name, why in seen["errors"].items()]
    root = Path(os.path.realpath(the_plan.code_path or "/"))
    for name, file in seen["modules"].items():
        if not Path(file).is_relative_to(root):
            messages.append(f"{where}: {name} comes from {file}, not from code_path {root}")
    if seen["marker"] is not None and seen["marker"] != the_plan.code_id:
        messages.append(f"{where}: the marker is '{seen['marker']}', not '{the_plan.code_id}'")
    return messages


def look_on_workers(
    the_plan: Plan, address: str, look: Callable[[list[str]], dict[str, Any]], modules: list[str]
) -> list[dict[str, Any]]:
    """Run ``look(modules)`` in a Ray task on every worker of this job's cluster; a worker's failure is in its ``errors``."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # Always with the address: without one Ray joins any cluster that it finds, or starts its own.
    ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    resource = next(iter(the_plan.entrypoint_resources), "")
    workers = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get(resource)]
    task = ray.remote(num_cpus=0, max_retries=0)(look)
    pending = {
        node["NodeID"]: task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
            modules
        )
        for node in workers
    }
    seen = []
    for node in workers:
        try:
            answer = ray.get(pending[node["NodeID"]], timeout=RAY_TASK_TIMEOUT_S)
        except Exception as error:
            answer = {"host": None, "modules": {}, "marker": None, "errors": {"ray": f"{type(error).__name__}: {error}"[:500]}}
        seen.append({"node_id": node["NodeID"], "ip": node["NodeManagerAddress"], **answer})
    ray.shutdown()
    return seen


def main(folder: JobFolder) -> int:
    """Check the job, print the outcome, write ``precheck.json``; return the exit code."""
    the_plan = plan.read(folder)
    report = locate(the_plan) if import_proof.by_the_trainer(the_plan) else _import_everywhere(the_plan)
    steps = the_plan.steps_total()
    messages = list(report["problems"])
    importable = report["driver"] is None or not report["driver"]["errors"]
    trial = _try_reward(the_plan) if the_plan.reward and importable else None
    if the_plan.reward and trial and trial.problem:
        messages.append(f"reward function {the_plan.reward.name}: {trial.at}: {trial.problem}")
    report |= {"ok": not messages, "problems": messages, "steps_total": steps}
    report["reward"] = trial and msgspec.to_builtins(trial)
    # The message of a failed import may quote values of its environment.
    files.write_json(folder.precheck, known.mask(folder.shared).value(report))
    for problem in messages:
        print(f"MVP_PRECHECK_PROBLEM={problem}", flush=True)
    return 3 if messages else 0


def locate(the_plan: Plan) -> dict[str, Any]:
    """Return where the driver will find its modules, without an import: the processes of the job prove their own imports."""
    messages = [] if os.environ.get("RAY_ADDRESS") else ["RAY_ADDRESS is not set: this process is not part of a Ray job"]
    root = Path(os.path.realpath(the_plan.code_path or "/"))
    for name in the_plan.imports:
        spec = importlib.util.find_spec(name)
        origin = os.path.realpath(spec.origin) if spec and spec.origin else None
        if origin is None:
            messages.append(f"driver: cannot import {name}: it is not on the PYTHONPATH")
        elif not Path(origin).is_relative_to(root):
            messages.append(f"driver: {name} comes from {origin}, not from code_path {root}")
    versions = processes.versions()
    with contextlib.suppress(OSError):
        versions["verl"] = files.read(root / "verl" / "version" / "version", 100).decode(errors="replace").strip()
    return {"problems": messages, "driver": None, "ray_workers": [], "versions": versions}


def _import_everywhere(the_plan: Plan) -> dict[str, Any]:
    """Return what the driver and a Ray process on every worker import, for code that does not record it itself."""
    address = os.environ.get("RAY_ADDRESS")
    workers = look_on_workers(the_plan, address, look, the_plan.imports) if address else []
    driver = look(the_plan.imports)
    for name in the_plan.imports:
        print(f"MVP_PRECHECK_{name.upper().replace('.', '_')}_FILE={driver['modules'].get(name, 'not importable')}")
    print(f"MVP_PRECHECK_MARKER={driver['marker']}", flush=True)
    return {"problems": _import_problems(the_plan, address, driver, workers), "driver": driver, "ray_workers": workers}


def _import_problems(the_plan: Plan, address: str | None, driver: dict[str, Any], workers: list[dict[str, Any]]) -> list[str]:
    messages = problems("driver", driver, the_plan)
    for seen in workers:
        messages += problems(f"Ray worker on {seen['ip']}", seen, the_plan)
    if not address:
        messages.append("RAY_ADDRESS is not set: this process is not part of a Ray job")
    elif not workers:
        messages.append(f"no Ray node that is alive offers {the_plan.entrypoint_resources}")
    return messages


def _try_reward(the_plan: Plan) -> Trial:
    """Load the reward function and call it once, in a process of its own; print the outcome when it is good."""
    assert the_plan.reward
    user_code = SharedRoot(Path(the_plan.shared_root)).user_code
    trial = reward_trial.try_out(the_plan.reward, the_plan.data_files.get("train"), user_code)
    if not trial.problem:
        outcome = "loads; it was not called" if trial.score is None else f"returned {trial.score:g} for a made-up answer"
        print(f"MVP_PRECHECK_REWARD={the_plan.reward.path}:{the_plan.reward.name} {outcome}", flush=True)
    return trial


if __name__ == "__main__":
    raise SystemExit(main(JobFolder(Path(sys.argv[1]))))
