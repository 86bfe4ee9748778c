"""``resources.jsonl`` of a job folder: one record for each host and moment, written by one process, of bounded size."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ..base import files

MOST_BYTES = 8 << 20
"""When the file is larger, every second moment is dropped and the time between two is doubled."""
RECENT = 6
"""Moments that count as now."""
TAIL_BYTES = 256 << 10
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""The job can write anything into the file: an integer of 400 digits does not fit into a float."""


class Cpu(msgspec.Struct, frozen=True):
    """``busy``: cores of the machine at work, by whomever."""

    cores: int = 1
    busy: float | None = None


class Memory(msgspec.Struct, frozen=True):
    """Bytes: of the container where it has a limit, else of the machine."""

    total: Count = 0
    used: Count = 0


class Network(msgspec.Struct, frozen=True):
    """Bytes a second of the whole host, without those to itself."""

    received: float | None = None
    sent: float | None = None


class OfJob(msgspec.Struct, frozen=True):
    """The job's processes on the host: ``memory`` in bytes without what they share, ``cpu`` in cores, disk in bytes a second."""

    processes: int = 0
    memory: int = 0
    cpu: float | None = None
    read: float | None = None
    written: float | None = None


class Gpu(msgspec.Struct, frozen=True):
    """``utilisation`` from 0 to 1; memory in bytes, by whomever it is used."""

    index: int
    utilisation: float
    memory_used: Count
    memory_total: Count


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One line. ``at`` is Unix time by the clock of the driver's host, the same for all hosts; ``step`` the last step done."""

    at: float
    host: str
    step: Count = 0
    cpu: Cpu = Cpu()
    memory: Memory = Memory()
    network: Network = Network()
    job: OfJob = OfJob()
    gpus: list[Gpu] = []
    problem: str = ""
    """Why other hosts have no record of this moment."""


class Log:
    """Appends samples to a file; a full or lost disk loses samples, nothing else."""

    def __init__(self, path: Path, every_s: float, most: int = MOST_BYTES) -> None:
        self._path, self.every_s, self._most = path, every_s, most
        """``every_s``: seconds between two moments, which grow with the file."""

    def add(self, at: float, step: int, hosts: Iterable[dict[str, Any]]) -> None:
        """Write one moment."""
        lines = [json.dumps({"at": round(at, 2), "step": step, **host}, separators=(",", ":")) for host in hosts]
        with contextlib.suppress(OSError):
            # Unbuffered, in one call: a reader never sees a part of a line, unless the disk is full.
            with files.appended(self._path) as stream:
                files.write_all(stream.fileno(), "".join(f"{line}\n" for line in lines).encode())
                size = os.fstat(stream.fileno()).st_size
            if size > self._most:
                self._thin()

    def _thin(self) -> None:
        moments: dict[bytes, list[bytes]] = {}
        for line in files.read(self._path, 2 * self._most).splitlines(keepends=True):
            moments.setdefault(line.partition(b",")[0], []).append(line)
        files.write_bytes(self._path, b"".join(line for lines in list(moments.values())[::2] for line in lines))
        self.every_s *= 2


_DECODER = msgspec.json.Decoder(Sample)


def read(path: Path, last_bytes: int | None = None) -> list[Sample]:
    """Return the samples, oldest first, of the whole file or of its last bytes; none of a file that is missing, or not ours."""
    try:
        data = files.read(path, 2 * MOST_BYTES) if last_bytes is None else files.tail(path, last_bytes)
    except OSError:
        return []
    samples = []
    for line in data.splitlines():
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            samples.append(_DECODER.decode(line))
    return samples


def now(path: Path) -> dict[str, Any] | None:
    """Return what a running job uses, over the last moments; None before the second one. Fractions are from 0 to 1.

    ``gpu`` and ``gpu_memory`` are means over all GPUs of hosts with processes of the job (None without any), ``cpu`` the cores
    that its processes use on all hosts, ``memory`` the fullest host's.
    """
    samples = read(path, TAIL_BYTES)
    moments = sorted({sample.at for sample in samples if sample.job.cpu is not None})[-RECENT:]
    recent = [sample for sample in samples if sample.at in moments]
    if not recent:
        return None
    newest = [sample for sample in recent if sample.at == moments[-1]]
    gpus = [gpu for sample in recent if sample.job.processes for gpu in sample.gpus]
    return {
        "gpu": _mean([gpu.utilisation for gpu in gpus]),
        "gpu_memory": _mean([gpu.memory_used / gpu.memory_total for gpu in gpus if gpu.memory_total]),
        "cpu": round(sum(sample.job.cpu or 0.0 for sample in recent) / len(moments), 2),
        "memory": round(max(sample.memory.used / (sample.memory.total or 1) for sample in newest), 3),
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(statistics.fmean(values), 3) if values else None
