"""The cluster file: hosts, Ray settings and device; resolved once, then passed on as JSON in ``MVP_CLUSTER_JSON``."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ..base.documents import convert, parse
from ..base.errors import BadInput, did_you_mean
from ..base.project import PROJECT
from . import host_kinds
from .host_kinds import Host, HostName, Kind, Kinds, Port, Seconds

TEMPLATES = PROJECT / "templates" / "ray"
GPU_SELECTORS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Variables that choose GPUs for whole processes. Ray gives each process its GPUs by the first (on AMD by the second)."""

Count = Annotated[int, msgspec.Meta(ge=0)]
AUTO: Literal["auto"] = "auto"


class Worker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Resources that every worker offers to Ray. The head always offers no CPU and no GPU."""

    num_cpus: Count
    num_gpus: Count | Literal["auto"] = 0
    """``auto``: as many as the worker's host has; workers may differ (see ``shape``)."""
    resources: dict[str, int | float] = msgspec.field(default_factory=lambda: {"worker_node": 100})
    trainer_processes: Annotated[int, msgspec.Meta(ge=1)] | Literal["auto"] = "auto"
    """Trainer processes on each worker (verl's ``n_gpus_per_node``); ``auto``: one a GPU, and one where ``device`` is cpu."""


class RaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the Ray cluster is started and reached."""

    port: Port = 6379
    dashboard_port: Port = 8265
    client_port: Port = 10001
    agent_port: Port = 52365
    """The dashboard agent of the first host; that of the n-th host of a shared machine listens on ``agent_port + n``."""
    object_store_mb: Annotated[int, msgspec.Meta(ge=80)] | None = None
    auth: Literal["token", "none"] = "token"
    start_timeout_s: Seconds = 120
    system_env: dict[Annotated[str, msgspec.Meta(pattern="^RAY_[A-Za-z0-9_]+$")], str] = {}
    """Environment of every Ray node: settings of Ray itself, e.g. ``RAY_health_check_period_ms``."""
    keep_job_records: bool = True
    """False: Ray's record of a job is removed when the job folder has all evidence (see ``retention``)."""


