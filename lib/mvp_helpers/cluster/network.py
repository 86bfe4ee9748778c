"""A host's network: its interface, whose address is the Ray node's and whose name Gloo and NCCL of its jobs need; its ports."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import socket
import struct
import time
from collections.abc import Mapping

from ..base import processes
from ..base.errors import Blocked
from .cluster_file import AUTO, Cluster
from .host_kinds import Host

GLOO = "GLOO_SOCKET_IFNAME"
VARIABLES = (GLOO, "NCCL_SOCKET_IFNAME")
"""Without the first, Gloo listens at the address of the host's name, often 127.0.1.1; NCCL guesses."""
NOT_ONE_NAME = "^=,"
"""Characters of NCCL's lists of interfaces. Gloo takes exactly one name."""
HINT = "network: {interface: NAME} in the cluster file, with a name that every host has, or auto"
SIOCGIFCONF = 0x8912
PORT_WAIT_S = 3.0
"""Time for the kernel to free the port of a process that was killed."""
ROW_BYTES = 40
"""Size of C's ``struct ifreq``: 16 bytes of name, then a ``sockaddr_in`` with the address at its byte 4."""


def addresses() -> list[tuple[str, str]]:
    """Return the name and IPv4 address of each of this host's interfaces that is up; netdevice(7)."""
    rows = array.array("B", bytes(1024 * ROW_BYTES))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe, SIOCGIFCONF, struct.pack("iP", len(rows), rows.buffer_info()[0]))
    raw = rows.tobytes()[: struct.unpack("iP", answer)[0]]
    used = (raw[at : at + ROW_BYTES] for at in range(0, len(raw), ROW_BYTES))
    # A second address may have a label after a colon: eth0:1.
    return [(row[:16].split(b"\0")[0].decode().split(":")[0], socket.inet_ntoa(row[20:24])) for row in used]


def interface_of(ip: str) -> str:
    """Return the interface with address ``ip``; "" without one. All of 127.0.0.0/8 belongs to lo."""
    if ip.startswith("127."):
        ip = "127.0.0.1"
    return next((name for name, address in addresses() if address == ip), "")


def interface(cluster: Cluster, ip: str) -> str:
    """Return the interface for jobs on this host, whose Ray node has address ``ip``; "" when ``auto`` finds none with it.

    Raises:
        Blocked: this host has no interface of the name in the cluster file.
    """
    name = cluster.network.interface
    if name == AUTO:
        return interface_of(ip)
    names = sorted(name for _, name in socket.if_nameindex())
    if name not in names:
        raise Blocked(f"{_here()}: no network interface '{name}' (network.interface); it has {', '.join(names)}", hint=HINT)
    return name


def address(cluster: Cluster) -> str:
    """Return this host's address on the interface that the cluster file names; Blocked when it has none."""
    name = interface(cluster, "")
    for each, ip in addresses():
        if each == name:
            return ip
    raise Blocked(f"{_here()}: the network interface '{name}' (network.interface) has no IPv4 address", hint=HINT)


def variables(cluster: Cluster, ip: str, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a Ray node and all its jobs. With ``auto`` a value that the host itself sets is kept.

    Raises Blocked (see ``interface``).
    """
    name, named = interface(cluster, ip), cluster.network.interface != AUTO
    return {variable: name for variable in VARIABLES if name and (named or not inherited.get(variable))}


def _here() -> str:
    return os.environ.get("MVP_HOST") or socket.gethostname()


def ports(cluster: Cluster, host: Host) -> list[tuple[str, int, str, str]]:
    """Return what ``host`` listens on: address ("" for all), port, field of the cluster file, variable that changes it."""
    ray = cluster.ray
    agent = ray.agent_port + cluster.hosts.index(host)
    agents = [(ip, agent, "ray.agent_port", "MVP_AGENT_PORT") for ip in (host.ip, "127.0.0.1")]
    if host.role == "worker":
        return agents
    return [
        ("", ray.port, "ray.port", "MVP_HEAD_PORT"),
        (host.ip, ray.dashboard_port, "ray.dashboard_port", "MVP_DASHBOARD_PORT"),
        *((ip, ray.client_port, "ray.client_port", "MVP_CLIENT_PORT") for ip in (host.ip, "127.0.0.1")),
        *agents,
    ]


def check_ports(cluster: Cluster, host: Host) -> None:
    """Check the node's ports. Raises Blocked when one is taken, or the node's address is not this host's."""
    for ip, port, field, variable in ports(cluster, host):
        try:
            if _becomes_free(ip, port):
                continue
        except OSError as error:
            raise Blocked(
                f"{host.name}: cannot listen on {ip}:{port}: {error.strerror}",
                hint=f"the host's ip and {field} in the cluster file",
            ) from None
        raise Blocked(
            f"{host.name}: port {port} is taken {processes.holder(ip, port)}",
            hint=f"{variable}=<free port> ./scripts/01_up.sh moves it ({field} in the cluster file)",
        )


def _becomes_free(ip: str, port: int) -> bool:
    """Wait for a port that a process killed a moment ago may still hold; return whether it is free."""
    deadline = time.monotonic() + PORT_WAIT_S
    while not (free := processes.can_listen(ip, port)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return free


def answers(ip: str, port: int) -> bool:
    """Return whether something accepts connections there."""
    with contextlib.suppress(OSError), socket.create_connection((ip, port), timeout=5):
        return True
    return False
