"""Script 50, one screen: the cluster as Ray sees it, and the newest jobs as their folders record them.

Only the folders of the newest and of active jobs are opened, however many there are, and Ray is asked only about jobs that have
not ended: one request each, all at once.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..base import chart, files
from ..base.errors import BadInput, MvpError
from ..base.paths import JobFolder, SharedRoot
from ..base.terminal import columns, cut
from ..base.times import clock
from ..cluster.cluster_file import Cluster
from ..cluster.ray_api import Node, RayApi
from ..record import chain as chains
from ..record import control, error_lines, job_folder, metrics, reconcile, removals, stall
from ..record.chain import Attempt
from ..record.job_folder import Result, elapsed_s
from ..usage import resources

LOG_TAIL_BYTES = 65_536
THREADS = 16
CURVE_COLUMNS = 10


def collect(cluster: Cluster, api: RayApi, limit: int) -> dict[str, Any]:
    """Return ``{"cluster": {...}, "jobs": [...]}``: plain values, as printed by ``--json``.

    ``limit`` is the number of newest jobs; active ones are added. A Ray that does not answer raises nothing:
    ``cluster.up`` is False then and ``cluster.problem`` says why.
    """
    shared = SharedRoot(Path(cluster.shared_root))
    newest = job_folder.newest_ids(shared, limit)
    ids = [*sorted(set(job_folder.active_ids(shared)) - set(newest)), *newest]
    *jobs, seen = _at_once([*(functools.partial(job_row, shared.job(name), api) for name in ids), lambda: _cluster(cluster, api)])
    rows = _one_line_for_a_chain([job for job in jobs if job], shared)
    return {"cluster": seen, "jobs": sorted(rows, key=lambda row: str(row["claimed_at"]), reverse=True)}


def _one_line_for_a_chain(rows: list[dict[str, Any]], shared: SharedRoot) -> list[dict[str, Any]]:
    """Return the rows without earlier attempts; the row of a chain's latest attempt has all of them in ``attempts``."""
    if not chains.any_in(shared):
        return rows
    removed, kept = removals.job_ids(shared), []
    for row in rows:
        try:
            chain = chains.find(shared, row["id"])
        except BadInput as error:
            row["note"], chain = error.what, None
        if chain is None:
            kept.append(row)
        elif next((attempt.id for attempt in reversed(chain.attempts) if attempt.id not in removed), row["id"]) == row["id"]:
            attempts = [_attempt(attempt, row, removed) for attempt in chain.attempts]
            kept.append({**row, "attempts": attempts, "note": chain.note or row["note"]})
    return kept


def _attempt(attempt: Attempt, row: dict[str, Any], removed: frozenset[str]) -> dict[str, Any]:
    """Return an attempt for the row of the chain's newest one that is still there."""
    state = row["state"] if attempt.id == row["id"] else f"{attempt.state}, removed" if attempt.id in removed else attempt.state
    return {"id": attempt.id, "state": state, "cause": attempt.cause}


def _ends(job: dict[str, Any]) -> str:
    """Return the last column: of a chain its attempts, then what it waits for; of a job its last error or note."""
    if len(job["attempts"]) < 2 and not (job["attempts"] and job["note"]):
        return str(job["last_error"] or job["note"])
    past = [f"{attempt['state']} ({attempt['cause'] or 'no retry'})" for attempt in job["attempts"][:-1]]
    numbered = ", ".join(f"{number} {text}" for number, text in enumerate([*past, job["attempts"][-1]["state"]], 1))
    return f"attempts: {numbered}" + (f"; {job['note'] or job['last_error']}" if job["note"] or job["last_error"] else "")


def job_row(folder: JobFolder, api: RayApi | None) -> dict[str, Any] | None:
    """Return one job for the screen; None when the folder is gone (the index can lag behind).

    Whatever is in the folder, it harms only this row, whose state is ``DAMAGED`` then and whose last error says why.
    """
    try:
        return _row(folder, api)
    except BadInput as error:
        return _damaged(folder, error.what) if folder.path.is_dir() else None
    except Exception as error:  # the other rows must not depend on what a job can think of
        return _damaged(folder, f"{folder.path}: {type(error).__name__}: {error}")


