"""How many GPUs each worker has, what is recorded of them, and the shape of a training on them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.cluster import all_reduce, prereq, ray_node, shape
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.cluster.gpus import Gpu, GpuFacts
from mvp_helpers.cluster.prereq import Facts
from mvp_helpers.cluster.ray_api import Node

DOUBLES = Path(__file__).parents[2] / "doubles"


def cards(count: int, host: int = 0) -> GpuFacts:
    gpus = [Gpu(str(index), f"GPU-{host}{index}", "NVIDIA L4", "23034 MiB") for index in range(count)]
    return GpuFacts(gpus=gpus, torch_count=count) if count else GpuFacts(problem="nvidia-smi not found on this host")


@pytest.fixture
def auto(cluster: Cluster, replace: Callable[..., Any]) -> Cluster:
    """Two workers with GPUs that nobody has counted yet."""
    return replace(cluster, device="cuda", worker=replace(cluster.worker, num_gpus="auto", trainer_processes="auto"))  # type: ignore[no-any-return]


def test_gpus_are_counted_as_the_ray_node_will_see_them_and_recorded(
    auto: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(DOUBLES / "recorded" / "nvidia-smi-h200", tmp_path / "recorded")
    monkeypatch.setenv("NVIDIA_SMI", str(tmp_path / "recorded"))
    monkeypatch.setenv("NVIDIA_SMI_UNEXPECTED", str(tmp_path / "unexpected"))
    monkeypatch.setenv("PATH", f"{DOUBLES / 'bin'}:{os.environ['PATH']}")
    assert shape.counts(auto) == {"worker-0": None, "worker-1": None}
    found = shape.find(auto, auto.workers[0], {"CUDA_VISIBLE_DEVICES": "1,2,3"})
    assert (found.count, found.models) == (3, "3 × NVIDIA H200, 143771 MiB")
    assert shape.find(auto, auto.head, {}).count == 0
    monkeypatch.setenv("PATH", "/nonexistent")
    assert shape.find(auto, auto.workers[1], {}).problem == "nvidia-smi not found on this host"
    assert shape.counts(auto) == {"worker-0": 3, "worker-1": 0}
    assert not (tmp_path / "unexpected").exists()


def test_a_number_in_the_cluster_file_is_taken_as_it_is(auto: Cluster, replace: Callable[..., Any]) -> None:
    declared = replace(auto, worker=replace(auto.worker, num_gpus=2))
    assert shape.find(declared, declared.workers[0], {}).count == 2
    assert shape.counts(declared) == {"worker-0": 2, "worker-1": 2}
    assert not SharedRoot(Path(declared.shared_root)).gpus("local", "worker-0").exists()
    assert shape.counts(replace(auto, device="cpu")) == {"worker-0": 0, "worker-1": 0}


@pytest.mark.parametrize(
    ("counted", "nnodes", "processes", "reason"),
    [
        ((4, 4), 2, 4, "2 nodes with 4 processes each (worker-0, worker-1: 4 GPUs)"),
        ((1, 0), 1, 1, "1 node with 1 process (worker-0: 1 GPU; worker-1: 0 GPUs)"),
        (
            (8, 3),
            1,
            8,
            "1 node with 8 processes (worker-0: 8 GPUs; worker-1: 3 GPUs, so 3 GPUs are left over: verl needs the same number on "
            "every node)",
        ),
        ((3, 2), 2, 2, "2 nodes with 2 processes each (worker-0: 3 GPUs; worker-1: 2 GPUs, so 1 GPU is left over: "),
        ((4, 2), 1, 4, "1 node with 4 processes (worker-0: 4 GPUs; worker-1: 2 GPUs, so 2 GPUs are left over: "),
        ((None, None), 2, 4, "2 nodes with 4 processes each (worker-0, worker-1: 4 GPUs; assumed, because 00_prereq_check.sh or"),
        ((2, None), 2, 2, "2 nodes with 2 processes each (worker-0, worker-1: 2 GPUs; assumed, because "),
        ((0, 0), 0, 0, "no worker has a GPU (worker-0, worker-1: 0 GPUs)"),
    ],
)
def test_the_shape_uses_the_most_gpus_with_the_same_number_on_every_node(
    auto: Cluster, counted: tuple[int | None, int | None], nnodes: int, processes: int, reason: str
) -> None:
    chosen = shape.choose(auto, {"worker-0": counted[0], "worker-1": counted[1]})
    assert (chosen.nnodes, chosen.processes) == (nnodes, processes)
    assert chosen.reason.startswith(reason)


def test_the_cluster_file_can_fix_the_number_of_processes(auto: Cluster, replace: Callable[..., Any]) -> None:
    fixed = replace(auto, worker=replace(auto.worker, trainer_processes=2))
    assert shape.choose(fixed, {"worker-0": 8, "worker-1": 1}).reason.startswith("1 node with 2 processes (worker-0: 8 GPUs;")
    assert shape.choose(fixed, {"worker-0": 1, "worker-1": 1}).reason == (
        "no worker has the 2 GPUs of worker.trainer_processes (worker-0, worker-1: 1 GPU)"
    )
    on_cpus = shape.choose(replace(fixed, device="cpu"), {})
    assert (on_cpus.nnodes, on_cpus.processes, on_cpus.reason) == (2, 2, "2 nodes with 2 processes each on CPUs")


def test_many_workers_are_counted_instead_of_named(auto: Cluster) -> None:
    chosen = shape.choose(auto, {f"worker-{at}": 8 for at in range(128)})
    assert chosen.reason == "128 nodes with 8 processes each (128 workers: 8 GPUs)"


@pytest.mark.parametrize(
    ("ids", "chosen", "shares"),
    [
        ("01234567", ["", ""], ["0,1,2,3", "4,5,6,7"]),
        ("0123", ["", ""], ["0,1", "2,3"]),
        ("01", ["", ""], ["0", "1"]),
        ("0", ["", ""], ["0", "void"]),
        ("012", ["", ""], ["0,1", "2"]),
        ("0123", ["3", ""], ["3", "0,1,2"]),
        ("0123", ["", "0,1"], ["2,3", "0,1"]),
        ("0123", ["0", "1"], ["0", "1"]),
        ("01", ["0,1", ""], ["0,1", "void"]),
        ("0123456", ["", "", ""], ["0,1,2", "3,4", "5,6"]),
    ],
)
def test_the_gpus_of_one_machine_are_shared_by_its_workers(ids: str, chosen: list[str], shares: list[str]) -> None:
    assert shape.shares(list(ids), chosen) == shares


def test_a_node_that_offers_other_gpus_than_were_counted_is_missing_something(auto: Cluster) -> None:
    resources = {"CPU": float(auto.worker.num_cpus)} | auto.worker.resources
    nodes = [
        Node(node_id=host.name, ip=host.ip, alive=True, is_head=host.role == "head", resources=given)
        for host, given in zip(auto.hosts, ({}, resources | {"GPU": 2.0}, resources | {"GPU": 4.0}), strict=True)
    ]
    assert not ray_node.missing(auto, nodes), "nobody has counted: nothing is expected"
    for worker in auto.workers:
        shape.record(auto, worker.name, cards(4))
    assert ray_node.missing(auto, nodes) == ["worker-0 offers GPU 2 instead of 4"]


def test_every_gpu_takes_part_in_the_all_reduce_and_a_worker_without_any_does_not(auto: Cluster) -> None:
    shape.record(auto, "worker-0", cards(0))
    shape.record(auto, "worker-1", cards(2))
    assert all_reduce.measure(auto, "worker-0", 1, 1).problem == "" and not all_reduce.tasks(auto, "worker-0", 1, 1)
    tasks = all_reduce.tasks(auto, "worker-1", 1, 1)
    assert [(task.rank, task.local_rank, task.address) for task in tasks] == [(0, 0, "127.0.0.12"), (1, 1, "127.0.0.12")]
    sized = all_reduce.Outcome(name="worker-1", processes=2, sizes=[all_reduce.bandwidth(1 << 20, 0.1, 2)])
    assert prereq.all_reduce_check(auto, [all_reduce.Outcome(name="worker-0"), sized]).verdict == "Pass"


def rows(cluster: Cluster, *workers: GpuFacts) -> dict[str, tuple[str, str]]:
    facts = [Facts(name=f"worker-{at}", python="3.11.7", gpus=found) for at, found in enumerate(workers)]
    checks = prereq.decide(cluster, facts, [], {})
    return {
        check.name: (check.verdict, check.reason)
        for check in checks
        if any(word in check.name for word in ("GPU", "NVIDIA", prereq.SHAPE))
    }


def test_00_says_what_each_worker_has_and_what_a_training_uses(auto: Cluster) -> None:
    said = rows(auto, cards(2, host=0), cards(2, host=1))
    assert said["worker-0: GPUs (all visible wanted)"] == ("Pass", "2 × NVIDIA L4, 23034 MiB")
    assert said["worker-1: GPUs in torch"] == ("Pass", "torch sees 2")
    assert said[prereq.SHAPE] == ("Skipped", "2 nodes with 2 processes each (worker-0, worker-1: 2 GPUs)")
    uneven = rows(auto, cards(4, host=0), cards(2, host=1))[prereq.SHAPE]
    assert uneven[0] == "Skipped" and "2 GPUs are left over" in uneven[1]


def test_the_order_in_which_hosts_answer_changes_nothing(auto: Cluster) -> None:
    facts = [Facts(name=f"worker-{at}", python="3.11.7", gpus=cards(2, host=at)) for at in (1, 0)]
    said = {check.name: check.reason for check in prereq.decide(auto, facts, [], {})}
    assert said[prereq.SHAPE] == "2 nodes with 2 processes each (worker-0, worker-1: 2 GPUs)"


def test_a_worker_without_a_gpu_blocks_only_where_no_other_has_one(auto: Cluster) -> None:
    alone = rows(auto, cards(1), cards(0))
    assert alone["worker-1: GPUs"] == ("Skipped", "none: nothing is trained here (nvidia-smi not found on this host)")
    assert "Blocked" not in {verdict for verdict, _ in alone.values()}
    nothing = rows(auto, cards(0), cards(0))
    assert nothing[prereq.SHAPE] == ("Blocked", "no worker has a GPU (worker-0, worker-1: 0 GPUs)")
    assert "worker-1: GPUs" not in nothing


def test_a_driver_that_does_not_work_is_not_taken_for_a_host_without_gpus(auto: Cluster) -> None:
    broken = GpuFacts(problem="NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
    assert rows(auto, cards(1), broken)["worker-1: NVIDIA driver"] == ("Blocked", broken.problem)


def test_a_variable_that_hides_every_gpu_blocks(auto: Cluster) -> None:
    hidden = cards(2)
    hidden.selectors = {"CUDA_VISIBLE_DEVICES": ""}
    assert rows(auto, hidden, cards(1, host=1))["worker-0: visible GPUs"][0] == "Blocked"
