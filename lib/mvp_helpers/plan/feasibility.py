"""Check that the cluster can ever run a plan: Ray would wait silently for resources that it will never have.

Counted is every process and actor that the trainer will start, with the CPUs that it holds and the nodes where Ray may place it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ..base.errors import BadInput, Blocked
from ..cluster.ray_api import Node
from ..trainers import verl_config
from ..trainers.verl_actors import Pool
from .plan import Plan


class DoesNotFit(BadInput):
    """The nodes that are alive have no room for the job, however long it waits."""


def check(plan: Plan, nodes: Sequence[Node]) -> None:
    """Compare what the plan requests with the total resources of the nodes that are alive.

    Raises:
        Blocked: no worker is alive, or the driver could be placed on the head.
        DoesNotFit: the cluster has no room for all processes of the job; names the missing resources and the number to lower.
    """
    alive = [node for node in nodes if node.alive]
    fitting = [node for node in alive if not node.is_head and _offers(node, plan.entrypoint_resources)]
    if not fitting:
        requested = ", ".join(f"{name}={amount:g}" for name, amount in plan.entrypoint_resources.items()) or "nothing"
        workers = sum(not node.is_head for node in alive)
        raise Blocked(
            f"no worker is alive that can run the driver (it requests {requested}; {workers} workers and "
            f"{len(alive) - workers} heads are alive)",
            hint="./scripts/50_status.sh shows the nodes, ./scripts/01_up.sh repairs the cluster",
        )
    if any(
        node.is_head and _offers(node, plan.entrypoint_resources) and node.total("CPU") >= plan.entrypoint_num_cpus
        for node in alive
    ):
        raise Blocked(
            "the head has the resources that the driver requests, so Ray could place the driver there",
            hint="start the head without CPUs: ./scripts/02_down.sh, then ./scripts/01_up.sh",
        )
    if max(node.total("CPU") for node in fitting) < plan.entrypoint_num_cpus:
        raise DoesNotFit(
            f"the driver requests {plan.entrypoint_num_cpus:g} CPUs; the largest worker has {_largest(fitting, 'CPU'):g}",
            hint="change resources.entrypoint_num_cpus in the JobSpec, or choose a larger cluster",
        )
    workers_alive = sorted((node for node in alive if not node.is_head), key=lambda node: node.node_id)
    if problem := shortage(plan, workers_alive):
        raise DoesNotFit(problem, hint=_advice(plan, workers_alive))


def shortage(plan: Plan, workers: Sequence[Node]) -> str:
    """Return why these workers (by node id) cannot run the plan wherever Ray places the driver; "" when they can."""
    problems = [_problem(plan, workers, at) for at, node in enumerate(workers) if _takes_driver(plan, node)]
    if not problems or "" in problems:
        return ""
    needs = f"the job needs {_pool(plan, _training(plan))}"
    others = [
        f"{plan.entrypoint_num_cpus:g} CPU for the driver",
        *(f"{actors.count * actors.cpus} for {actors.count} {actors.what}" for actors in plan.starts.actors if actors.cpus),
        *(f"{_pool(plan, pool)} for the {pool.what}" for pool in plan.starts.pools),
    ]
    units = ["CPU", "GPU"] if plan.device == "cuda" else ["CPU"]
    largest = _amounts({unit: _largest(workers, unit) for unit in units})
    fewest = min(problems, key=len)
    return f"{needs}, and {', '.join(others)}; the cluster's {len(workers)} workers {fewest} (the largest worker has {largest})"


def _problem(plan: Plan, workers: Sequence[Node], driver_at: int) -> str:
    """Return what does not fit when the driver runs on that worker; "" when everything fits."""
    cpus = [node.total("CPU") for node in workers]
    gpus = [node.total("GPU") for node in workers]
    cpus[driver_at] -= plan.entrypoint_num_cpus
    for actors in plan.starts.actors:
        if actors.place == "on the workers in turn":
            for number in range(actors.count):
                cpus[number % len(workers)] -= actors.cpus
    if min(cpus) < 0:
        return "have no CPU for each of the actors that are placed on the workers in turn"
    servers = any(actors.place == "with the trainers" for actors in plan.starts.actors)
    pools = [_training(plan), *plan.starts.pools]
    for pool in sorted(pools, key=lambda pool: pool.processes, reverse=True):
        room = _place(pool, cpus, gpus if plan.device == "cuda" else None, spare=1 if servers else 0)
        if room < pool.groups:
            return f"have room for {room} such nodes beside the rest" if len(pools) == 1 else f"cannot hold the {pool.what}"
    # Each of the rest holds this many CPUs on any worker; an actor that holds none still needs a free one to start.
    held = sum(actors.count * actors.cpus for actors in plan.starts.actors if actors.place == "anywhere")
    least = held + (1 if any(not actors.cpus for actors in plan.starts.actors) else 0)
    free = sum(int(amount) for amount in cpus)
    return "" if free >= least else f"then have {free} CPU left, of {least} that the other actors need"


def _place(pool: Pool, cpus: list[float], gpus: list[float] | None, *, spare: int) -> int:
    """Take the groups of ``pool`` from the nodes, leaving ``spare`` CPUs on each that is used; return how many fit."""
    placed = 0
    for at, free in enumerate(cpus):
        limits = [int(free - spare) // (pool.processes * pool.cpus)]
        if gpus is not None:
            limits.append(int(gpus[at]) // pool.processes)
        groups = min(max(0, min(limits)), pool.groups - placed)
        cpus[at] -= groups * pool.processes * pool.cpus
        if gpus is not None:
            gpus[at] -= groups * pool.processes
        placed += groups
    return placed


def _advice(plan: Plan, workers: Sequence[Node]) -> str:
    """Return which number of the plan to lower, and to what: the first one that suffices alone."""
    for key, old, value, smaller in _smaller(plan):
        if not shortage(smaller, workers):
            return f"trainer_overrides: {key}={value} instead of {old}, or a larger worker.num_cpus in the cluster file"
    return f"trainer_overrides: fewer {verl_config.NNODES} or {verl_config.PROCESSES_PER_NODE}, or choose a larger cluster"


def _smaller(plan: Plan) -> Iterator[tuple[str, int, int, Plan]]:
    """Yield plans with one smaller number: what costs the least first, from the largest value down."""
    for at, actors in enumerate(plan.starts.actors):
        if actors.key and actors.cpus:
            for value in range(actors.number - 1, 0, -1):
                changed = [*plan.starts.actors]
                changed[at] = msgspec.structs.replace(actors, number=value)
                starts = msgspec.structs.replace(plan.starts, actors=changed)
                yield actors.key, actors.number, value, msgspec.structs.replace(plan, starts=starts)
    for key, field in ((verl_config.PROCESSES_PER_NODE, "processes_per_node"), (verl_config.NNODES, "nnodes")):
        old: int = getattr(plan, field)
        for value in range(old - 1, 0, -1):
            yield key, old, value, msgspec.structs.replace(plan, **{field: value})


def _training(plan: Plan) -> Pool:
    return Pool(what="training", groups=plan.nnodes, processes=plan.processes_per_node, cpus=plan.cpus_per_process)


def _takes_driver(plan: Plan, node: Node) -> bool:
    return _offers(node, plan.entrypoint_resources) and node.total("CPU") >= plan.entrypoint_num_cpus


def _offers(node: Node, resources: Mapping[str, int | float]) -> bool:
    return all(node.total(name) >= amount for name, amount in resources.items())


def _largest(nodes: Sequence[Node], unit: str) -> float:
    return max(node.total(unit) for node in nodes)


def _pool(plan: Plan, pool: Pool) -> str:
    each = {"CPU": pool.processes * pool.cpus} | ({"GPU": pool.processes} if plan.device == "cuda" else {})
    return f"{pool.groups} nodes with {pool.processes} processes each ({_amounts(each)} on each node)"


def _amounts(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{amount:g} {unit}" for unit, amount in amounts.items())
