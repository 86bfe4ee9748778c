"""Proves, before training, which code a job imports: in the driver and in one real Ray process on every worker.

Runs as its own process on the driver's host (``python3 -m mvp_helpers.job.precheck <job folder>``), so that the job runner never
imports Ray, torch or verl. Writes ``precheck.json``; exit code 0 when all is proven, 3 when not.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ..base import files
from ..base.paths import JobFolder, SharedRoot
from ..plan import plan, reward
from ..plan.plan import Plan
from . import job_secrets

RAY_TASK_TIMEOUT_S = 180


def look(modules: list[str]) -> dict[str, Any]:
    """What this process imports: each module's file, the snapshot's marker, and where the process runs."""
    found: dict[str, Any] = {"host": socket.gethostname(), "pid": os.getpid(), "modules": {}, "errors": {}}
    for name in modules:
        try:
            found["modules"][name] = os.path.realpath(str(importlib.import_module(name).__file__))
        except BaseException as error:
            found["errors"][name] = f"{type(error).__name__}: {error}"
            found["traceback"] = traceback.format_exc()
    try:
        found["marker"] = importlib.import_module("mvp_marker").MARKER
    except Exception as error:
        found["marker"] = None
        found["errors"]["mvp_marker"] = f"{type(error).__name__}: {error}"
    return found


def problems(where: str, seen: dict[str, Any], the_plan: Plan) -> list[str]:
    """Why ``seen`` does not prove that ``where`` imports the plan's snapshot; empty when it does."""
    found = [f"{where}: cannot import {name}: {why}" for name, why in seen["errors"].items()]
    root = Path(os.path.realpath(the_plan.code_path or "/"))
    for name, file in seen["modules"].items():
        if not Path(file).is_relative_to(root):
            found.append(f"{where}: {name} comes from {file}, not from code_path {root}")
    if seen["marker"] is not None and seen["marker"] != the_plan.code_id:
        found.append(f"{where}: the marker is '{seen['marker']}', not '{the_plan.code_id}'")
    return found


def look_on_workers(
    the_plan: Plan, address: str, look: Callable[[list[str]], dict[str, Any]], modules: list[str]
) -> list[dict[str, Any]]:
    """``look(modules)`` in a Ray task on every worker node of this job's cluster; a node's failure is in its ``errors``."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # Always this address: without one Ray joins whatever cluster it finds, or starts its own.
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
    """Check, print the two lines people look for, write ``precheck.json``."""
    the_plan = plan.read(folder)
    address = os.environ.get("RAY_ADDRESS")
    workers = look_on_workers(the_plan, address, look, the_plan.imports) if address else []
    driver = look(the_plan.imports)
    found = problems("driver", driver, the_plan)
    for seen in workers:
        found += problems(f"Ray worker on {seen['ip']}", seen, the_plan)
    if not address:
        found.append("RAY_ADDRESS is not set: this is not a Ray job")
    elif not workers:
        found.append(f"no alive Ray node offers {the_plan.entrypoint_resources}")
    steps = plan.steps_total(the_plan)
    if steps == 0:
        found.append(
            f"{the_plan.data_files['train']} has fewer rows than one batch ({the_plan.train_batch_size}): no step would be made"
        )
    for name in the_plan.imports:
        print(f"MVP_PRECHECK_{name.upper().replace('.', '_')}_FILE={driver['modules'].get(name, 'not importable')}")
    print(f"MVP_PRECHECK_MARKER={driver['marker']}", flush=True)
    tried = None
    if the_plan.reward and not driver["errors"]:
        user_code = SharedRoot(Path(the_plan.shared_root)).user_code
        tried = reward.try_out(the_plan.reward, the_plan.data_files.get("train"), user_code)
        if tried.problem:
            found.append(f"reward function {the_plan.reward.name}: {tried.at}: {tried.problem}")
        else:
            gave = "loads, and was not called" if tried.score is None else f"gave {tried.score:g} for a made-up answer"
            print(f"MVP_PRECHECK_REWARD={the_plan.reward.path}:{the_plan.reward.name} {gave}", flush=True)
    report = {"ok": not found, "problems": found, "driver": driver, "ray_workers": workers, "steps_total": steps}
    report["reward"] = tried and msgspec.to_builtins(tried)
    # An import that fails may quote what it found in its environment.
    files.write_json(folder.precheck, job_secrets.mask(folder).value(report))
    for problem in found:
        print(f"MVP_PRECHECK_PROBLEM={problem}", flush=True)
    return 3 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(JobFolder(Path(sys.argv[1]))))
