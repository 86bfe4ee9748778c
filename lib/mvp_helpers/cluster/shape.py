"""How many GPUs each worker has, and the shape of a training on them: how many nodes, with how many processes each.

With ``num_gpus: auto`` a worker's GPUs are counted on its own host (by 00 and 01) and recorded under the shared root, where the
head reads them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ..base import files
from ..base.paths import SharedRoot
from ..base.times import now
from . import gpus
from .cluster_file import AUTO, Cluster
from .gpus import GpuFacts
from .host_kinds import Host

ASSUMED_GPUS = 4
"""GPUs of each worker, for the plan of a cluster whose GPUs nobody has counted yet: eight on two workers."""
MOST_NAMES = 4

Counts = Mapping[str, int | None]
"""GPUs by worker; None where they are unknown."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """``gpus.json``: the GPUs that a worker was found with."""

    count: int
    models: str = ""
    problem: str = ""
    """Why nvidia-smi listed none."""
    found_at: str = ""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes and trainer processes on each; both 0 where nothing can train. ``reason`` is one line for a person."""

    nnodes: int
    processes: int
    reason: str


def find(cluster: Cluster, host: Host, environment: Mapping[str, str]) -> Found:
    """Return the GPUs that the Ray node of this host offers, when it is started in ``environment``; record what was counted.

    A number in the cluster file is not checked here: 00 does that.
    """
    declared = 0 if host.role == "head" else _declared(cluster)
    return record(cluster, host.name, gpus.cards(environment)) if declared is None else Found(count=declared)


def record(cluster: Cluster, name: str, facts: GpuFacts) -> Found:
    """Record the GPUs that worker ``name`` was found with. Raises OSError."""
    path, visible = _file(cluster, name), facts.visible
    path.parent.mkdir(parents=True, exist_ok=True)
    found = Found(count=len(visible), models=gpus.models(visible), problem=facts.problem, found_at=now())
    files.write_json(path, msgspec.to_builtins(found))
    return found


def counts(cluster: Cluster) -> Counts:
    """Return the GPUs of each worker: from the cluster file, or as they were counted last."""
    declared = _declared(cluster)
    return {worker.name: _recorded(cluster, worker.name) if declared is None else declared for worker in cluster.workers}


def _declared(cluster: Cluster) -> int | None:
    """Return the cluster file's number for each worker; None when every worker's GPUs are counted."""
    number = cluster.worker.num_gpus
    if number != AUTO:
        return number
    return None if cluster.device == "cuda" else 0


def _recorded(cluster: Cluster, name: str) -> int | None:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_file(cluster, name).read_bytes(), type=Found).count
    return None


def _file(cluster: Cluster, name: str) -> Path:
    return SharedRoot(Path(cluster.shared_root)).gpus(cluster.name, name)


def choose(cluster: Cluster, counted: Counts) -> Shape:
    """Return the shape that uses the most GPUs, with the same number of processes on every node, as verl needs it.

    ``worker.trainer_processes`` fixes that number. Of two shapes with as many processes, the one on fewer nodes is chosen.
    """
    fixed = cluster.worker.trainer_processes
    if cluster.device == "cpu":
        nodes, each = len(cluster.workers), 1 if fixed == AUTO else fixed
        return Shape(nnodes=nodes, processes=each, reason=f"{_size(nodes, each)} on CPUs")
    known = {name: count for name, count in counted.items() if count is not None}
    unknown = [name for name in counted if name not in known]
    assumed = dict.fromkeys(unknown, min(filter(None, known.values()), default=ASSUMED_GPUS))
    each_has = {name: {**known, **assumed}[name] for name in counted}
    sizes = {count for count in each_has.values() if count} if fixed == AUTO else {fixed}
    shapes = [(processes * nodes, processes, nodes) for processes in sizes if (nodes := _having(each_has, processes))]
    _, processes, nodes = max(shapes, default=(0, 0, 0))
    return Shape(nnodes=nodes, processes=processes, reason=_reason(nodes, processes, fixed, each_has, unknown))


def in_use(chosen: Shape, nodes: int, processes: int) -> str:
    """Return the reason for so many nodes and processes, which the user's overrides may have changed."""
    if (nodes, processes) == (chosen.nnodes, chosen.processes):
        return chosen.reason
    return f"{_size(nodes, processes)}, by trainer_overrides; without them: {chosen.reason}"


def _having(each_has: Mapping[str, int], least: int) -> int:
    return sum(count >= least for count in each_has.values())


def _reason(nodes: int, processes: int, fixed: int | str, each_has: Mapping[str, int], unknown: Sequence[str]) -> str:
    have = "; ".join(
        f"{_names([name for name, count in each_has.items() if count == size])}: {_plural(size, 'GPU')}"
        for size in sorted(set(each_has.values()), reverse=True)
    )
    if not nodes:
        wanted = "a GPU" if fixed == AUTO else f"the {fixed} GPUs of worker.trainer_processes"
        return f"no worker has {wanted} ({have})"
    left = sum(each_has.values()) - nodes * processes
    why = f", so {_plural(left, 'GPU')} {'is' if left == 1 else 'are'} left over: verl needs the same number on every node"
    guess = "; assumed, because 00_prereq_check.sh or 01_up.sh has not counted them yet" if unknown else ""
    return f"{_size(nodes, processes)} ({have}{why if left else ''}{guess})"


def _size(nodes: int, processes: int) -> str:
    return f"{_plural(nodes, 'node')} with {_plural(processes, 'process', 'processes')}{' each' if nodes > 1 else ''}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} workers"


def _plural(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def shares(ids: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """Divide the GPUs of one machine among its workers, as comma-separated ids; ``void`` (of NVIDIA's runtime) for none.

    ``chosen`` are the ids that the user gave to each worker, "" for none given: the other workers get the remaining ids in order,
    the first ones one more where the number does not divide.
    """
    taken = {part for words in chosen for part in words.split(",")}
    left = [number for number in ids if number not in taken]
    open_workers = [at for at, words in enumerate(chosen) if not words]
    result = list(chosen)
    for turn, at in enumerate(open_workers):
        size, extra = divmod(len(left), len(open_workers))
        begin = turn * size + min(turn, extra)
        result[at] = ",".join(left[begin : begin + size + (turn < extra)]) or "void"
    return result
