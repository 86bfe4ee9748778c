"""Check that the cluster can ever run a plan: Ray would wait silently for resources that it will never have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base.errors import BadInput, Blocked
from ..cluster.ray_api import Node
from ..trainers import verl_config
from .plan import Plan


class DoesNotFit(BadInput):
    """The nodes that are alive have no room for the job, however long it waits."""


def check(plan: Plan, nodes: Sequence[Node]) -> None:
    """Compare what the plan requests with the total resources of the nodes that are alive.

    Raises:
        Blocked: no worker is alive, or the driver could be placed on the head.
        DoesNotFit: the job needs more nodes or processes than the cluster has room for; names what is missing.
    """
    alive = [node for node in nodes if node.alive]
    fitting = [node for node in alive if not node.is_head and _fits(node, plan.entrypoint_resources)]
    if not fitting:
        requested = ", ".join(f"{name}={amount:g}" for name, amount in plan.entrypoint_resources.items()) or "nothing"
        workers = sum(not node.is_head for node in alive)
        raise Blocked(
            f"no worker is alive that can run the driver (it requests {requested}; {workers} workers and "
            f"{len(alive) - workers} heads are alive)",
            hint="./scripts/50_status.sh shows the nodes, ./scripts/01_up.sh repairs the cluster",
        )
    if any(
        node.is_head and _fits(node, plan.entrypoint_resources) and node.total("CPU") >= plan.entrypoint_num_cpus
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
    per_node = plan.processes_per_node
    needs = {"CPU": per_node * plan.cpus_per_process} | ({"GPU": per_node} if plan.device == "cuda" else {})
    room = sum(min(int(node.total(unit)) // amount for unit, amount in needs.items()) for node in alive if not node.is_head)
    if room < plan.nnodes:
        raise DoesNotFit(
            f"the job needs {plan.nnodes} nodes with {per_node} processes each ({_amounts(needs)} on each node); "
            f"the cluster's {len(fitting)} workers have room for {room} such nodes "
            f"(the largest worker has {_amounts({unit: _largest(fitting, unit) for unit in needs})})",
            hint=f"trainer_overrides: fewer {verl_config.NNODES} or {verl_config.PROCESSES_PER_NODE}, or choose a larger cluster",
        )


def _fits(node: Node, resources: dict[str, int | float]) -> bool:
    return all(node.total(name) >= amount for name, amount in resources.items())


def _largest(nodes: Sequence[Node], unit: str) -> float:
    return max(node.total(unit) for node in nodes)


def _amounts(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{amount:g} {unit}" for unit, amount in amounts.items())
