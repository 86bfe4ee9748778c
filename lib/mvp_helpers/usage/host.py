"""One host, measured: its memory, CPU, network and GPUs, and the memory, CPU and disk of a job's processes on it.

Read from /proc and, where there is a GPU, from NVML. It imports nothing heavy: ``stream`` runs on every worker.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..base import processes

HZ, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
CGROUP = Path("/sys/fs/cgroup")
CGROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat", ""),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_"),
)
"""Limit, usage, and the statistics with the prefix of their names, in version 2 and 1. Source: Ray's memory monitor, which takes
cached files for free."""


class Host:
    """The host that it runs on. ``sample`` measures; rates are those since the call before, None in the first one."""

    def __init__(self, folder: str, variable: str, instance_variable: str) -> None:
        """Watch the job with this folder. The variables name the job's folder and the Ray node in a process's environment."""
        self._folder, self._variable = folder, variable
        self._instance = os.environ.get(instance_variable, "")
        self._before: dict[str, float] = {}
        self._ticks: dict[int, tuple[int, int]] = {}
        self._bytes: dict[int, tuple[int, int]] = {}
        self._gpus = gpus()

    def calm(self) -> None:
        """Let every other process of this host go first."""
        os.nice(10)

    def sample(self) -> dict[str, Any]:
        """Return one record of ``resources.jsonl`` without its time and step (see ``resources.Sample``)."""
        elapsed = self._rate("clock", time.monotonic())
        used, total = memory()
        received, sent = network()
        return {
            "host": os.environ.get("MVP_HOST") or socket.gethostname(),
            "cpu": {"cores": os.cpu_count() or 1, "busy": _per(self._rate("busy", busy_s()), elapsed)},
            "memory": {"total": total, "used": used},
            "network": {
                "received": _per(self._rate("received", received), elapsed),
                "sent": _per(self._rate("sent", sent), elapsed),
            },
            "job": self._job(elapsed),
            "gpus": [gpu for each in self._gpus if (gpu := each())],
        }

    def _rate(self, name: str, value: float) -> float | None:
        """Return how much a counter grew since the call before; None in the first call."""
        before = self._before.get(name)
        self._before[name] = value
        return None if before is None else value - before

    def _job(self, elapsed: float | None) -> dict[str, Any]:
        own, memory = 0, 0
        ticks: dict[int, tuple[int, int]] = {}
        moved: dict[int, tuple[int, int]] = {}
        for pid in processes.of_job(self._folder, self._variable, self._instance):
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
                own, memory = own + 1, memory + (int(resident) - int(shared)) * PAGE
                ticks[pid] = int(fields[19]), int(fields[11]) + int(fields[12])
                counted = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
                moved[pid] = int(counted["read_bytes"]), int(counted["write_bytes"])
        # A process that is new since the call before has spent all of its time since then; one that ended is not counted.
        spent = sum(
            used - (self._ticks[pid][1] if self._ticks.get(pid, (0,))[0] == began else 0) for pid, (began, used) in ticks.items()
        )
        read, written = (sum(now[at] - self._bytes.get(pid, (0, 0))[at] for pid, now in moved.items()) for at in (0, 1))
        self._ticks, self._bytes = ticks, moved
        return {
            "processes": own,
            "memory": memory,
            "cpu": _per(spent / HZ, elapsed),
            "read": _per(max(0, read), elapsed),
            "written": _per(max(0, written), elapsed),
        }


def stream(folder: str, variable: str, instance_variable: str, every_s: float) -> Iterator[dict[str, Any]]:
    """Yield a sample of this host at every multiple of ``every_s``, for ever. The arguments are those of ``Host``."""
    host = Host(folder, variable, instance_variable)
    host.calm()
    while True:
        sleep_until_next(every_s)
        yield host.sample()


def sleep_until_next(every_s: float) -> None:
    """Sleep until the time of day is a multiple of ``every_s``: all hosts do so at the same moment, whatever a sample takes."""
    time.sleep(every_s - time.time() % every_s)


def _per(amount: float | None, elapsed: float | None) -> float | None:
    return round(amount / elapsed, 2) if amount is not None and elapsed else None


def memory() -> tuple[int, int]:
    """Return used and total memory in bytes: those of the container where it has a limit, else those of the machine."""
    kib = dict(re.findall(r"^(\w+): +(\d+) kB", (processes.PROC / "meminfo").read_text(), re.MULTILINE))
    total = int(kib["MemTotal"]) * 1024
    used = total - int(kib["MemAvailable"]) * 1024
    for most, current, facts, prefix in CGROUP_FILES:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            limit = int((CGROUP / most).read_text())  # "max" without a limit
            if limit < total:
                cached = re.findall(rf"^{prefix}(?:in)?active_file (\d+)$", (CGROUP / facts).read_text(), re.MULTILINE)
                return max(0, int((CGROUP / current).read_text()) - sum(map(int, cached))), limit
    return used, total


def busy_s() -> float:
    """Return the CPU seconds that all cores of the machine have worked since boot."""
    fields = [int(text) for text in (processes.PROC / "stat").read_text().partition("\n")[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / HZ  # idle, and idle while it waits for a disk


def network() -> tuple[int, int]:
    """Return the bytes that the host has received and sent, without those to itself."""
    lines = (processes.PROC / "net/dev").read_text().splitlines()[2:]
    counts = [text.split() for name, _, text in (line.partition(":") for line in lines) if name.strip() != "lo"]
    return sum(int(each[0]) for each in counts), sum(int(each[8]) for each in counts)


def gpus() -> list[Any]:
    """Return a function for each GPU of this host that returns its record, or None when it does not answer; none without NVML."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return [_Gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except Exception:  # no package, no driver, no GPU, or one that has fallen off the bus
        return []


class _Gpu:
    def __init__(self, nvml: Any, index: int) -> None:
        self._nvml, self._index, self._handle = nvml, index, nvml.nvmlDeviceGetHandleByIndex(index)

    def __call__(self) -> dict[str, Any] | None:
        try:
            memory = self._nvml.nvmlDeviceGetMemoryInfo(self._handle)
            busy = self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu
        except self._nvml.NVMLError:  # not supported (MIG), or lost
            return None
        return {"index": self._index, "utilisation": busy / 100, "memory_used": memory.used, "memory_total": memory.total}
