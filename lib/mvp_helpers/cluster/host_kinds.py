"""The kinds of hosts: the settings of each in a cluster file, their checks, and the values for its host driver in bash.

A kind is one class here, one bash file ``scripts/lib/hosts/<kind>.sh`` and one cluster file in ``templates/ray/``.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from ..base import project
from ..base.errors import BadInput, did_you_mean
from ..base.project import PROJECT
from . import packages

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
HostName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$")]
Seconds = Annotated[int, msgspec.Meta(ge=1)]


class Host(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One host of a cluster. ``ip`` is the address its Ray node announces."""

    name: HostName
    role: Literal["head", "worker"]
    ip: str = ""
    """Empty where only the running host knows it; its host driver then asks the host."""
    host: str = ""
    """ssh: name, address or ssh config alias to connect to, default ``name``; ``self`` is the machine the scripts run on."""
    user: str = ""
    """ssh"""
    port: Port | None = None
    """ssh"""
    key: str = ""
    """ssh"""


class Kind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one kind of hosts, and the defaults of everything that may differ between kinds."""

    def check(self, source: str, hosts: Sequence[Host], python: str) -> None:
        """Raise BadInput when the cluster file ``source`` lacks something that this kind needs."""

    def tools_dir(self, shared_root: str) -> str:
        """Return the folder where the hosts see this project; by default they share the disk it is on."""
        return str(PROJECT)

    def shell_arrays(self, hosts: Sequence[Host]) -> dict[str, list[str]]:
        """Return the arrays that the bash file of this kind reads, by variable name."""
        return {}

    def install_hint(self, python: str) -> str:
        """Return how a host gets Ray, verl and the other packages that its interpreter ``python`` lacks."""
        return packages.INSTALL


class Local(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hosts are process groups on this machine, each with a loopback address of its own."""

    def check(self, source: str, hosts: Sequence[Host], python: str) -> None:
        for host in hosts:
            if not host.ip:
                raise BadInput(
                    f"{source}: host '{host.name}' has no ip", hint="a loopback address of its own, e.g. ip: 127.0.0.11"
                )


class Docker(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hosts are containers on this machine; a host's name is the name of a service in the compose files."""

    compose: list[str] = msgspec.field(default_factory=lambda: ["docker-compose.yaml"])
    """Compose files, relative to the project; a later one overrides an earlier one."""
    project: HostName = "mvp11"

    def shell_arrays(self, hosts: Sequence[Host]) -> dict[str, list[str]]:
        return {"COMPOSE_FILES": [str(PROJECT / file) for file in self.compose], "COMPOSE_PROJECT": [self.project]}

    def install_hint(self, python: str) -> str:
        return f"MVP_IMAGE=<an image whose {python} has it>, then ./scripts/02_down.sh and ./scripts/01_up.sh"


class Ssh(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hosts exist already and are reached by ssh; a host's own ``user``, ``port`` and ``key`` win."""

    user: str = ""
    port: Port | None = None
    key: str = ""
    config: str = ""
    """An ssh config file instead of the user's own."""
    jump: str = ""
    """A jump host, ``user@host:port``."""
    connect_timeout_s: Seconds = 10

    def check(self, source: str, hosts: Sequence[Host], python: str) -> None:
        if not python.startswith("/"):
            raise BadInput(
                f"{source}: python is '{python}': by ssh it must be a path, because rc files on the hosts change the PATH",
                hint="python: /usr/bin/python3, or that of the image's virtual environment",
            )

    def tools_dir(self, shared_root: str) -> str:
        """Return the folder where 13_deploy_tools.sh puts this version of the project."""
        return f"{shared_root}/common/tools/mvp/{project.version()}"

    def shell_arrays(self, hosts: Sequence[Host]) -> dict[str, list[str]]:
        # One element a host: its ssh arguments, quoted for eval; "self" for the machine the scripts run on.
        targets = ["self" if host.host == "self" else shlex.join(self.arguments(host)) for host in hosts]
        return {"SSH_TARGETS": targets, "SSH_CONNECT_TIMEOUT": [str(self.connect_timeout_s)]}

    def install_hint(self, python: str) -> str:
        return f"python in the cluster file, a path of an interpreter that has it; or install it for {python} on every host"

    def arguments(self, host: Host) -> list[str]:
        """Return the ssh arguments that differ from host to host, ending with the destination."""
        arguments: list[str] = []
        for option, value in (
            ("-F", self.config),
            ("-J", self.jump),
            ("-l", host.user or self.user),
            ("-i", host.key or self.key),
        ):
            arguments += [option, value] if value else []
        port = host.port or self.port
        return [*arguments, *(("-p", str(port)) if port else ()), host.host or host.name]


class Slurm(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hosts are the nodes of one Slurm allocation, in the order of the cluster file."""

    sbatch: list[str] = []
    """Options of the allocation, e.g. ``--partition=…``."""
    srun: list[str] = []
    """Options of every step in it, e.g. ``--container-image=…``."""
    pending_timeout_s: Seconds = 600

    def shell_arrays(self, hosts: Sequence[Host]) -> dict[str, list[str]]:
        return {
            "SBATCH_OPTIONS": self.sbatch,
            "SRUN_OPTIONS": self.srun,
            "SLURM_PENDING_TIMEOUT": [str(self.pending_timeout_s)],
        }

    def install_hint(self, python: str) -> str:
        return f"python in the cluster file, an interpreter of the nodes that has it; or {packages.INSTALL} --all, for .venv here"


class Kinds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section of each kind in a cluster file; ``host_driver`` is the name of one of them."""

    local: Local = Local()
    docker: Docker = Docker()
    ssh: Ssh = Ssh()
    slurm: Slurm = Slurm()


NAMES = Kinds.__struct_fields__


def check_name(source: str, name: str) -> None:
    """Raise BadInput when no kind has that name."""
    if name not in NAMES:
        raise BadInput(
            f"{source}: unknown host_driver '{name}'{did_you_mean(name, NAMES)}", hint=f"host_driver: {' | '.join(NAMES)}"
        )
