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
from mvp_helpers.trainers import verl_actors
from mvp_helpers.trainers.verl_actors import Actors, Pool, Starts


def node(name: str, *, head: bool = False, alive: bool = True, **resources: float) -> Node:
    return Node(node_id=name, ip=name, alive=alive, is_head=head, resources=resources)


HEAD = node("head", head=True)
WORKERS = [node("w0", CPU=8, worker_node=100), node("w1", CPU=8, worker_node=100)]


def job(**fields: Any) -> Plan:
    return msgspec.structs.replace(plan_of("job1"), **fields)


def test_a_job_that_fits_beside_its_driver_passes_and_one_more_process_is_refused() -> None:
    feasibility.check(job(nnodes=2, processes_per_node=7), [HEAD, *WORKERS])
    with pytest.raises(BadInput, match=r"and 1 CPU for the driver; .* have room for 1 such nodes") as refused:
        feasibility.check(job(nnodes=2, processes_per_node=8), [HEAD, *WORKERS])
    assert "trainer.n_gpus_per_node=7 instead of 8" in refused.value.hint


def test_two_nodes_may_share_a_large_worker() -> None:
    feasibility.check(job(nnodes=2, processes_per_node=3), [HEAD, WORKERS[0]])


def test_gpus_without_the_cpus_that_verl_requests_with_them_do_not_count() -> None:
    workers = [node("w0", CPU=21, GPU=4, worker_node=100), node("w1", CPU=40, GPU=4, worker_node=100)]
    four_gpus = job(device="cuda", nnodes=1, processes_per_node=4, cpus_per_process=10)
    feasibility.check(four_gpus, [HEAD, *workers])
    with pytest.raises(BadInput, match=r"40 CPU, 4 GPU on each node\), .* room for 1 such nodes .*has 40 CPU, 4 GPU"):
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
        ({"nnodes": 3, "processes_per_node": 8}, "needs 3 nodes with 8 processes each .* have room for 1 such"),
        ({"nnodes": 1, "processes_per_node": 9}, "the largest worker has 8 CPU"),
        ({"entrypoint_num_cpus": 9}, "the driver requests 9 CPUs; the largest worker has 8"),
        ({"device": "cuda", "nnodes": 1, "processes_per_node": 1}, "have room for 0 such nodes .* 0 GPU"),
        ({"nnodes": 2, "processes_per_node": 1, "cpus_per_process": 10}, r"\(10 CPU on each node\), .* room for 0 such nodes"),
    ],
)
def test_the_missing_resource_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        feasibility.check(job(**fields), [HEAD, *WORKERS])


# -- what verl starts beside its training processes

CONFIG: dict[str, Any] = {
    "trainer": {"use_v1": True, "nnodes": 1, "n_gpus_per_node": 4},
    "actor_rollout_ref": {"rollout": {"name": "vllm", "tensor_model_parallel_size": 2, "agent": {"num_workers": 8}}},
    "reward": {"num_workers": 3, "reward_manager": {"name": "naive"}},
    "transfer_queue": {"backend": {"storage_backend": "SimpleStorage", "SimpleStorage": {"num_data_storage_units": 8}}},
}


def with_values(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """``config`` with values at dotted keys, dots written as double underscores."""
    changed: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(config))
    for key, value in changes.items():
        *parents, last = key.split("__")
        place = changed
        for part in parents:
            place = place.setdefault(part, {})
        place[last] = value
    return changed


def held(starts: Starts) -> dict[str, tuple[int, int]]:
    return {actors.what: (actors.count, actors.cpus) for actors in starts.actors}


def test_every_actor_of_verls_trainer_is_counted() -> None:
    assert held(verl_actors.starts(CONFIG, 3)) == {
        "task runner": (1, 0),
        "TransferQueue controller": (1, 1),
        "TransferQueue storage units": (8, 1),
        "vllm servers": (2, 0),
        "reward workers": (3, 0),
        "agent-loop workers": (8, 0),
    }
    remote = verl_actors.starts(with_values(CONFIG, reward__reward_manager__name="remote"), 3)
    assert held(remote)["remote reward workers"] == (9, 1)
    plugin = verl_actors.starts(with_values(CONFIG, actor_rollout_ref__rollout__name="hf"), 3)
    assert "hf servers" not in held(plugin), "the plugin's server asks for no CPU"
    older = verl_actors.starts(with_values(CONFIG, trainer__use_v1=False), 3)
    assert "TransferQueue controller" not in held(older)
    assert verl_actors.starts({"trainer": {"nnodes": 2}}, 10) == Starts(), "SFT starts its training processes only"