class Network(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The network between the hosts: what Ray's nodes announce and collectives use (see ``network``)."""

    interface: Annotated[str, msgspec.Meta(pattern=r"^[^\s/^=,]{1,15}$")] = AUTO
    """One name, the same on every host; ``auto``: on each host the interface with the address by which it is reached."""


class Entrypoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Resources of the driver: they keep it off the head."""

    resources: dict[str, int | float] = msgspec.field(default_factory=lambda: {"worker_node": 1})
    num_cpus: int | float = 1


class Code(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The source of a code snapshot when 31_snapshot_verl_code.sh has no ``--source``."""

    source: Literal["package", "git", "directory"] = "package"
    path: str | None = None
    """git and directory: the folder that contains ``verl/``, as the head sees it."""
    repository: str = "https://github.com/verl-project/verl"
    """git: a URL or a folder of the head; cloned into ``path`` when that is missing."""
    revision: Annotated[str, msgspec.Meta(pattern=r"^\w[\w./-]*$")] = "v0.9.1"
    """git: the tag, branch or commit to clone; by default the release that the toolkit is tested with."""

    @property
    def folder(self) -> str:
        """The folder that contains ``verl/``; empty for the installed package."""
        return "" if self.source == "package" else self.path or ""


class Cluster(Kinds, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A resolved cluster file: variables expanded, paths absolute."""

    name: HostName
    host_driver: str
    """The kind of the hosts: a field of ``Kinds``."""
    shared_root: str
    state_dir: str | None = None
    """The folder where each host keeps the record of its Ray node; default ``${shared_root}/ray/<cluster>``."""
    seal_dir: str | None = None
    """The folder of the head with the key that seals jobs; default ``state_dir``. One that only the head sees is safer."""
    python: str = "python3"
    """The interpreter on the hosts: a name on their PATH, or a path. By ssh always a path, because rc files change the PATH."""
    tools_dir: str | None = None
    """The folder of this project as the hosts see it; the default depends on the kind of hosts."""
    device: Literal["cpu", "cuda"]
    hosts: list[Host]
    worker: Worker
    ray: RaySettings = RaySettings()
    network: Network = Network()
    entrypoint: Entrypoint = Entrypoint()
    env_vars: dict[str, str] = {}
    """Environment of every job on this cluster; a JobSpec's ``env_vars`` win."""
    trainer_overrides: list[str] = []
    """Overrides for every job on this cluster; a JobSpec's win."""
    data: dict[str, Any] = {}
    """Settings of 30_prepare_data_and_model.sh (see ``prepare``)."""
    code: Code = Code()
    stop_wait_s: Annotated[int, msgspec.Meta(ge=3)] = 60
    """Seconds a trainer gets between SIGTERM and SIGKILL."""

    @property
    def kind(self) -> Kind:
        """The settings of this cluster's kind of hosts."""
        kind: Kind = getattr(self, self.host_driver)
        return kind

    @property
    def head(self) -> Host:
        return next(host for host in self.hosts if host.role == "head")

    @property
    def workers(self) -> list[Host]:
        return [host for host in self.hosts if host.role == "worker"]

    def host(self, name: str) -> Host:
        """Return the host of that name. Raises BadInput when the cluster has none."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise BadInput(f"cluster '{self.name}' has no host '{name}'{did_you_mean(name, [h.name for h in self.hosts])}")

    @property
    def dashboard(self) -> str:
        """Its address; with the head's name where only the running head knows its own address."""
        return f"http://{self.head.ip or self.head.name}:{self.ray.dashboard_port}"

    @property
    def gcs_address(self) -> str:
        return f"{self.head.ip}:{self.ray.port}"

    @property
    def state(self) -> Path:
        return Path(self.state_dir or f"{self.shared_root}/ray/{self.name}")

    @property
    def tools(self) -> str:
        """The folder of this project as the hosts see it."""
        return self.tools_dir or self.kind.tools_dir(self.shared_root)

    @property
    def seals(self) -> Path:
        return Path(self.seal_dir) if self.seal_dir else self.state

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
        """Return shell assignments for ``eval``: the values that scripts need, and the whole cluster as ``MVP_CLUSTER_JSON``."""
        values = {
            "CLUSTER_NAME": self.name,
            "HOST_DRIVER": self.host_driver,
            "SHARED_ROOT": self.shared_root,
            "CLUSTER_PYTHON": self.python,
            "CLUSTER_STATE": str(self.state),
            "TOOLS_DIR": self.tools,
            "DASHBOARD": self.dashboard,
            "NETWORK_INTERFACE": self.network.interface,
            "MVP_CLUSTER_JSON": self.to_json(),
        }
        arrays = {"HOSTS": [host.name for host in self.hosts], "HOST_IPS": [host.ip for host in self.hosts]}
        arrays |= self.kind.shell_arrays(self.hosts)
        lines = [f"{key}={shlex.quote(value)}" for key, value in values.items()]
        lines += [f"{key}=({shlex.join(words)})" for key, words in arrays.items()]
        return "\n".join(lines) + "\nexport MVP_CLUSTER_JSON\n"


SAFE_PATH = re.compile(r"[\w./+@%:~-]+")
"""Characters that neither Hydra overrides nor Ray's entrypoint would split or expand."""
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def _expand(value: Any, source: str) -> Any:
    """Return ``value`` with ``${VAR}`` and ``${VAR:-default}`` replaced in every string, from the caller's environment."""
    if isinstance(value, dict):
        return {key: _expand(item, source) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, source) for item in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        text = os.environ.get(match[1]) or match[2]
        if text is None:
            raise BadInput(f"{source}: ${{{match[1]}}} is not set", hint=f"export {match[1]}=… or write ${{{match[1]}:-default}}")
        return text

    expanded = VARIABLE.sub(replace, value)
    whole = VARIABLE.fullmatch(value)
    return int(expanded) if whole and expanded.isdecimal() else expanded


def find(name_or_file: str) -> Path:
    """Return the path of a cluster file from its name (``local`` → ``templates/ray/local.yaml``) or path.

    Raises:
        BadInput: the file does not exist.
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

    ``addresses`` are those of hosts that have none in the file; ``here`` is the host that is this machine (``host: self``).

    Raises:
        BadInput: missing file, syntax error, unknown field, wrong type, no head or more than one, no worker.
    """
    path = find(name_or_file)
    source = str(path)
    cluster = convert(_expand(parse(path.read_bytes(), source), source), Cluster, source)
    _check(cluster, source)
    absolute: dict[str, Any] = {"shared_root": str(PROJECT / cluster.shared_root)}
    for field in ("state_dir", "seal_dir"):
        if folder := getattr(cluster, field):
            absolute[field] = str(PROJECT / folder)
    absolute["hosts"] = [_located(host, addresses or {}, here) for host in cluster.hosts]
    located = msgspec.structs.replace(cluster, **absolute)
    return msgspec.structs.replace(located, tools_dir=located.tools)


def _check(cluster: Cluster, source: str) -> None:
    """Raise BadInput for the first mistake that the types of the fields cannot show."""
    host_kinds.check_name(source, cluster.host_driver)
    names = [host.name for host in cluster.hosts]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise BadInput(f"{source}: two hosts have the same name '{repeated[0]}'")
    if [host.role for host in cluster.hosts].count("head") != 1 or not cluster.workers:
        raise BadInput(f"{source}: hosts must contain exactly one with role: head and at least one with role: worker")
    if cluster.hosts[0].role != "head":
        raise BadInput(f"{source}: the head must be the first of the hosts, not '{names[0]}'")
    if missing := [name for name in cluster.entrypoint.resources if name not in cluster.worker.resources]:
        raise BadInput(f"{source}: entrypoint.resources asks for '{missing[0]}', which worker.resources does not offer")
    if not SAFE_PATH.fullmatch(str(PROJECT / cluster.shared_root)):
        raise BadInput(
            f"{source}: shared_root {str(PROJECT / cluster.shared_root)!r} has a character that a shell or Hydra would split",
            hint="MVP_SHARED_ROOT=/a/plain/path",
        )
    if cluster.code.source != "package" and not cluster.code.path:
        raise BadInput(
            f"{source}: code.source is '{cluster.code.source}' but code.path is not set",
            hint="code: {path: /private/user/code/verl}",
        )
    cluster.kind.check(source, cluster.hosts, cluster.python)


def _located(host: Host, addresses: Mapping[str, str], here: str) -> Host:
    """Return ``host`` with the address that was found for it; as ``self`` when it is this machine."""
    ip = host.ip or addresses.get(host.name, "")
    return msgspec.structs.replace(host, ip=ip, host="self" if host.name == here else host.host)


SET_IT = 'eval "$(python3 -m mvp_helpers cluster NAME)", or use the numbered scripts'


def from_environment() -> Cluster:
    """Return the cluster that a script resolved, from ``MVP_CLUSTER_JSON``. Raises BadInput without a valid one."""
    text = os.environ.get("MVP_CLUSTER_JSON")
    if not text:
        raise BadInput("MVP_CLUSTER_JSON is not set", hint=SET_IT)
    try:
        return msgspec.json.decode(text, type=Cluster)
    except msgspec.DecodeError as error:
        raise BadInput(f"MVP_CLUSTER_JSON is not a resolved cluster file: {error}", hint=SET_IT) from None
