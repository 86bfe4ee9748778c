"""Kinds of hosts: each has its class, its bash file with the five verbs, its cluster file, and its row in the docs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mvp_helpers.base import project
from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster import cluster_file, host_kinds
from mvp_helpers.cluster.host_kinds import Host

DRIVERS = PROJECT / "scripts" / "lib" / "hosts"
VERBS = ("hosts_up", "hosts_down", "hosts_list", "host_exec", "host_ip")


def problems(classes: tuple[str, ...], drivers: Path, templates: Path) -> list[str]:
    """Return what is missing, so that class, bash file and cluster file of every kind exist."""
    files = {file.stem: file.read_text() for file in drivers.glob("*.sh")}
    used = {yaml.safe_load(file.read_text())["host_driver"] for file in templates.glob("*.yaml")}
    missing = [f"{kind}: add its class to Kinds in cluster/host_kinds.py" for kind in sorted(files.keys() - set(classes))]
    for kind in classes:
        if kind not in files:
            missing.append(f"{kind}: add scripts/lib/hosts/{kind}.sh")
        missing += [
            f"{kind}.sh: add {verb}()" for verb in VERBS if not re.search(rf"^{verb}\(\)", files.get(kind, ""), re.MULTILINE)
        ]
        if kind not in used:
            missing.append(f"{kind}: add a cluster file with host_driver: {kind} to templates/ray/")
    return missing


def test_every_kind_of_host_is_complete() -> None:
    assert problems(host_kinds.NAMES, DRIVERS, cluster_file.TEMPLATES) == []


def test_an_incomplete_kind_is_found(tmp_path: Path) -> None:
    (tmp_path / "pod.sh").write_text("hosts_up() { :; }\n")
    (tmp_path / "local.sh").write_text("".join(f"{verb}() {{ :; }}\n" for verb in VERBS[:-1]))
    assert problems(("local", "cloud"), tmp_path, cluster_file.TEMPLATES) == [
        "pod: add its class to Kinds in cluster/host_kinds.py",
        "local.sh: add host_ip()",
        "cloud: add scripts/lib/hosts/cloud.sh",
        *(f"cloud.sh: add {verb}()" for verb in VERBS),
        "cloud: add a cluster file with host_driver: cloud to templates/ray/",
    ]


HOSTS = [
    Host(name="head", role="head", host="self"),
    Host(name="w 0", role="worker", host="10.0.0.2", user="root", port=2222, key="~/k"),
    Host(name="w1", role="worker"),
]


@pytest.mark.parametrize(
    ("kind", "arrays"),
    [
        (host_kinds.Local(), {}),
        (
            host_kinds.Docker(compose=["docker-compose.yaml", "/my/site.yaml"]),
            {"COMPOSE_FILES": [str(PROJECT / "docker-compose.yaml"), "/my/site.yaml"], "COMPOSE_PROJECT": ["mvp11"]},
        ),
        (
            host_kinds.Ssh(user="me", config="/c f", jump="g@h:22", connect_timeout_s=3),
            {
                "SSH_TARGETS": [
                    "self",
                    "-F '/c f' -J g@h:22 -l root -i '~/k' -p 2222 10.0.0.2",
                    "-F '/c f' -J g@h:22 -l me w1",
                ],
                "SSH_CONNECT_TIMEOUT": ["3"],
            },
        ),
        (
            host_kinds.Slurm(sbatch=["-p x"], srun=[]),
            {"SBATCH_OPTIONS": ["-p x"], "SRUN_OPTIONS": [], "SLURM_PENDING_TIMEOUT": ["600"]},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_kind_gives_its_bash_file_the_arrays_it_reads(kind: host_kinds.Kind, arrays: dict[str, Any]) -> None:
    assert kind.shell_arrays(HOSTS) == arrays
    text = (DRIVERS / f"{type(kind).__name__.lower()}.sh").read_text()
    assert [name for name in arrays if name not in text] == []


def test_only_hosts_reached_by_ssh_get_a_copy_of_the_project() -> None:
    assert host_kinds.Ssh().tools_dir("/private") == f"/private/common/tools/mvp/{project.version()}"
    assert host_kinds.Slurm().tools_dir("/private") == str(PROJECT)


def test_compose_by_hand_means_the_same_project_as_the_scripts() -> None:
    assert yaml.safe_load((PROJECT / "docker-compose.yaml").read_text())["name"] == host_kinds.Docker().project
