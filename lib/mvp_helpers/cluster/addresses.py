"""Addresses that a cluster file may omit: a host's own, and that of the head since its last start."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import msgspec

from ..base import files
from ..base.documents import Damaged, read_as
from ..base.errors import Blocked
from ..base.paths import SharedRoot
from ..base.shared_storage import writing
from . import network
from .cluster_file import AUTO, Cluster

ANYWHERE = "192.0.2.1"
"""An address outside of every network (RFC 5737), reached through the default route. Nothing is sent there."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """``head.json``: the head that was started last. Stopping the head removes it; killing the head does not."""

    ip: str
    port: int
    instance: str
    ray_version: str
    python_version: str
    started_at: str


def _file(cluster: Cluster) -> Path:
    return SharedRoot(Path(cluster.shared_root)).head(cluster.name)


def own(cluster: Cluster) -> str:
    """Return this host's address on the interface of the cluster file, or else on the route to the head or its default route.

    Raises:
        Blocked: it has no such interface; it has neither route, and its host name has no address.
    """
    if cluster.network.interface != AUTO:
        return network.address(cluster)
    for target in filter(None, (cluster.head.ip, ANYWHERE)):
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))  # UDP: only chooses a route
            return str(probe.getsockname()[0])
    with contextlib.suppress(OSError):
        for address in socket.gethostbyname_ex(socket.gethostname())[2]:
            if not address.startswith("127."):
                return address
    raise Blocked(f"{socket.gethostname()}: this host has no address that other hosts can reach", hint="ip: in the cluster file")


def publish(cluster: Cluster, head: Head) -> None:
    """Write the head's address where all hosts read it. Raises Blocked when it cannot be written."""
    path = _file(cluster)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_json(path, msgspec.to_builtins(head))


def withdraw(cluster: Cluster, instance: str) -> None:
    """Remove the record of the head named ``instance``, which was stopped; keep that of a later head."""
    if (head := published(cluster)) and head.instance == instance:
        _file(cluster).unlink(missing_ok=True)


def published(cluster: Cluster) -> Head | None:
    """Return the head that was started last; None when none was started, or it was stopped."""
    try:
        return read_as(_file(cluster), Head)
    except (FileNotFoundError, Damaged):
        return None


def with_head(cluster: Cluster) -> Cluster:
    """Return the cluster with the published address of its head; unchanged when no head has published one."""
    head = published(cluster)
    if head is None or head.ip == cluster.head.ip:
        return cluster
    hosts = [msgspec.structs.replace(host, ip=head.ip) if host.role == "head" else host for host in cluster.hosts]
    return msgspec.structs.replace(cluster, hosts=hosts)
