"""Script 00's decision: each thing that can be wrong on a host makes exactly its own check Blocked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mvp_helpers.base import verdict
from mvp_helpers.base.verdict import Check
from mvp_helpers.cluster import prereq
from mvp_helpers.cluster.cluster_file import Cluster, Code
from mvp_helpers.cluster.gpus import Gpu, GpuFacts
from mvp_helpers.cluster.prereq import GIB, Facts

TOOLS = {"bash": "bash 5.2", "git": "git 2", "make": "make 4"}


def host(name: str, **changes: object) -> Facts:
    good: dict[str, object] = {
        "python": "3.11.7",
        "ray": "2.60.0",
        "verl": "0.9.1",
        "disk_free": 50 * GIB,
        "memory_total": 24 * GIB,
        "memory_available": 20 * GIB,
        "shm_free": 8 * GIB,
        "clock": 1000.0,
    }
    return Facts(name=name, **good | changes)  # type: ignore[arg-type]


def failed(
    cluster: Cluster, facts: list[Facts], sees: dict[str, list[str]] | None = None, tools: dict[str, str] = TOOLS
) -> list[str]:
    names = [fact.name for fact in facts]
    second = [Facts(name=name, sees=(sees or {}).get(name, names)) for name in names]
    return [check.name for check in prereq.decide(cluster, facts, second, tools) if check.verdict == "Blocked"]


def all_hosts() -> list[Facts]:
    return [host("head"), host("worker-0"), host("worker-1")]


def test_no_check_of_a_good_cluster_is_blocked(cluster: Cluster) -> None:
    assert failed(cluster, all_hosts()) == []


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        ({"python": "3.9.2"}, ["worker-1: Python >= 3.10", "same Python on all hosts"]),
        ({"python": "3.12.1"}, ["same Python on all hosts"]),
        ({"ray": "2.40.0"}, ["worker-1: Ray >= 2.41", "same Ray on all hosts"]),
        ({"ray": ""}, ["worker-1: Ray >= 2.41", "same Ray on all hosts"]),
        ({"disk_free": GIB}, ["worker-1: free disk"]),
        ({"memory_total": 4 * GIB}, ["worker-1: memory"]),
        ({"shm_free": 64 << 20}, ["worker-1: /dev/shm"]),
        ({"shared_root_problem": "/private: Read-only file system"}, ["worker-1: shared root can be written"]),
        ({"port_problem": "worker-1: port 8390 is taken"}, ["worker-1: ports"]),
        ({"collectives": {"GLOO_SOCKET_IFNAME": "^lo"}}, ["worker-1: network"]),
        ({"clock": 2000.0}, ["clocks agree"]),
    ],
)
def test_one_wrong_thing_is_one_blocked_check(cluster: Cluster, change: dict[str, object], rows: list[str]) -> None:
    assert failed(cluster, [host("head"), host("worker-0"), host("worker-1", **change)]) == rows


def test_missing_verl_blocks_only_the_head(cluster: Cluster) -> None:
    facts = [host("head", code_problem="the package verl is not installed"), *all_hosts()[1:]]
    assert failed(cluster, facts) == ["head: verl code"]


def test_a_package_that_only_53_needs_is_reported_with_the_command_that_adds_it(cluster: Cluster) -> None:
    command = "/usr/bin/python3 -m pip install backports.zstd==1.8.0"
    facts = [*all_hosts()[:2], host("worker-1", lacks=["backports.zstd"], how_to_add=command)]
    rows = [check for check in prereq.decide(cluster, facts, [], TOOLS) if check.name.endswith("packages of the helper")]
    assert [row.verdict for row in rows] == ["Pass", "Pass", "Skipped"]
    assert "53 makes .tar.gz archives" in rows[2].reason and rows[2].reason.endswith(command)


@pytest.mark.parametrize(
    ("driver", "hint"), [("docker", "MVP_IMAGE=<"), ("ssh", "python in the cluster file"), ("slurm", "--all, for .venv here")]
)
def test_what_a_host_lacks_is_not_for_script_12_where_hosts_have_their_own_python(
    cluster: Cluster, replace: Callable[..., Cluster], driver: str, hint: str
) -> None:
    checks = prereq.decide(replace(cluster, host_driver=driver), [host("head", ray="")], [], TOOLS)
    assert hint in next(check.hint for check in checks if check.name == "head: Ray >= 2.41")


def code_check(cluster: Cluster, code: Code) -> Check:
    """The row of verl's code, with the facts of a head that is this machine."""
    on_this = msgspec.structs.replace(cluster, code=code)
    facts = [prereq.host_facts(on_this, "head", "t"), *all_hosts()[1:]]
    return next(check for check in prereq.decide(on_this, facts, [], TOOLS) if check.name == "head: verl code")


