"""The all-reduce between workers: who does what, what follows from a time, and what a worker says that cannot take part."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mvp_helpers.base import processes
from mvp_helpers.base.verdict import Check
from mvp_helpers.cluster import all_reduce, prereq
from mvp_helpers.cluster.all_reduce import MIB, Outcome
from mvp_helpers.cluster.cluster_file import Cluster

LIB = Path(str(all_reduce.__file__)).parents[2]


def test_the_bus_carries_twice_the_tensor_but_for_each_ones_own_part() -> None:
    figures = all_reduce.bandwidth(256 * MIB, 0.002, 8)
    assert figures.algorithm_gb_s == pytest.approx(134.2, abs=0.1)
    assert figures.bus_gb_s == pytest.approx(figures.algorithm_gb_s * 14 / 8)
    assert all_reduce.bandwidth(100, 1.0, 2).bus_gb_s == all_reduce.bandwidth(100, 1.0, 2).algorithm_gb_s


def test_there_is_one_process_a_gpu_and_without_gpus_one_a_worker(cluster: Cluster, replace: Callable[..., Cluster]) -> None:
    gpus = replace(cluster, device="cuda", worker=replace(cluster.worker, num_gpus=4))
    found = [task for name in ("worker-0", "worker-1") for task in all_reduce.tasks(gpus, name, 1, 9)]
    assert [(task.rank, task.local_rank, task.names[task.rank]) for task in found] == [
        (rank, rank % 4, f"worker-{rank // 4}") for rank in range(8)
    ]
    assert {(task.backend, task.address) for task in found} == {("nccl", cluster.workers[0].ip)}
    (only,) = all_reduce.tasks(cluster, "worker-1", 1, 9)
    assert (only.rank, only.backend, only.names) == (1, "gloo", ["worker-0", "worker-1"])


def port_of(cluster: Cluster) -> int:
    port = all_reduce.free_port(cluster)
    with socket.socket() as probe:
        assert probe.connect_ex((cluster.workers[0].ip, port)) != 0
    return port


def test_a_worker_without_torch_says_so_in_pythons_own_words(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch on this host')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{LIB}")
    outcome = all_reduce.measure(cluster, "worker-1", port_of(cluster), 60)
    assert outcome == Outcome(name="worker-1", problem="its process ended with exit code 1: ImportError: no torch on this host")


def test_a_process_that_hangs_is_ended_at_the_time_out(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{LIB}")
    monkeypatch.setenv("MVP_TEST_MARK", str(tmp_path))
    outcome = all_reduce.measure(cluster, "worker-1", port_of(cluster), 1)
    assert outcome.problem == "not done after 1 s"
    assert processes.holding("MVP_TEST_MARK", str(tmp_path)) == []


def test_a_worker_that_finds_nobody_names_whom_it_sought_and_where(cluster: Cluster) -> None:
    (task,) = all_reduce.tasks(cluster, "worker-1", port_of(cluster), 9)
    with pytest.raises(OSError, match=rf"^cannot reach worker-0 at {task.address}:{task.port}: Connection refused$"):
        all_reduce._wait_for_listener(task, time.monotonic() + 0.1)


def test_the_row_names_every_worker_that_failed_or_did_not_answer(cluster: Cluster) -> None:
    row = prereq.all_reduce_check(cluster, [Outcome(name="worker-0", problem="no way")])
    assert (row.verdict, row.reason) == ("Blocked", "worker-0: no way; worker-1: no answer")


def test_the_row_shows_the_largest_size_and_holds_all(cluster: Cluster) -> None:
    sizes = [all_reduce.bandwidth(size * MIB, 0.01, 8) for size in (1, 256)]
    both = [Outcome(name=name, backend="nccl", processes=8) for name in ("worker-0", "worker-1")]
    both[0].sizes = sizes
    row = prereq.all_reduce_check(cluster, both)
    assert isinstance(row, prereq.Measured) and row.verdict == "Pass" and row.sizes == sizes
    assert row.reason == ("256 MiB over n = 8 processes (nccl): algorithm 26.84 GB/s, bus 46.98 GB/s (algorithm × 2(n-1)/n)")
    assert "sizes" not in msgspec.to_builtins(Check("x", "Pass"))


def test_one_process_has_nobody_to_add_up_with(cluster: Cluster, replace: Callable[..., Cluster]) -> None:
    alone = replace(cluster, hosts=cluster.hosts[:2])
    row = prereq.all_reduce_check(alone, [Outcome(name="worker-0", processes=1, sizes=[all_reduce.bandwidth(1, 1.0, 1)])])
    assert row.verdict == "Skipped" and row.reason