def _damaged(folder: JobFolder, why: str) -> dict[str, Any]:
    unknown = ("driver_host", "steps_total", "elapsed_s", "metric", "value", "use", "wall_time")
    row = {"id": folder.submission_id, "workload": "?", "state": "DAMAGED", "steps_done": 0, "last_error": why, "note": ""}
    return {**row, **dict.fromkeys(unknown), "curve": [], "attempts": [], "claimed_at": "", "folder": str(folder.path)}


def _row(folder: JobFolder, api: RayApi | None) -> dict[str, Any]:
    result = job_folder.read(folder)
    note = ""
    if not result.ended:
        try:
            result = reconcile.settle(folder, result, api)
        except OSError as error:  # an ending that cannot be written
            note = f"cannot write result.json: {error.strerror}"
        note = note or (
            "" if result.ended else _stopping(folder) or (stall.describe(result.stall) if result.stall else result.reason)
        )
    step, data = result.steps_done, result.last_metrics
    if result.state == "RUNNING" and not step:
        step, data = metrics.tail(folder.metrics)
    number = metrics.headline(data)
    seconds = elapsed_s(result)
    return {
        "id": folder.submission_id,
        "workload": result.workload,
        "state": result.state,
        "driver_host": result.driver_host,
        "steps_done": step,
        "steps_total": result.steps_total,
        "elapsed_s": None if seconds is None else round(seconds, 1),
        "metric": number[0] if number else None,
        "value": number[1] if number else None,
        "curve": metrics.recent(folder.metrics) if number else [],
        "last_error": _last_error(folder, result),
        "note": note,
        "use": resources.now(folder.resources) if result.state == "RUNNING" else None,
        "wall_time": result.wall_time and msgspec.to_builtins(result.wall_time),
        "attempts": [],
        "claimed_at": result.claimed_at,
        "folder": str(folder.path),
    }


def _stopping(folder: JobFolder) -> str:
    request = control.stop_request(folder)
    return f"asked to {'stop' if request.now else 'save and stop'} at {request.requested_at}" if request else ""


def _last_error(folder: JobFolder, result: Result) -> str:
    if result.state in ("SUCCEEDED", "CLAIMED", "SUBMITTED"):
        return ""
    if result.ended and result.reason:
        return (result.reason.strip().splitlines() or [""])[-1]
    try:
        return error_lines.last(files.tail(folder.driver_log, LOG_TAIL_BYTES))
    except OSError:
        return ""


def _cluster(cluster: Cluster, api: RayApi) -> dict[str, Any]:
    from .. import __version__

    seen: dict[str, Any] = {
        "name": cluster.name,
        "address": api.address,
        "shared_root": cluster.shared_root,
        "up": False,
        "problem": "",
        "versions": {"toolkit": __version__},
        "usage": {},
        "hosts": [],
    }
    nodes: list[Node] = []
    try:
        nodes, version, usage = _at_once([api.nodes, api.version, lambda: _usage(api.cluster_status())])
        seen |= {"up": True, "usage": usage}
        seen["versions"]["ray"] = version
    except MvpError as error:
        seen["problem"] = error.what
    seen["hosts"] = _hosts(cluster, nodes, bool(seen["up"]))
    return seen


def _hosts(cluster: Cluster, nodes: Sequence[Node], answered: bool) -> list[dict[str, Any]]:
    """Return a row for each host of the cluster file, and for each alive node that is not in it."""
    alive = {node.ip: node for node in nodes if node.alive}
    dead = {node.ip for node in nodes if not node.alive}
    rows = []
    for host in cluster.hosts:
        node = alive.pop(host.ip, None)
        state = "alive" if node else "unknown" if not answered else "dead" if host.ip in dead else "missing"
        rows.append(_host(host.name, host.role, host.ip, state, node))
    return rows + [
        _host("?", "head" if node.is_head else "worker", ip, "not in the cluster file", node) for ip, node in alive.items()
    ]