def test_the_advice_about_missing_code_fits_its_source(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(tmp_path / "verl")
    clones = code_check(
        cluster, Code(source="git", path=place, repository="https://me:secret@example.org/verl", revision="v0.9.1")
    )
    assert clones.verdict == "Pass" and clones.reason == f"31 clones https://example.org/verl at v0.9.1 into {place}"
    (tmp_path / "verl").mkdir()
    assert code_check(cluster, Code(source="git", path=place)).verdict == "Pass", "an empty folder is cloned into"
    missing = code_check(cluster, Code(source="directory", path=f"{place}/none"))
    assert missing.verdict == "Blocked" and missing.reason.endswith("does not exist") and "source: git" in missing.hint
    (tmp_path / "verl" / "README").write_text("")
    for source in ("git", "directory"):
        other = code_check(cluster, Code(source=source, path=place))  # type: ignore[arg-type]
        assert other.verdict == "Blocked" and other.reason == f"{place} contains no verl/" and "put a checkout" in other.hint
    monkeypatch.setenv("PATH", str(tmp_path))
    without_git = code_check(cluster, Code(source="git", path=f"{place}/none"))
    assert without_git.verdict == "Blocked" and "git, which would clone it, is not installed" in without_git.reason


def test_a_host_with_another_file_system_is_named(cluster: Cluster) -> None:
    sees = {"worker-1": ["worker-1"], "head": ["head", "worker-0"], "worker-0": ["head", "worker-0"]}
    rows = failed(cluster, all_hosts(), sees)
    assert rows == [f"{name}: same shared root as the others" for name in ("head", "worker-0", "worker-1")]


def test_a_host_that_does_not_answer_is_named(cluster: Cluster) -> None:
    assert failed(cluster, all_hosts()[:2]) == ["worker-1 answers"]


def test_a_missing_tool_is_named(cluster: Cluster) -> None:
    assert failed(cluster, all_hosts(), tools=TOOLS | {"git": ""}) == ["git here"]


def test_the_table_says_what_to_do_for_each_blocked_check(cluster: Cluster) -> None:
    facts = [host("head", disk_free=0), *all_hosts()[1:]]
    second = [Facts(name=fact.name, sees=[other.name for other in facts]) for fact in facts]
    lines = verdict.table(prereq.decide(cluster, facts, second, TOOLS), 200).splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("✗"))
    assert "free disk" in lines[at] and "→ free some disk space" in lines[at + 1]
    assert sum(line.startswith("✗") for line in lines) == 1


def test_a_real_host_reports_its_facts_and_sees_its_canary(cluster: Cluster) -> None:
    facts = prereq.host_facts(cluster, "head", "t")
    assert facts.collectives["GLOO_SOCKET_IFNAME"] == "lo" and facts.interfaces["lo"] == "127.0.0.1"
    assert facts.shared_root_problem == "" and facts.memory_total > GIB and facts.python.startswith("3.")
    assert prereq.canaries(cluster, "head", "t").sees == ["head"]
    assert prereq.canaries(cluster, "head", "another").sees == []


WRONG: dict[str, object] = {
    "disk_free": 0,
    "memory_total": 0,
    "shm_free": 0,
    "shared_root_problem": "/private: Read-only file system",
    "port_problem": "port 8390 is taken",
    "collectives": {"GLOO_SOCKET_IFNAME": "nope0"},
    "code_problem": "the package verl is not installed",
    "lacks": ["backports.zstd"],
}
GPU_FACTS = ("NVLink", "InfiniBand", "NVIDIA driver", "packages of the helper")
"""The first two and the last cannot fail; with a driver that does not work the others are not judged."""


def test_every_check_can_fail(cluster: Cluster, replace: Callable[..., Cluster]) -> None:
    """Where everything is wrong no check passes: a new check needs a fact here that makes it fail."""
    gpu_cluster = replace(cluster, device="cuda", worker=replace(cluster.worker, num_gpus=2))
    selectors = {"CUDA_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "0"}
    gpus = GpuFacts(gpus=[Gpu("0", "GPU-0", "NVIDIA H200", "143771 MiB")], selectors=selectors)
    facts = [
        host(name, python=f"3.{at}.0", ray=f"2.{at}.0", clock=1000.0 * at, gpus=gpus if at else None, **WRONG)
        for at, name in enumerate(("head", "worker-0", "worker-1"))
    ]
    tools = dict.fromkeys(TOOLS, "")
    checks = prereq.decide(gpu_cluster, facts, [], tools)
    wrong = failed(gpu_cluster, facts, {fact.name: [] for fact in facts}, tools)
    passed = [str(check) for check in checks if not any(repr(name) in str(check) for name in wrong)]
    assert not [check for check in passed if not any(fact in check for fact in GPU_FACTS)]
    assert len(wrong) > 30
