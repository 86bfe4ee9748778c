"""Which interface and address a host's Ray node and jobs get, from the cluster file and from the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