def _host(name: str, role: str, ip: str, state: str, node: Node | None) -> dict[str, Any]:
    cpus, gpus = (node.total("CPU"), node.total("GPU")) if node else (None, None)
    return {
        "name": name,
        "role": role,
        "ip": ip,
        "state": state,
        "cpu": cpus,
        "gpu": gpus,
        "node_id": node.node_id if node else None,
    }


def _usage(text: str) -> dict[str, str]:
    """Return ``{"CPU": "3.0/16.0"}`` from the text of ``ray status``."""
    return {name: used for used, name in re.findall(r"^ *([\d.]+/[\d.]+) (CPU|GPU)\b", text, re.MULTILINE)}


def _at_once(calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """Make all calls concurrently; return their results in order, or raise the first exception when all have ended."""
    waiting = collections.deque(enumerate(calls))
    results: list[Any] = [None] * len(waiting)

    def work() -> None:
        while waiting:
            with contextlib.suppress(IndexError):  # another thread took the last one
                at, call = waiting.popleft()
                try:
                    results[at] = call()
                except Exception as error:
                    results[at] = error

    threads = [threading.Thread(target=work) for _ in range(min(THREADS, len(waiting)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed := [result for result in results if isinstance(result, Exception)]:
        raise failed[0]
    return results


def screen(state: dict[str, Any], width: int, colour: bool, encoding: str | None = None) -> str:
    """Return what ``collect`` returned as text, in lines of at most ``width`` columns.

    With the ``encoding`` of a terminal, a small curve of the last steps is beside each metric.
    """
    cluster, jobs = state["cluster"], state["jobs"]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(cluster["versions"].items()))
    usage = "".join(f", {name} {used} used" for name, used in cluster["usage"].items())
    summary = f"up, {versions}{usage}" if cluster["up"] else f"not up: {cluster['problem']}"
    lines = [cut(f"cluster {cluster['name']}  {cluster['address']}  {summary}", width)]
    hosts = [[h["name"], h["role"], h["ip"], h["state"], _number(h["cpu"]), _number(h["gpu"])] for h in cluster["hosts"]]
    lines += columns(["HOST", "ROLE", "ADDRESS", "STATE", "CPU", "GPU"], hosts, width, colour)
    lines.append("")
    if not jobs:
        return "\n".join([*lines, f"no jobs in {cluster['shared_root']}/jobs"])
    rows = [
        [
            job["id"],
            job["workload"],
            job["state"],
            job["driver_host"] or "-",
            _progress(job),
            "-" if job["elapsed_s"] is None else clock(job["elapsed_s"]),
            _metric(job, encoding),
            _use(job["use"]),
            _ends(job),
        ]
        for job in jobs
    ]
    titles = ["JOB", "WORKLOAD", "STATE", "DRIVER", "STEP", "ELAPSED", "METRIC", "USE", "LAST ERROR"]
    if not any(job["use"] for job in jobs):
        titles.remove("USE")
        rows = [[*row[:-2], row[-1]] for row in rows]
    return "\n".join([*lines, *columns(titles, rows, width, colour)])


def _use(use: dict[str, Any] | None) -> str:
    """Return what a running job uses: its GPUs, or where it has none its CPU cores, and the memory of the fullest host."""
    if not use:
        return "-"
    busy = f"CPU {use['cpu']:.1f}" if use["gpu"] is None else f"GPU {use['gpu']:.0%}"
    return f"{busy} mem {use['memory']:.0%}"


def _metric(job: dict[str, Any], encoding: str | None) -> str:
    if job["value"] is None:
        return "-"
    return f"{job['metric']} {job['value']:.4g} {chart.spark(job['curve'], CURVE_COLUMNS, encoding) if encoding else ''}".rstrip()


def _progress(job: dict[str, Any]) -> str:
    total = job["steps_total"]
    return f"{job['steps_done']}/{total}" if total else str(job["steps_done"] or "-")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
