"""Script 00's ``--nccl``: measure how fast the workers all-reduce a tensor. Needs no Ray, leaves nothing behind.

On every worker ``measure`` starts its share of the processes (one per GPU; with gloo one per worker), each running this file as a
program. They meet at the first worker's address, check that the sum is right, and time sums of growing size.

    algorithm bandwidth = bytes of the tensor / seconds of one all-reduce
    bus bandwidth       = algorithm bandwidth * 2 (n - 1) / n, n processes: what each link carries, whatever n is
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from ..base import processes
from . import network, shape
from .cluster_file import Cluster

MIB = 1 << 20
SIZES = {"nccl": (1 * MIB, 16 * MIB, 256 * MIB), "gloo": (MIB // 16, 1 * MIB, 16 * MIB)}
"""Bytes of float32; the largest is as large as a message in training, and limits the memory used."""
WARM_UP = 2
MOST_TIMES = 20
SECONDS_EACH = 1.0
JOIN_SHARE = 2 / 3
"""Share of the time-out for joining: importing torch and connecting takes longer than measuring."""


class Bandwidth(msgspec.Struct, frozen=True, kw_only=True):
    """One size: mean seconds of an all-reduce on the slowest process, and the bandwidths (GB/s: 1e9 bytes per second)."""

    bytes: int
    seconds: float
    algorithm_gb_s: float
    bus_gb_s: float


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The task of one process, read from its stdin. ``names`` has each process's worker, at the index of its ``rank``."""

    names: list[str]
    rank: int
    local_rank: int
    backend: str
    address: str
    port: int
    timeout_s: float


class Outcome(msgspec.Struct, kw_only=True):
    """A worker's answer: its problem ("" for none); only the first worker's has the figures."""

    name: str
    backend: str = ""
    processes: int = 0
    problem: str = ""
    sizes: list[Bandwidth] = []


def bandwidth(size: int, seconds: float, world_size: int) -> Bandwidth:
    """Return the figures for ``size`` bytes summed over ``world_size`` processes in ``seconds``."""
    algorithm = size / seconds / 1e9
    return Bandwidth(
        bytes=size, seconds=seconds, algorithm_gb_s=algorithm, bus_gb_s=algorithm * 2 * (world_size - 1) / world_size
    )


def free_port(cluster: Cluster) -> int:
    """Return a port on which the first worker's processes can listen; call it on that worker."""
    with socket.socket() as probe:
        probe.bind((cluster.workers[0].ip, 0))
        return int(probe.getsockname()[1])


def tasks(cluster: Cluster, name: str, port: int, timeout_s: float) -> list[Task]:
    """Return the tasks of this worker's processes: one a GPU, or one where there are none."""
    counts = shape.counts(cluster)
    each = {worker.name: (counts[worker.name] or 0) if cluster.device == "cuda" else 1 for worker in cluster.workers}
    names = [name for name, count in each.items() for _ in range(count)]
    return [
        Task(
            names=names,
            rank=names.index(name) + local_rank,
            local_rank=local_rank,
            backend="nccl" if cluster.device == "cuda" else "gloo",
            address=cluster.host(names[0]).ip,
            port=port,
            timeout_s=timeout_s,
        )
        for local_rank in range(each[name])
    ]


def measure(cluster: Cluster, name: str, port: int, timeout_s: float) -> Outcome:
    """Run this worker's processes for at most ``timeout_s`` seconds; return the first problem, or the figures."""
    environment = os.environ | network.variables(cluster, cluster.host(name).ip, os.environ)
    children = [(task, *_start(task, environment)) for task in tasks(cluster, name, port, timeout_s)]
    deadline = time.monotonic() + timeout_s
    answers = [_answer(task, child, errors, deadline) for task, child, errors in children]
    return next((answer for answer in answers if answer.problem), answers[0] if answers else Outcome(name=name))


