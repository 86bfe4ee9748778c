"""Takes the bundle of a stalled job: stacks and states of its processes on all hosts, Ray's view of actors and placement groups.

Runs as a process of its own beside the job runner (``python3 -m mvp_helpers.job.stall_bundle <job folder>``), which stays without
Ray and cannot be held up by it. Prints one JSON object: the bundle's folder and what was found.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ..base import files, redact
from ..base.documents import MOST_BYTES, Damaged, read_rows
from ..base.paths import JobFolder
from ..cluster import ray_api
from ..cluster.ray_node import INSTANCE
from ..diagnosis import stall as analysis
from ..masking import known
from ..plan import environment, plan
from ..record import debug_bundle, host_processes
from ..record.stall import EVENT
from . import import_proof

RAY_LIMIT_S = 45.0
"""How long the nodes get to answer; whoever did not is named in the bundle."""
LIMIT_S = 120.0
"""After this long the runner ends the process."""


def take(folder: JobFolder, runner_pid: int) -> dict[str, Any]:
    """Write ``debug/<time>-stalled/`` and return ``{"bundle": its path, "finding": ...}``; a full disk costs the bundle alone."""
    the_plan = plan.read(folder)
    ray_view: dict[str, Any] = {}
    api = ray_api.inherited(the_plan.address)
    thread = threading.Thread(target=_ask_ray, args=(folder, api, ray_view), daemon=True)
    thread.start()
    reports, missing = _hosts(folder, runner_pid)
    thread.join(debug_bundle.TIMEOUT_S + 5)
    bundle = ray_view.get("bundle")
    missing += [f"{report['host']}: {what}" for report in reports for what in report["missing"]]
    missing += ray_view.get("missing", ["Ray's view: no answer"])
    finding = msgspec.structs.replace(_finding(folder, bundle, reports), missing=missing)
    mask = known.mask(folder.shared)
    if bundle:
        try:
            _write(bundle, reports, finding, lambda text: redact.data(mask.data(text.encode(errors="surrogateescape"))))
        except OSError as error:
            bundle = None
            finding = msgspec.structs.replace(finding, missing=[*missing, f"the bundle is not complete: {error}"])
    found: dict[str, Any] = mask.value({"bundle": str(bundle or ""), "finding": msgspec.to_builtins(finding)})
    return found


def _ask_ray(folder: JobFolder, api: ray_api.RayApi, answer: dict[str, Any]) -> None:
    try:
        bundle = debug_bundle.take(folder, api, EVENT)
        failed, _ = debug_bundle.outcome(bundle)
        answer |= {"bundle": bundle, "missing": [f"Ray's {item}: {error}" for item, error in failed.items()]}
    except OSError as error:
        answer["missing"] = [f"the bundle cannot be written: {error}"]


def _hosts(folder: JobFolder, runner_pid: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the reports of all nodes, and the missing parts. Where Ray does not answer, report only this host."""
    known: dict[str, list[int]] = {}
    for row in import_proof.records(folder):
        if row.get("node_id") and isinstance(row.get("pid"), int):
            known.setdefault(str(row["node_id"]), []).append(row["pid"])
    marks = {environment.JOB_FOLDER: str(folder.path)}
    answers: dict[str, Any] = {"reports": [], "missing": []}
    if address := os.environ.get("RAY_ADDRESS"):
        thread = threading.Thread(target=_ask_nodes, args=(address, marks, known, runner_pid, answers), daemon=True)
        thread.start()
        thread.join(RAY_LIMIT_S)
    if answers["reports"]:
        return list(answers["reports"]), list(answers["missing"])
    why = answers["missing"] or [f"no Ray node answered within {RAY_LIMIT_S:g} s"]
    local = host_processes.report(marks, INSTANCE, [], [runner_pid])
    return [local | {"node_id": None}], [*why, "only the processes of the driver's host are in the bundle"]


