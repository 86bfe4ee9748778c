"""The processes of a job on one host, for debug bundles: their state, their Python stacks, the host's memory and its GPUs.

Every function works on the host it runs on. What is missing is returned as a phrase beside what could be collected.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..base import processes

TOOL_TIMEOUT_S = 20
MOST_DUMPS = 32
"""Processes per host whose stacks are taken: those with a rank first, then Ray's, then the driver and its children."""
NOT_PERMITTED = (
    "py-spy is not permitted to read processes on this host: run it as root, allow it (sysctl kernel.yama.ptrace_scope=0), or "
    "give the container the capability (docker: cap_add: [SYS_PTRACE])"
)
STOPPED = "Tt"
"""States of /proc in which a process does not run until it gets SIGCONT, or until its debugger lets it."""


def having(marks: Mapping[str, str], known: Iterable[int] = ()) -> list[int]:
    """Return the processes with all ``marks`` (variable → value) in their environment, and those of ``known`` that still run."""
    sets = [set(processes.holding(name, value)) for name, value in marks.items()]
    return sorted(set.intersection(*sets) | {pid for pid in known if processes.start_time(pid) is not None})


def rows(pids: Iterable[int]) -> list[dict[str, Any]]:
    """Return state, memory, command and rank of each process that still runs; ``rank`` is the RANK it was started with."""
    page = os.sysconf("SC_PAGE_SIZE")
    described = []
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            status = Path(f"/proc/{pid}/status").read_text()
            state, parent = (re.search(rf"^{name}:\s+(.+)$", status, re.MULTILINE) for name in ("State", "PPid"))
            resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page
            described.append(
                {
                    "pid": pid,
                    "parent": int(parent[1]) if parent else 0,
                    "state": state[1] if state else "",
                    "resident_bytes": resident,
                    "command": processes.command(pid)[:500],
                    "rank": _rank(pid),
                }
            )
    return described


def _rank(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        rank = processes.environment(pid).get("RANK", "")
        return int(rank) if rank.isdigit() else None
    return None


def stacks(pids: Iterable[int]) -> tuple[dict[int, str], list[str]]:
    """Return the stacks of all threads of each Python process, taken at about the same time, and the missing ones.

    Raises FileNotFoundError when this host has no py-spy.
    """
    tool = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if not tool:
        raise FileNotFoundError("no py-spy on this host (./scripts/12_install_py_deps.sh)")
    wanted = [pid for pid in pids if _is_python(pid)]
    missing = [f"py-spy: only {MOST_DUMPS} of {len(wanted)} processes"] if len(wanted) > MOST_DUMPS else []
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        dumps = dict(zip(wanted, pool.map(lambda pid: _dump(tool, pid), wanted[:MOST_DUMPS]), strict=False))
    for pid, (good, text) in dumps.items():
        if not good and "ermission" in text:
            missing.append(f"py-spy: {NOT_PERMITTED}")
            break
        if not good:
            missing.append(f"py-spy: pid {pid}: {text.strip().splitlines()[0] if text.strip() else 'no answer'}")
    if not dumps:
        missing.append("py-spy: no Python process of the job runs here")
    return {pid: text for pid, (_, text) in dumps.items()}, missing


def _is_python(pid: int) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("python")
    except OSError:
        return False


def _dump(tool: str, pid: int) -> tuple[bool, str]:
    """Return whether py-spy succeeded, and its output or its error."""
    # A stopped process cannot be paused again, and need not be.
    pause = ["--nonblocking"] if _state(pid) in STOPPED else []
    try:
        run = subprocess.run([tool, "dump", *pause, "--pid", str(pid)], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return False, f"no answer within {TOOL_TIMEOUT_S} s"
    return run.returncode == 0, run.stdout if run.returncode == 0 else run.stderr.partition("Stack backtrace")[0]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "?"


def memory() -> dict[str, int]:
    """Return the host's memory in bytes, by the names of /proc/meminfo."""
    kib = dict(re.findall(r"(\w+):\s+(\d+) kB", Path("/proc/meminfo").read_text()))
    return {key: int(kib[key]) * 1024 for key in ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "Shmem") if key in kib}


def gpus() -> str:
    """Return the output of nvidia-smi, or that there is none. Raises OSError when it fails."""
    if not shutil.which("nvidia-smi"):
        return "no nvidia-smi on this host\n"
    return output(["nvidia-smi"])


def output(argv: list[str]) -> str:
    """Return what a tool prints. Raises OSError when it fails, subprocess.TimeoutExpired when it does not end."""
    run = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=TOOL_TIMEOUT_S)
    if run.returncode:
        raise OSError(f"{argv[0]} ended with exit code {run.returncode}: {run.stderr.strip()[:200]}")
    return run.stdout


def report(marks: Mapping[str, str], same_node: str, known: Iterable[int], without: Iterable[int] = ()) -> dict[str, Any]:
    """Return what this host knows about the processes with ``marks``, as plain values that Ray can carry.

    ``same_node`` names a variable: only processes that share this process's value of it count, as hosts can share a machine.
    ``known`` are further process ids of this node, ``without`` those to leave out. Parts that fail are named in ``missing``.
    """
    own = {same_node: os.environ[same_node]} if same_node in os.environ else {}
    left_out = {os.getpid(), *without}
    pids = [pid for pid in having({**marks, **own}, known) if pid not in left_out]
    report: dict[str, Any] = {
        "host": os.environ.get("MVP_HOST") or socket.gethostname(),
        "hostname": socket.gethostname(),
        "processes": rows(pids),
        "stacks": {},
        "missing": [],
    }
    parts = {"memory_bytes": memory, "gpus": gpus, "load": os.getloadavg}
    for name, part in parts.items():
        try:
            report[name] = part()
        except Exception as error:  # whatever it is: the report names it and continues
            report["missing"].append(f"{name}: {error}")
    try:
        first = sorted(
            report["processes"], key=lambda row: (row["rank"] is None, not row["command"].startswith("ray::"), row["pid"])
        )
        report["stacks"], missing = stacks(row["pid"] for row in first) if first else ({}, [])
        report["missing"] += missing
    except Exception as error:
        report["missing"].append(f"py-spy: {error}")
    return report
