"""What a cluster can never run is refused before Ray is asked to wait for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from toys import plan_of

from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.cluster.ray_api import Node
from mvp_helpers.plan import feasibility
from mvp_helpers.plan.plan import Plan


def node(name: str, *, head: bool = False, alive: bool = True, **resources: float) -> Node:
    return Node(node_id=name, ip=name, alive=alive, is_head=head, resources=resources)


HEAD = node("head", head=True)
WORKERS = [node("w0", CPU=8, worker_node=100), node("w1", CPU=8, worker_node=100)]


def job(**fields: Any) -> Plan:
    return msgspec.structs.replace(plan_of("job1"), **fields)


def test_a_job_that_fits_passes() -> None:
    feasibility.check(job(nnodes=2, processes_per_node=8), [HEAD, *WORKERS])


def test_two_nodes_may_share_a_large_worker() -> None:
    feasibility.check(job(nnodes=2, processes_per_node=4), [HEAD, WORKERS[0]])


def test_gpus_without_the_cpus_that_verl_requests_with_them_do_not_count() -> None:
    workers = [node("w0", CPU=20, GPU=4, worker_node=100), node("w1", CPU=40, GPU=4, worker_node=100)]
    four_gpus = job(device="cuda", nnodes=1, processes_per_node=4, cpus_per_process=10)
    feasibility.check(four_gpus, [HEAD, *workers])
    with pytest.raises(BadInput, match=r"40 CPU, 4 GPU on each node\); .* room for 1 such nodes .*has 40 CPU, 4 GPU"):
        feasibility.check(msgspec.structs.replace(four_gpus, nnodes=2), [HEAD, *workers])


@pytest.mark.parametrize(
    "nodes", [[], [HEAD], [HEAD, node("w0", alive=False, CPU=8, worker_node=100)], [HEAD, node("w0", CPU=8)]]
)
def test_without_a_worker_that_takes_the_driver_it_is_blocked(nodes: list[Node]) -> None:
    with pytest.raises(Blocked, match="no worker is alive that can run the driver"):
        feasibility.check(job(), nodes)


def test_a_head_that_could_take_the_driver_blocks() -> None:
    with pytest.raises(Blocked, match="the head has the resources"):
        feasibility.check(job(), [node("head", head=True, CPU=8, worker_node=1), *WORKERS])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nnodes": 3, "processes_per_node": 8}, "needs 3 nodes with 8 processes each .* have room for 2"),
        ({"nnodes": 1, "processes_per_node": 9}, "the largest worker has 8 CPU"),
        ({"entrypoint_num_cpus": 9}, "the driver requests 9 CPUs; the largest worker has 8"),
        ({"device": "cuda", "nnodes": 1, "processes_per_node": 1}, "have room for 0 such nodes .* 0 GPU"),
        ({"nnodes": 2, "processes_per_node": 1, "cpus_per_process": 10}, r"\(10 CPU on each node\); .* room for 0 such nodes"),
    ],
)
def test_the_missing_resource_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        feasibility.check(job(**fields), [HEAD, *WORKERS])