def _start(task: Task, environment: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], Any]:
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - read and closed when the process has ended
    child = subprocess.Popen(
        [sys.executable, "-m", "mvp_helpers.cluster.all_reduce"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=environment,
        preexec_fn=processes.die_with_parent,
    )
    assert child.stdin
    with contextlib.suppress(BrokenPipeError), child.stdin as stdin:
        stdin.write(msgspec.json.encode(task))
    child.stdin = None
    return child, errors


def _answer(task: Task, child: subprocess.Popen[bytes], errors: Any, deadline: float) -> Outcome:
    name = task.names[task.rank]
    try:
        out, _ = child.communicate(timeout=max(0.5, deadline - time.monotonic()))
        return msgspec.json.decode(out, type=Outcome)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return Outcome(name=name, problem=f"not done after {task.timeout_s:g} s")
    except msgspec.MsgspecError:
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
        how = signal.Signals(-child.returncode).name if child.returncode < 0 else f"exit code {child.returncode}"
        return Outcome(name=name, problem=f"its process ended with {how}" + (f": {lines[-1][:300]}" if lines else ""))
    finally:
        errors.close()


def take_part(task: Task) -> Outcome:
    """Run one process: meet the others, check the sum, time it."""
    outcome = Outcome(name=task.names[task.rank], backend=task.backend, processes=len(task.names))
    try:
        outcome.sizes = _timed(task, _meet(task, time.monotonic() + task.timeout_s * JOIN_SHARE))
    except (OSError, RuntimeError) as error:  # torch raises RuntimeError
        lines = str(error).strip().splitlines() or [type(error).__name__]
        outcome.problem = " … ".join(dict.fromkeys((lines[0][:200], lines[-1][:200])))  # NCCL gives the reason in its last line
    return outcome


def _meet(task: Task, deadline: float) -> Any:
    """Return the store that all processes share. Raises OSError with the missing workers, or the unreachable address."""
    from torch.distributed import TCPStore

    first, here = task.rank == 0, f"{task.address}:{task.port}"
    if not first:
        _wait_for_listener(task, deadline)

    def left() -> dt.timedelta:
        return dt.timedelta(seconds=max(0.1, deadline - time.monotonic()))

    world = len(task.names)
    store = TCPStore(task.address, task.port, world, first, timeout=left(), wait_for_workers=False)
    store.set(f"came/{task.rank}", "")
    if first:
        missing = []
        for rank, name in enumerate(task.names):
            try:
                store.wait([f"came/{rank}"], left())
            except RuntimeError:
                missing.append(name)
        store.set("missing", ", ".join(dict.fromkeys(missing)))
    # The first process answers at the deadline.
    store.wait(["missing"], left() + dt.timedelta(seconds=5))
    if absent := store.get("missing").decode():
        raise OSError(f"{absent} did not join at {here} in time")
    return store


def _wait_for_listener(task: Task, deadline: float) -> None:
    while True:
        try:
            socket.create_connection((task.address, task.port), timeout=max(1.0, deadline - time.monotonic())).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                why = error.strerror or "no answer"
                raise OSError(f"cannot reach {task.names[0]} at {task.address}:{task.port}: {why}") from None
            time.sleep(0.2)


def _timed(task: Task, store: Any) -> list[Bandwidth]:
    import torch
    import torch.distributed as dist

    world = len(task.names)
    device = torch.device("cuda", task.local_rank) if task.backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    patience = dt.timedelta(seconds=task.timeout_s)
    dist.init_process_group(task.backend, store=store, rank=task.rank, world_size=world, timeout=patience)

    def slowest(seconds: float) -> float:
        shared = torch.tensor([seconds], dtype=torch.float64, device=device)
        dist.all_reduce(shared, dist.ReduceOp.MAX)
        return float(shared.item())

    def seconds_of(tensor: Any, times: int) -> float:
        dist.barrier()
        began = time.perf_counter()
        for _ in range(times):
            dist.all_reduce(tensor)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return slowest((time.perf_counter() - began) / times)

    figures = []
    try:
        for size in SIZES[task.backend]:
            tensor = torch.full((size // 4,), float(task.rank + 1), device=device)
            dist.all_reduce(tensor)
            expected = world * (world + 1) / 2
            if not bool((tensor == expected).all()):
                raise RuntimeError(
                    f"the sum over all processes is wrong: {tensor[tensor != expected][0]:g} instead of {expected:g}"
                )
            tensor.zero_()
            once = seconds_of(tensor, WARM_UP)
            times = max(1, min(MOST_TIMES, int(SECONDS_EACH / once)))
            figures.append(bandwidth(size, seconds_of(tensor, times), world))
        dist.barrier()
    finally:
        dist.destroy_process_group()
    # The first process serves the store, so it exits last.
    store.add("done", 1)
    while task.rank == 0 and store.add("done", 0) < world:
        time.sleep(0.02)
    return figures if task.rank == 0 else []


if __name__ == "__main__":
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    out = os.dup(1)
    os.dup2(2, 1)  # libraries that print must not corrupt the answer
    # The parent kills it at the time-out; the alarm is for a parent that hangs.
    signal.alarm(int(task.timeout_s) + 10)
    os.write(out, msgspec.json.encode(take_part(task)))
    os._exit(0)  # without waiting for libraries' threads
