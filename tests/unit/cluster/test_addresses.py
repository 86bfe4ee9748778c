"""Where the head is since its last start, as its host wrote it and the workers read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.cluster import addresses
from mvp_helpers.cluster.cluster_file import Cluster


def cluster(root: Path, **changes: Any) -> Cluster:
    values: dict[str, Any] = {
        "name": "c",
        "host_driver": "ssh",
        "shared_root": str(root),
        "device": "cpu",
        "hosts": [{"name": "h", "role": "head", "ip": "10.0.0.1"}, {"name": "w", "role": "worker", "ip": "10.0.0.2"}],
        "worker": {"num_cpus": 1},
    }
    return msgspec.convert(values | changes, Cluster)


def head(ip: str, instance: str) -> addresses.Head:
    return addresses.Head(ip=ip, port=6379, instance=instance, ray_version="2.60.0", python_version="3.11.7", started_at="now")


def test_workers_find_a_head_that_came_back_at_another_address(tmp_path: Path) -> None:
    here = cluster(tmp_path)
    assert addresses.with_head(here) == here
    addresses.publish(here, head("10.0.0.9", "one"))
    moved = addresses.with_head(here)
    assert (moved.gcs_address, moved.workers) == ("10.0.0.9:6379", here.workers)


def test_a_worker_that_knows_no_head_is_told(tmp_path: Path) -> None:
    unknown = cluster(tmp_path, hosts=[{"name": "h", "role": "head"}, {"name": "w", "role": "worker", "ip": "10.0.0.2"}])
    addresses.publish(unknown, head("10.0.0.9", "one"))
    assert addresses.with_head(unknown).head.ip == "10.0.0.9"


def test_a_head_that_is_stopped_takes_back_only_its_own_word(tmp_path: Path) -> None:
    here = cluster(tmp_path)
    addresses.publish(here, head("10.0.0.9", "two"))
    addresses.withdraw(here, "one")
    assert addresses.published(here) == head("10.0.0.9", "two")
    addresses.withdraw(here, "two")
    assert addresses.published(here) is None


def test_a_damaged_file_is_as_none(tmp_path: Path) -> None:
    path = SharedRoot(tmp_path).head("c")
    path.parent.mkdir(parents=True)
    path.write_text('{"ip": ')
    assert addresses.published(cluster(tmp_path)) is None


def test_the_own_address_is_the_one_on_the_way_to_the_head(tmp_path: Path) -> None:
    here = cluster(tmp_path, hosts=[{"name": "h", "role": "head", "ip": "127.0.0.9"}, {"name": "w", "role": "worker"}])
    assert addresses.own(here).startswith("127.")
