"""The cluster file: which hosts, which Ray, which device; resolved once, then handed on as JSON in ``MVP_CLUSTER_JSON``."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ..base import project
from ..base.documents import convert, parse
from ..base.errors import BadInput, did_you_mean
from ..base.project import PROJECT

TEMPLATES = PROJECT / "templates" / "ray"
GPU_SELECTORS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Variables that choose GPUs for whole processes. Ray gives each process its GPUs by the first (on AMD by the second)."""

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Count = Annotated[int, msgspec.Meta(ge=0)]
HostName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$")]


class Host(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One host of a cluster. ``ip`` is the address its Ray node announces."""

    name: HostName
    role: Literal["head", "worker"]
    ip: str = ""
    """Empty where only the running host knows it: its host driver finds it."""
    host: str = ""
    """ssh: name, address or ssh config alias to connect to, default ``name``; ``self`` is the machine we are on."""
    user: str = ""
    port: Port | None = None
    key: str = ""


class Ssh(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How hosts are reached by ssh; a host's own ``user``, ``port`` and ``key`` win."""

    user: str = ""
    port: Port | None = None
    key: str = ""
    config: str = ""
    """An ssh config file instead of the user's own."""
    jump: str = ""
    """A jump host, ``user@host:port``."""
    connect_timeout_s: Annotated[int, msgspec.Meta(ge=1)] = 10

    def words(self, host: Host) -> list[str]:
        """The words between ``ssh`` and the remote command for ``host``, without those that are the same for all."""
        words: list[str] = []
        for option, value in (
            ("-F", self.config),
            ("-J", self.jump),
            ("-l", host.user or self.user),
            ("-i", host.key or self.key),
        ):
            words += [option, value] if value else []
        port = host.port or self.port
        return [*words, *(("-p", str(port)) if port else ()), host.host or host.name]


class Docker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which containers the hosts are: a host's name is that of a service in the compose files."""

    compose: list[str] = msgspec.field(default_factory=lambda: ["docker-compose.yaml"])
    """Files, a later one overriding an earlier one; relative to the project."""
    project: HostName = "mvp11"


class Slurm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the allocation (``sbatch``) and of every step in it (``srun``), e.g. ``--container-image=…``."""

    sbatch: list[str] = []
    srun: list[str] = []
    pending_timeout_s: Annotated[int, msgspec.Meta(ge=1)] = 600


class Worker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every worker offers to Ray. The head always offers no CPU and no GPU."""

    num_cpus: Count
    num_gpus: Count = 0
    resources: dict[str, int | float] = msgspec.field(default_factory=lambda: {"worker_node": 100})
    trainer_processes: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Trainer processes on each worker (verl's ``n_gpus_per_node``): one a GPU where there are GPUs."""


class RaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the Ray cluster is started and reached."""

    port: Port = 6379
    dashboard_port: Port = 8265
    client_port: Port = 10001
    agent_port: Port = 52365
    """Dashboard agent of the first host; the n-th host of a shared machine listens on ``agent_port + n``."""
    object_store_mb: Annotated[int, msgspec.Meta(ge=80)] | None = None
    auth: Literal["token", "none"] = "token"
    start_timeout_s: Annotated[int, msgspec.Meta(ge=1)] = 120
    system_env: dict[Annotated[str, msgspec.Meta(pattern="^RAY_[A-Za-z0-9_]+$")], str] = {}
    """Settings of Ray itself, e.g. ``RAY_health_check_period_ms``: environment of every node."""
    keep_job_records: bool = True
    """False: Ray forgets a job when its folder holds all evidence (see ``retention``)."""


class Entrypoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Resources of the driver: they keep it off the head."""

    resources: dict[str, int | float] = msgspec.field(default_factory=lambda: {"worker_node": 1})
    num_cpus: int | float = 1


class Code(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where script 31 takes verl from when it is not told."""

    source: Literal["package", "git", "directory"] = "package"
    path: str | None = None
    repository: str | None = None


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A resolved cluster file: variables expanded, paths absolute."""

    name: HostName
    host_driver: Literal["local", "docker", "ssh", "slurm"]
    shared_root: str
    state_dir: str | None = None
    """Where each host keeps the record of its Ray node; default ``${shared_root}/ray/<cluster>``."""
    python: str = "python3"
    """The interpreter on the hosts: a name on their PATH, or a path. By ssh always a path: rc files change the PATH."""
    tools_dir: str | None = None
    """Where this project lies on the hosts, as they see it. Default: where it is here; by ssh where script 13 puts it."""
    ssh: Ssh = Ssh()
    docker: Docker = Docker()
    slurm: Slurm = Slurm()
    device: Literal["cpu", "cuda"]
    hosts: list[Host]
    worker: Worker
    ray: RaySettings = RaySettings()
    entrypoint: Entrypoint = Entrypoint()
    env_vars: dict[str, str] = {}
    """Environment of every job on this cluster; a JobSpec's ``env_vars`` win."""
    trainer_overrides: list[str] = []
    """Overrides for every job on this cluster; a JobSpec's win."""
    data: dict[str, Any] = {}
    """Settings of script 30 (see ``prepare``)."""
    code: Code = Code()
    stop_wait_s: Annotated[int, msgspec.Meta(ge=3)] = 60
    """Seconds a trainer gets between SIGTERM and SIGKILL."""

    @property
    def head(self) -> Host:
        return next(host for host in self.hosts if host.role == "head")

    @property
    def workers(self) -> list[Host]:
        return [host for host in self.hosts if host.role == "worker"]

    def host(self, name: str) -> Host:
        """The host of that name. Raises BadInput when the cluster has none."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise BadInput(f"cluster '{self.name}' has no host '{name}'{did_you_mean(name, [h.name for h in self.hosts])}")

    @property
    def dashboard(self) -> str:
        return f"http://{self.head.ip}:{self.ray.dashboard_port}"

    @property
    def gcs_address(self) -> str:
        return f"{self.head.ip}:{self.ray.port}"

    @property
    def state(self) -> Path:
        return Path(self.state_dir or f"{self.shared_root}/ray/{self.name}")

    @property
    def tools(self) -> str:
        """Where this project lies on the hosts."""
        if self.tools_dir:
            return self.tools_dir
        return f"{self.shared_root}/common/tools/mvp/{project.version()}" if self.host_driver == "ssh" else str(PROJECT)

    @property
    def token_file(self) -> Path:
        return self.state / "ray_token"

    @property
    def worker_resource(self) -> str:
        """The custom resource only workers have, e.g. ``worker_node``."""
        return next(iter(self.entrypoint.resources), "")

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    def to_shell(self) -> str:
        """Shell assignments for ``eval``: the few values scripts need, and everything as ``MVP_CLUSTER_JSON``."""
        values = {
            "CLUSTER_NAME": self.name,
            "HOST_DRIVER": self.host_driver,
            "SHARED_ROOT": self.shared_root,
            "CLUSTER_PYTHON": self.python,
            "CLUSTER_STATE": str(self.state),
            "TOOLS_DIR": self.tools,
            "DASHBOARD": self.dashboard,
            "MVP_CLUSTER_JSON": self.to_json(),
        }
        arrays = {"HOSTS": [host.name for host in self.hosts], "HOST_IPS": [host.ip for host in self.hosts]}
        arrays |= self._driver_words()
        lines = [f"{key}={shlex.quote(value)}" for key, value in values.items()]
        lines += [f"{key}=({shlex.join(words)})" for key, words in arrays.items()]
        return "\n".join(lines) + "\nexport MVP_CLUSTER_JSON\n"

    def _driver_words(self) -> dict[str, list[str]]:
        """What the bash file of this host driver needs to know, as arrays."""
        if self.host_driver == "ssh":
            # One element a host: its words, quoted for eval; "self" for the machine we are on.
            targets = ["self" if host.host == "self" else shlex.join(self.ssh.words(host)) for host in self.hosts]
            return {"SSH_TARGETS": targets, "SSH_CONNECT_TIMEOUT": [str(self.ssh.connect_timeout_s)]}
        if self.host_driver == "docker":
            return {
                "COMPOSE_FILES": [str(PROJECT / file) for file in self.docker.compose],
                "COMPOSE_PROJECT": [self.docker.project],
            }
        if self.host_driver == "slurm":
            return {
                "SBATCH_OPTIONS": self.slurm.sbatch,
                "SRUN_OPTIONS": self.slurm.srun,
                "SLURM_PENDING_TIMEOUT": [str(self.slurm.pending_timeout_s)],
            }
        return {}


SAFE_PATH = re.compile(r"[\w./+@%:~-]+")
"""Paths that stand in Hydra overrides and in Ray's entrypoint."""
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def _expand(value: Any, source: str) -> Any:
    """``${VAR}`` and ``${VAR:-default}`` in every string, from the caller's environment."""
    if isinstance(value, dict):
        return {key: _expand(item, source) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, source) for item in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        found = os.environ.get(match[1]) or match[2]
        if found is None:
            raise BadInput(f"{source}: ${{{match[1]}}} is not set", hint=f"export {match[1]}=… or write ${{{match[1]}:-default}}")
        return found

    expanded = VARIABLE.sub(replace, value)
    whole = VARIABLE.fullmatch(value)
    return int(expanded) if whole and expanded.isdigit() else expanded


def find(name_or_file: str) -> Path:
    """The cluster file for a name (``local`` → ``templates/ray/local.yaml``) or a path.

    Raises:
        BadInput: there is no such file.
    """
    if "/" in name_or_file or name_or_file.endswith((".yaml", ".yml", ".json")):
        path = Path(name_or_file)
    else:
        path = TEMPLATES / f"{name_or_file}.yaml"
    if not path.is_file():
        known = sorted(file.stem for file in TEMPLATES.glob("*.yaml"))
        raise BadInput(
            f"no cluster file for '{name_or_file}': {path} does not exist{did_you_mean(name_or_file, known)}",
            hint=f"--cluster {' | '.join(known)}, or the path of a cluster file",
        )
    return path


def load(name_or_file: str, addresses: Mapping[str, str] | None = None, here: str = "") -> Cluster:
    """Read, expand and check a cluster file; relative paths are relative to the project.

    ``addresses`` are those of hosts that have none in the file; ``here`` is the host (``self``) that this machine is.

    Raises:
        BadInput: missing file, syntax error, unknown field, wrong type, no head or more than one, no worker.
    """
    path = find(name_or_file)
    cluster = convert(_expand(parse(path.read_bytes(), str(path)), str(path)), Cluster, str(path))
    names = [host.name for host in cluster.hosts]
    if len(set(names)) != len(names):
        raise BadInput(f"{path}: two hosts have the same name")
    if [host.role for host in cluster.hosts].count("head") != 1 or not cluster.workers:
        raise BadInput(f"{path}: hosts must hold exactly one with role: head and at least one with role: worker")
    if cluster.hosts[0].role != "head":
        raise BadInput(f"{path}: the head must be the first of the hosts")
    if missing := [name for name in cluster.entrypoint.resources if name not in cluster.worker.resources]:
        raise BadInput(f"{path}: entrypoint.resources asks for '{missing[0]}', which worker.resources does not offer")
    if not SAFE_PATH.fullmatch(str(PROJECT / cluster.shared_root)):
        raise BadInput(
            f"{path}: shared_root {str(PROJECT / cluster.shared_root)!r} holds a character that a shell or Hydra would split",
            hint="MVP_SHARED_ROOT=/a/plain/path",
        )
    if cluster.host_driver == "local" and (lacking := [host.name for host in cluster.hosts if not host.ip]):
        raise BadInput(f"{path}: host '{lacking[0]}' has no ip", hint="a loopback address of its own, e.g. ip: 127.0.0.11")
    if cluster.host_driver == "ssh" and not cluster.python.startswith("/"):
        raise BadInput(
            f"{path}: python is '{cluster.python}': by ssh it must be a path, for rc files change the PATH",
            hint="python: /usr/bin/python3, or that of the image's virtual environment",
        )
    absolute: dict[str, Any] = {"shared_root": str(PROJECT / cluster.shared_root)}
    if cluster.state_dir:
        absolute["state_dir"] = str(PROJECT / cluster.state_dir)
    absolute["hosts"] = [_located(host, addresses or {}, here) for host in cluster.hosts]
    located = msgspec.structs.replace(cluster, **absolute)
    return msgspec.structs.replace(located, tools_dir=located.tools)


def _located(host: Host, addresses: Mapping[str, str], here: str) -> Host:
    found = {"ip": host.ip or addresses.get(host.name, "")}
    return msgspec.structs.replace(host, **found, **({"host": "self"} if host.name == here else {}))


def from_environment() -> Cluster:
    """The cluster a script resolved, from ``MVP_CLUSTER_JSON``. Raises BadInput when it is not set."""
    text = os.environ.get("MVP_CLUSTER_JSON")
    if not text:
        raise BadInput(
            "MVP_CLUSTER_JSON is not set", hint='eval "$(python3 -m mvp_helpers cluster NAME)", or use the numbered scripts'
        )
    return msgspec.json.decode(text, type=Cluster)