def _ask_nodes(
    address: str, marks: dict[str, str], known: dict[str, list[int]], runner_pid: int, answers: dict[str, Any]
) -> None:
    """Collect a report from every alive node through a Ray task there; ``answers`` holds what came so far."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    began = time.monotonic()
    try:
        # Ray takes the latest driver of a submission for the job's own: this one must not be among them.
        config = json.loads(os.environ.get(environment.JOB_CONFIG, "{}"))
        metadata = {**config.get("metadata", {}), "job_submission_id": f"{Path(marks[environment.JOB_FOLDER]).name}:stall"}
        os.environ[environment.JOB_CONFIG] = json.dumps({**config, "metadata": metadata})
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
        task = ray.remote(num_cpus=0, max_retries=0)(host_processes.report)
        pending = {}
        for node_id in nodes:
            there = NodeAffinitySchedulingStrategy(node_id, soft=False)
            answer = task.options(scheduling_strategy=there).remote(
                marks, INSTANCE, known.get(node_id, []), [runner_pid, os.getpid()]
            )
            pending[answer] = node_id
        left = list(pending)
        while left and (patience := began + RAY_LIMIT_S - 5 - time.monotonic()) > 0:
            ready, left = ray.wait(left, num_returns=1, timeout=patience)
            for answer in ready:
                node_id = pending[answer]
                try:
                    answers["reports"].append(ray.get(answer) | {"node_id": node_id, "ip": nodes[node_id]})
                except Exception as error:
                    answers["missing"].append(f"node {nodes[node_id]}: {type(error).__name__}: {str(error)[:300]}")
        answers["missing"] += [f"node {nodes[pending[answer]]} did not answer within {RAY_LIMIT_S - 5:g} s" for answer in left]
    except Exception as error:
        answers["missing"].append(f"Ray: {type(error).__name__}: {str(error)[:300]}")


def _finding(folder: JobFolder, bundle: Path | None, reports: list[dict[str, Any]]) -> analysis.Finding:
    def rows(name: str) -> list[dict[str, Any]]:
        try:
            return read_rows(bundle / name) if bundle else []
        except (OSError, Damaged):
            return []

    own = {str(row.get("job_id")) for row in rows("job.json")} - {"None", ""}
    actors = [row for row in rows("actors.json") if row.get("job_id") in own]
    groups = [row for row in rows("placement_groups.json") if row.get("creator_job_id") in own]
    return analysis.find(analysis.processes(reports, actors), actors, groups, _demands(bundle) if bundle else [])


def _demands(bundle: Path) -> list[str]:
    """Return what Ray cannot place, as its status text words it."""
    try:
        _, _, demands = files.read(bundle / "ray_status.txt", MOST_BYTES).decode(errors="replace").partition("Demands:")
    except OSError:
        return []
    return re.findall(r"^ *(\{.*\}.*)$", demands, re.MULTILINE)


def _write(bundle: Path, reports: list[dict[str, Any]], finding: analysis.Finding, clean: Callable[[str], bytes]) -> None:
    """Add each host's report and ``stall.json``, the last."""
    names: set[str] = set()
    for report in reports:
        name = str(report["host"])
        name = name if name not in names else f"{name}-{report.get('ip')}"
        names.add(name)
        place = bundle / "hosts" / re.sub(r"[^\w.-]", "_", name)
        (place / "py-spy").mkdir(parents=True, exist_ok=True)
        for pid, text in report["stacks"].items():
            files.write_new(place / "py-spy" / f"{pid}.txt", clean(text))
        files.write_new(place / "processes.json", clean(json.dumps(report["processes"], indent=1)))
        files.write_new(place / "gpus.txt", clean(str(report.get("gpus", ""))))
        facts = {key: report.get(key) for key in ("host", "hostname", "node_id", "ip", "memory_bytes", "load", "missing")}
        files.write_new(place / "host.json", clean(json.dumps(facts, indent=2)))
    files.write_bytes(bundle / "stall.json", clean(json.dumps(msgspec.to_builtins(finding), indent=2) + "\n"))


if __name__ == "__main__":
    print(json.dumps(take(JobFolder(Path(sys.argv[1])), os.getppid())), flush=True)
    # Not sys.exit: Ray's own end can wait for nodes that do not answer.
    os._exit(0)
