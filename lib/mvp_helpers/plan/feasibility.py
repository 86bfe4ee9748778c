"""Can this cluster ever run this plan? Ray would wait in silence for what never comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base.errors import BadInput, Blocked
from ..cluster.ray_api import Node
from .plan import Plan


def check(plan: Plan, nodes: Sequence[Node]) -> None:
    """Compare what the plan asks for with what the alive nodes offer in total.

    Raises:
        Blocked: no worker is alive, or the head would take the driver.
        BadInput: the job asks for more nodes or processes than the cluster has; says what is missing.
    """
    alive = [node for node in nodes if node.alive]
    fitting = [node for node in alive if not node.is_head and _fits(node, plan.entrypoint_resources)]
    if not fitting:
        asked = ", ".join(f"{name}={amount:g}" for name, amount in plan.entrypoint_resources.items()) or "nothing"
        workers = sum(not node.is_head for node in alive)
        raise Blocked(
            f"no worker is alive that can take the driver (it asks for {asked}; {workers} workers and "
            f"{len(alive) - workers} heads are alive)",
            hint="./scripts/50_status.sh shows the nodes, ./scripts/01_up.sh repairs the cluster",
        )
    if any(
        node.is_head and _fits(node, plan.entrypoint_resources) and node.total("CPU") >= plan.entrypoint_num_cpus
        for node in alive
    ):
        raise Blocked(
            "the head offers what the driver asks for, so the driver could land on it", hint="start the head without CPUs"
        )
    if max(node.total("CPU") for node in fitting) < plan.entrypoint_num_cpus:
        raise BadInput(
            f"the driver asks for {plan.entrypoint_num_cpus:g} CPUs; the largest worker has {_largest(fitting, 'CPU'):g}"
        )
    per_node = plan.processes_per_node
    needs = {"CPU": per_node * plan.cpus_per_process} | ({"GPU": per_node} if plan.device == "cuda" else {})
    room = sum(min(int(node.total(unit)) // amount for unit, amount in needs.items()) for node in alive if not node.is_head)
    if room < plan.nnodes:
        raise BadInput(
            f"the job asks for {plan.nnodes} nodes with {per_node} processes each ({_amounts(needs)} on each node); "
            f"the cluster's {len(fitting)} workers have room for {room} such nodes "
            f"(the largest worker has {_amounts({unit: _largest(fitting, unit) for unit in needs})})",
            hint="change trainer.nnodes or trainer.n_gpus_per_node in trainer_overrides, or choose a larger cluster",
        )


def _fits(node: Node, resources: dict[str, int | float]) -> bool:
    return all(node.total(name) >= amount for name, amount in resources.items())


def _largest(nodes: Sequence[Node], unit: str) -> float:
    return max(node.total(unit) for node in nodes)


def _amounts(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{amount:g} {unit}" for unit, amount in amounts.items())