def test_pools_of_their_own_are_counted() -> None:
    reward = with_values(CONFIG, reward__reward_model={"enable_resource_pool": True, "nnodes": 1, "n_gpus_per_node": 2})
    assert verl_actors.starts(reward, 3).pools == [Pool(what="reward model", groups=1, processes=2, cpus=3)]
    apart = with_values(
        CONFIG,
        trainer__v1={"trainer_mode": "separate_async"},
        actor_rollout_ref__rollout__nnodes=1,
        actor_rollout_ref__rollout__n_gpus_per_node=4,
    )
    assert verl_actors.starts(apart, 3).pools == [Pool(what="rollout", groups=2, processes=2, cpus=2)]


QUEUE = [
    Actors(what="TransferQueue controller", number=1, cpus=1),
    Actors(what="TransferQueue storage units", number=8, cpus=1, place="on the workers in turn", key=verl_actors.STORAGE_UNITS),
]
TASK_RUNNER = Actors(what="task runner", number=1)


def one_gpu_job(*actors: Actors, **fields: Any) -> Plan:
    return job(device="cuda", nnodes=1, processes_per_node=1, cpus_per_process=3, starts=Starts(actors=[*actors]), **fields)


def gpu_worker(name: str, cpus: float, gpus: float = 1) -> Node:
    return node(name, CPU=cpus, GPU=gpus, worker_node=100)


def test_the_storage_units_of_the_queue_count_and_the_advice_lowers_their_number() -> None:
    feasibility.check(one_gpu_job(*QUEUE), [HEAD, gpu_worker("w0", 13)])
    with pytest.raises(BadInput, match=r"1 for 1 TransferQueue controller, 8 for 8 TransferQueue storage units") as refused:
        feasibility.check(one_gpu_job(*QUEUE), [HEAD, gpu_worker("w0", 9)])
    assert f"{verl_actors.STORAGE_UNITS}=4 instead of 8" in refused.value.hint
    feasibility.check(one_gpu_job(QUEUE[0], msgspec.structs.replace(QUEUE[1], number=4)), [HEAD, gpu_worker("w0", 9)])


def test_an_actor_that_holds_no_cpu_still_needs_a_free_one_to_start() -> None:
    feasibility.check(one_gpu_job(TASK_RUNNER), [HEAD, gpu_worker("w0", 5)])
    with pytest.raises(BadInput, match="then have 0 CPU left, of 1 that the other actors need"):
        feasibility.check(one_gpu_job(TASK_RUNNER), [HEAD, gpu_worker("w0", 4)])


def test_a_rollout_server_needs_a_free_cpu_on_the_node_of_its_trainers() -> None:
    servers = Actors(what="vllm servers", number=1, place="with the trainers")
    workers = [gpu_worker("w0", 3), gpu_worker("w1", 20, gpus=0)]
    feasibility.check(one_gpu_job(TASK_RUNNER), [HEAD, *workers])
    with pytest.raises(BadInput, match="have room for 0 such nodes"):
        feasibility.check(one_gpu_job(TASK_RUNNER, servers), [HEAD, *workers])


def test_the_driver_may_be_where_it_leaves_room_for_the_training() -> None:
    workers = [gpu_worker("w0", 3), gpu_worker("w1", 1, gpus=0)]
    feasibility.check(one_gpu_job(), [HEAD, *workers])


def test_units_are_placed_on_the_workers_in_the_order_of_their_node_ids() -> None:
    two_units = msgspec.structs.replace(QUEUE[1], number=2)
    with pytest.raises(BadInput, match="room for 0 such nodes"):
        feasibility.check(one_gpu_job(two_units), [HEAD, gpu_worker("w1", 3), gpu_worker("w0", 20, gpus=0)])
    one_unit = msgspec.structs.replace(QUEUE[1], number=1)
    feasibility.check(one_gpu_job(one_unit), [HEAD, gpu_worker("w1", 3), gpu_worker("w0", 20, gpus=0)])


def test_a_second_pool_of_gpus_needs_room_beside_the_training() -> None:
    plan = one_gpu_job()
    pool = Pool(what="teacher", groups=1, processes=2, cpus=3)
    plan = msgspec.structs.replace(plan, starts=Starts(pools=[pool]))
    feasibility.check(plan, [HEAD, gpu_worker("w0", 10, gpus=3)])
    with pytest.raises(BadInput, match="cannot hold the training"):
        feasibility.check(plan, [HEAD, gpu_worker("w0", 10, gpus=2)])
