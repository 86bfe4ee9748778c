"""Which interface and address a host's Ray node and jobs get, from the cluster file and from the host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import msgspec
import pytest

from mvp_helpers.base import processes
from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.cluster import addresses, cluster_file, network
from mvp_helpers.cluster.cluster_file import Cluster, Network


@pytest.fixture
def named(cluster: Cluster, replace: Callable[..., Cluster]) -> Callable[[str], Cluster]:
    return lambda name: replace(cluster, network=Network(interface=name))


def test_this_hosts_interfaces_include_the_loopback() -> None:
    assert ("lo", "127.0.0.1") in network.addresses()
    for name, ip in network.addresses():
        assert network.interface_of(ip) == name


def test_auto_chooses_the_interface_that_has_the_nodes_address(cluster: Cluster) -> None:
    assert network.variables(cluster, "127.0.71.12", {}) == dict.fromkeys(network.VARIABLES, "lo")
    assert network.variables(cluster, "192.0.2.1", {}) == {}


def test_a_value_of_the_host_wins_over_auto_and_not_over_a_name(named: Callable[[str], Cluster]) -> None:
    host = {"NCCL_SOCKET_IFNAME": "ib0"}
    assert network.variables(named("auto"), "127.0.0.1", host) == {"GLOO_SOCKET_IFNAME": "lo"}
    assert network.variables(named("lo"), "192.0.2.1", host) == dict.fromkeys(network.VARIABLES, "lo")


def test_a_named_interface_gives_the_host_its_address(named: Callable[[str], Cluster]) -> None:
    assert addresses.own(named("lo")) == "127.0.0.1"


def test_an_interface_that_the_host_lacks_blocks_with_those_that_it_has(
    named: Callable[[str], Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MVP_HOST", "worker-1")
    message = r"^worker-1: no network interface 'nope0' \(network.interface\); it has .*\blo\b"
    for question in (addresses.own, lambda cluster: network.variables(cluster, "127.0.0.1", {})):
        with pytest.raises(Blocked, match=message) as error:
            question(named("nope0"))
        assert error.value.exit_code == 3 and "\n" not in error.value.what


@pytest.mark.parametrize("name", ["^lo", "eth0,eth1", "=eth0", "a name", "", "longer-than-15-bytes"])
def test_a_cluster_file_names_exactly_one_interface(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("cluster") / "c.yaml"
    file.write_text((cluster_file.TEMPLATES / "local.yaml").read_text() + f"network: {{interface: '{name}'}}\n")
    with pytest.raises(BadInput, match=r"network.*interface"):
        cluster_file.load(str(file))


def test_a_port_held_by_somebody_is_named_with_holder_and_variable(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "PORT_WAIT_S", 0.2)
    server = "from socket import *; s = create_server(('127.0.0.10', 0)); print(s.getsockname()[1], flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        taken = int(holder.stdout.readline())
        moved = msgspec.structs.replace(
            cluster, ray=msgspec.structs.replace(cluster.ray, dashboard_port=taken, port=a_free_port())
        )
        with pytest.raises(Blocked, match=rf"head: port {taken} is taken by pid {holder.pid} \(.*import \*") as caught:
            network.check_ports(moved, moved.head)
        assert "MVP_DASHBOARD_PORT" in caught.value.hint
        holder.kill()


def a_free_port() -> int:
    return next(port for port in range(20000, 30000) if processes.can_listen("", port))


def test_an_address_that_is_not_this_hosts_is_named(cluster: Cluster) -> None:
    away = msgspec.structs.replace(cluster.workers[0], ip="192.0.2.77")
    elsewhere = msgspec.structs.replace(cluster, hosts=[cluster.head, away])
    with pytest.raises(Blocked, match=r"cannot listen on 192\.0\.2\.77"):
        network.check_ports(elsewhere, away)
