"""Script 00: the facts of each host, and the decision whether the cluster can be started on it.

``host_facts`` runs on every host; ``decide`` is pure and runs where the script was started.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ..base import git, processes
from ..base.errors import MvpError
from ..base.verdict import Check
from . import gpus, network, packages, shape
from .all_reduce import Bandwidth, Outcome
from .cluster_file import AUTO, Cluster, Code
from .gpus import GpuFacts
from .host_kinds import Host
from .node_record import NodePaths, Record

GIB = 1 << 30
MIN_DISK = 5 * GIB
"""A few checkpoints of a small model and the logs of a session."""
MIN_MEMORY = 8 * GIB
"""Three local Ray nodes (2 GiB) and a small PPO run (4 to 5 GiB)."""
MIN_SHM = GIB
"""For Ray's object store, which falls back to the disk with less, and becomes very slow."""
MIN_RAY = (2, 41)
MAX_CLOCK_SKEW_S = 30.0


class Facts(msgspec.Struct, kw_only=True):
    """The facts of one host: sizes in bytes, ``clock`` in seconds since the epoch, problems as texts ("" for none)."""

    name: str
    python: str = ""
    lacks: list[str] = []
    """Packages of the helper that its Python lacks."""
    how_to_add: str = ""
    """The command that adds them there."""
    ray: str = ""
    verl: str = ""
    disk_free: int = 0
    memory_total: int = 0
    memory_available: int = 0
    shm_free: int = 0
    gpus: GpuFacts | None = None
    """Facts of workers with GPUs."""
    interfaces: dict[str, str] = {}
    """Address of each network interface."""
    collectives: dict[str, str] = {}
    """``network.VARIABLES`` of this host's Ray node, or of the one that would be started."""
    clock: float = 0.0
    shared_root_problem: str = ""
    code: str = ""
    """Where the head takes verl's code from."""
    code_problem: str = ""
    port_problem: str = ""
    node_runs: bool = False
    sees: list[str] = []
    """Hosts whose canary file it sees on the shared root."""


class Measured(Check, frozen=True, kw_only=True):
    """The all-reduce's check, with its figures by size."""

    sizes: list[Bandwidth]


def write_canary(cluster: Cluster, name: str, token: str) -> str:
    """Write this host's canary to the shared root; return why that failed, or an empty string."""
    folder = Path(cluster.shared_root) / f".canary-{token}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
        # A full or read-only file system shows only when something is written.
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x" * (1 << 20))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return f"{cluster.shared_root}: {error.strerror}"
    return ""


def host_facts(cluster: Cluster, name: str, token: str) -> Facts:
    """Return everything that ``decide`` needs from this host in the first round, and write its canary."""
    host = cluster.host(name)
    memory = dict(re.findall(r"(\w+):\s+(\d+) kB", Path("/proc/meminfo").read_text()))
    problem = write_canary(cluster, name, token)
    has_gpus = cluster.device == "cuda" and host.role == "worker"
    environment = _node_environment(cluster, host)
    return Facts(
        name=name,
        python=platform.python_version(),
        lacks=packages.missing(),
        how_to_add=packages.how_to_add(packages.missing()),
        ray=_version("ray"),
        verl=_version("verl"),
        disk_free=_free(Path(cluster.shared_root)),
        memory_total=int(memory["MemTotal"]) * 1024,
        memory_available=int(memory["MemAvailable"]) * 1024,
        shm_free=_free(Path("/dev/shm")),
        gpus=_gpu_facts(cluster, host) if has_gpus else None,
        interfaces=dict(network.addresses()),
        collectives={name: environment.get(name, "") for name in network.VARIABLES}
        | network.variables(cluster, host.ip, environment),
        clock=time.time(),
        shared_root_problem=problem,
        code=_code(cluster.code),
        code_problem=_code_problem(cluster.code) if host.role == "head" else "",
        port_problem=_port_problem(cluster, host),
        node_runs=_running(cluster, host) is not None,
    )


def _gpu_facts(cluster: Cluster, host: Host) -> GpuFacts:
    """Return the facts of a worker's GPUs; with ``num_gpus: auto`` record their number for plans."""
    facts = gpus.look(_node_environment(cluster, host))
    if cluster.worker.num_gpus == AUTO:
        with contextlib.suppress(OSError):  # the check of the shared root says why
            shape.record(cluster, host.name, facts)
    return facts


def canaries(cluster: Cluster, name: str, token: str) -> Facts:
    """Return, in the second round when all hosts have written, whose canaries this host sees."""
    folder = Path(cluster.shared_root) / f".canary-{token}"
    return Facts(name=name, sees=sorted(os.listdir(folder)) if folder.is_dir() else [])


def decide(cluster: Cluster, facts: Iterable[Facts], second: Iterable[Facts], tools: dict[str, str]) -> list[Check]:
    """Return the checks. ``tools``: versions (or "") of the commands the scripts need here. A host without facts is Blocked."""
    known = {host.name: host for host in facts}
    checks = [_check(f"{tool} here", bool(version), version or "not found", f"install {tool}") for tool, version in tools.items()]
    some_gpu = any(host.gpus and host.gpus.visible for host in known.values())
    for member in cluster.hosts:
        if member.name in known:
            checks += _host_checks(cluster, member, known[member.name], some_gpu)
        else:
            checks.append(_check(f"{member.name} answers", False, "no answer", "its message is above"))
    answered = [known[host.name] for host in cluster.hosts if host.name in known]
    checks += _same_root(cluster, answered, {host.name: set(host.sees) for host in second})
    checks += [
        _equal("Python", answered, lambda host: host.python, "use one image, or one virtual environment, on all hosts"),
        _equal("Ray", answered, lambda host: host.ray, "one image, or one virtual environment, on all hosts"),
    ]
    checks += _own_gpus(cluster, answered)
    checks += _shape(cluster, known)
    if len(answered) > 1:
        skew = max(host.clock for host in answered) - min(host.clock for host in answered)
        checks.append(_check("clocks agree", skew < MAX_CLOCK_SKEW_S, f"within {skew:.0f} s", "synchronise the clocks (NTP)"))
    return checks


def _check(name: str, met: bool, reason: str, hint: str = "") -> Check:
    return Check(name, "Pass" if met else "Blocked", reason, hint="" if met else hint)


def _fact(name: str, text: str) -> Check:
    """Return a row for something that is only reported: nothing about it can be wrong."""
    return Check(name, "Skipped", text)


def _packages(name: str, facts: Facts) -> Check:
    """A host that answers has all but the optional packages of the helper."""
    row = f"{name}: packages of the helper"
    if not facts.lacks:
        return _check(row, True, "all")
    different = "; ".join(f"without {name} {packages.OPTIONAL[name]}" for name in facts.lacks)
    return _fact(row, f"{different}; to add: {facts.how_to_add}")


def _same_root(cluster: Cluster, answered: list[Facts], sees: dict[str, set[str]]) -> list[Check]:
    everybody = {host.name for host in answered}
    checks = []
    for host in answered:
        unseen = sorted(everybody - sees.get(host.name, set()))
        seen = f"does not see what {', '.join(unseen)} wrote" if unseen else f"sees what all {len(everybody)} hosts wrote"
        hint = f"mount the same file system at {cluster.shared_root} on every host"
        checks.append(_check(f"{host.name}: same shared root as the others", not unseen, seen, hint))
    return checks


def _host_checks(cluster: Cluster, host: Host, facts: Facts, some_gpu: bool) -> list[Check]:
    def check(name: str, met: bool, reason: str, hint: str) -> Check:
        return _check(f"{host.name}: {name}", met, reason, hint)

    python = tuple(int(part) for part in facts.python.split(".")[:2])
    ray = tuple(int(part) for part in re.findall(r"\d+", facts.ray)[:2])
    install = cluster.kind.install_hint(cluster.python)
    available = f"{_gib(facts.memory_available)} of {_gib(facts.memory_total)} available ({_gib(MIN_MEMORY)} needed in total)"
    disk, shm = f"{_gib(facts.disk_free)} ({_gib(MIN_DISK)} wanted)", f"{_gib(facts.shm_free)} free ({_gib(MIN_SHM)} wanted)"
    ports = facts.port_problem or ("held by this cluster" if facts.node_runs else "free")
    writable = facts.shared_root_problem or cluster.shared_root
    checks = [
        check("Python >= 3.10", python >= (3, 10), facts.python, install),
        _packages(host.name, facts),
        check(f"Ray >= {'.'.join(map(str, MIN_RAY))}", ray >= MIN_RAY, facts.ray or "not installed", install),
        check("shared root can be written", not facts.shared_root_problem, writable, MAKE_ROOM),
        check("free disk", facts.disk_free >= MIN_DISK, disk, "free some disk space"),
        check("memory", facts.memory_total >= MIN_MEMORY, available, "use a machine with more memory"),
        check("/dev/shm", facts.shm_free >= MIN_SHM, shm, "enlarge /dev/shm (docker: shm_size)"),
        check("network", *_network(host, facts), f"unset {network.GLOO} where that host's node is started; {network.HINT}"),
        check("ports", not facts.port_problem, ports, PORTS),
    ]
    if host.role == "head":
        checks.append(
            check("verl code", not facts.code_problem, facts.code_problem or facts.code, _code_hint(cluster.code, install))
        )
    elif facts.gpus:
        if cluster.worker.num_gpus == AUTO and facts.gpus.absent and some_gpu:
            checks.append(_fact(f"{host.name}: GPUs", f"none: nothing is trained here ({facts.gpus.problem})"))
        else:
            checks += _gpu_checks(host.name, facts.gpus, cluster.worker.num_gpus)
    return checks


def _network(host: Host, facts: Facts) -> tuple[bool, str]:
    """Return whether Gloo gets one interface that this host has, and which address and interface Ray and the jobs use."""
    gloo, nccl = (facts.collectives.get(name, "") for name in network.VARIABLES)
    holder = next((name for name, ip in facts.interfaces.items() if ip == host.ip), "")
    others = sorted(f"{name} {ip}" for name, ip in facts.interfaces.items() if name not in ("lo", holder, gloo))
    parts = [f"Ray at {host.ip}", f"Gloo on {gloo or 'the address of the host name'}", f"NCCL on {nccl or 'its own choice'}"]
    return not gloo or gloo in facts.interfaces, ", ".join(parts) + (f"; not used: {', '.join(others)}" if others else "")


def _gpu_checks(name: str, facts: GpuFacts, declared: int | Literal["auto"]) -> list[Check]:
    wanted = max(1, len(facts.visible)) if declared == AUTO else declared
    driver = _check(
        f"{name}: NVIDIA driver",
        not facts.problem,
        facts.problem or facts.driver,
        "nvidia-smi on that host; in docker: gpus, or the runtime",
    )
    choice, fabric = _gpu_choice(name, facts), _fact(f"{name}: InfiniBand", facts.fabric)
    if facts.problem:
        return [driver, choice, fabric]
    visible, chosen = len(facts.visible), facts.selectors.get("CUDA_VISIBLE_DEVICES")
    in_torch = [f"torch sees {facts.torch_count}", *(f"({text})" for text in (facts.torch_version, facts.torch_problem) if text)]
    return [
        driver,
        _check(
            f"{name}: GPUs ({'all visible' if declared == AUTO else wanted} wanted)",
            len(facts.gpus) >= wanted,
            gpus.models(facts.gpus) or "none",
            "worker.num_gpus in the cluster file, or the driver",
        ),
        choice,
        _check(
            f"{name}: visible GPUs",
            visible >= wanted,
            "all" if chosen is None else f"{visible} of {len(facts.gpus)} by CUDA_VISIBLE_DEVICES={chosen}",
            f"unset CUDA_VISIBLE_DEVICES where {name} is started, or worker.num_gpus in the cluster file",
        ),
        _check(
            f"{name}: GPUs in torch",
            facts.torch_count >= min(wanted, visible) and facts.torch_count > 0,
            " ".join(in_torch),
            "a torch built for this driver's CUDA (./scripts/12_install_py_deps.sh, or the image)",
        ),
        _fact(f"{name}: NVLink", facts.links),
        fabric,
    ]


def _gpu_choice(name: str, facts: GpuFacts) -> Check:
    """verl refuses to start where both ROCR_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES are set."""
    selectors = [f"{selector}={value}" for selector, value in facts.selectors.items() if value]
    rocr = facts.selectors.get("ROCR_VISIBLE_DEVICES")
    alone = " (Ray gives its workers CUDA_VISIBLE_DEVICES beside it)" if len(selectors) == 1 else ""
    return _check(
        f"{name}: one variable chooses GPUs",
        not rocr,
        " and ".join(selectors) + f": verl refuses both{alone}" if rocr else ", ".join(selectors) or "none is set",
        f"unset ROCR_VISIBLE_DEVICES where {name} is started; then ./scripts/02_down.sh and ./scripts/01_up.sh",
    )


def _own_gpus(cluster: Cluster, answered: list[Facts]) -> list[Check]:
    """Two workers on one machine, or two containers with the same device ids, would train on the same GPUs."""
    most = None if cluster.worker.num_gpus == AUTO else cluster.worker.num_gpus
    users: dict[str, list[str]] = {}
    for host in answered:
        for gpu in (host.gpus.visible if host.gpus else [])[:most]:
            users.setdefault(gpu.uuid, []).append(host.name)
    shared = {uuid: names for uuid, names in users.items() if len(names) > 1}
    reason = f"{len(users)} GPUs, each of one worker" if len(users) != 1 else "one GPU, of one worker"
    if shared:
        uuid, names = next(iter(shared.items()))
        reason = f"{' and '.join(names)} share {uuid}" + (f" and {len(shared) - 1} more" if len(shared) > 1 else "")
    hint = "other device ids for each worker (docker), or CUDA_VISIBLE_DEVICES where each is started"
    return [_check("no GPU belongs to two workers", not shared, reason, hint)] if users else []


def _shape(cluster: Cluster, known: Mapping[str, Facts]) -> list[Check]:
    """Report the shape of a training where the GPUs were counted. Reports nothing before every worker has answered."""
    facts = [(worker.name, known[worker.name].gpus) for worker in cluster.workers if worker.name in known]
    counted = {name: len(gpus.visible) for name, gpus in facts if gpus}
    if cluster.worker.num_gpus != AUTO or len(counted) < len(cluster.workers):
        return []
    chosen = shape.choose(cluster, counted)
    hint = "nvidia-smi on the workers; without GPUs: a cluster file with device: cpu"
    return [_fact(SHAPE, chosen.reason) if chosen.nnodes else _check(SHAPE, False, chosen.reason, hint)]


SHAPE = "a training uses"


def all_reduce_check(cluster: Cluster, outcomes: list[Outcome]) -> Check:
    """Return the check of ``--nccl``: the figures of the largest size, or which worker failed and why."""
    name, by_worker = "all-reduce between the workers", {outcome.name: outcome for outcome in outcomes}
    problems = [
        f"{worker.name}: {by_worker[worker.name].problem if worker.name in by_worker else 'no answer'}"
        for worker in cluster.workers
        if worker.name not in by_worker or by_worker[worker.name].problem
    ]
    if problems:
        hint = "let the workers reach each other on all ports, then try again; with GPUs, NCCL_DEBUG=INFO shows more"
        return _check(name, False, "; ".join(problems), hint)
    first = next((outcome for outcome in outcomes if outcome.sizes), outcomes[0])
    if first.processes <= 1:
        return _fact(name, "there is only one process: nothing to measure")
    largest = first.sizes[-1]
    rates = f"algorithm {largest.algorithm_gb_s:.2f} GB/s, bus {largest.bus_gb_s:.2f} GB/s (algorithm × 2(n-1)/n)"
    reason = f"{largest.bytes >> 20} MiB over n = {first.processes} processes ({first.backend}): {rates}"
    return Measured(name, "Pass", reason, sizes=first.sizes)


MAKE_ROOM = "make the shared root writable, or choose another (MVP_SHARED_ROOT)"
PORTS = "end the program, or move this cluster's ports (MVP_HEAD_PORT, MVP_DASHBOARD_PORT, …)"


def _equal(package: str, hosts: list[Facts], value: Callable[[Facts], str], hint: str) -> Check:
    versions: dict[str, list[str]] = {}
    for host in hosts:
        versions.setdefault(value(host) or "none", []).append(host.name)
    reason = (
        next(iter(versions), "no host answered")
        if len(versions) < 2
        else "; ".join(f"{version} on {', '.join(names)}" for version, names in versions.items())
    )
    return _check(f"same {package} on all hosts", len(versions) == 1, reason, hint)


def tool_versions() -> dict[str, str]:
    """Return version lines of the commands the scripts use on this machine; "" for a missing or too old one."""
    versions = {}
    for tool in ("bash", "git", "make"):
        path = shutil.which(tool)
        line = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout.splitlines()[:1] if path else []
        versions[tool] = line[0] if line else ""
    if (version := re.search(r"version (\d+)", versions["bash"])) and int(version[1]) < 5:
        versions["bash"] = ""
    return versions


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _free(path: Path) -> int:
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free


def _node_environment(cluster: Cluster, host: Host) -> Mapping[str, str]:
    """Environment of this host's Ray node; while none runs, of what would start it."""
    record = _running(cluster, host)
    return processes.environment(record.pid) if record else os.environ


def _code(code: Code) -> str:
    if not code.folder:
        return f"verl {_version('verl')}"
    return (
        code.folder
        if _is_there(code.folder)
        else f"31 clones {git.without_user(code.repository)} at {code.revision} into {code.folder}"
    )


def _code_problem(code: Code) -> str:
    if not code.folder:
        return "" if _version("verl") else "the package verl is not installed"
    if not _is_there(code.folder):
        if code.source == "directory":
            return f"{code.folder} does not exist"
        return "" if shutil.which("git") else f"{code.folder} does not exist, and git, which would clone it, is not installed"
    return "" if (Path(code.folder) / "verl" / "__init__.py").is_file() else f"{code.folder} contains no verl/"


def _code_hint(code: Code, install: str) -> str:
    """Return what to do about any ``_code_problem`` with these settings."""
    if not code.folder:
        return f"{install}; or code: {{source: git, path: …}} in the cluster file, and 31 clones verl"
    if code.source == "directory":
        return "put a checkout of verl there, or code: {source: git, …} in the cluster file, and 31 clones it"
    return "put a checkout of verl there; a missing or empty folder is cloned by 31, which needs git on the head"


def _is_there(path: str) -> bool:
    """Return whether 31 finds something to copy; it clones into a missing or empty folder."""
    return os.path.exists(path) and (not os.path.isdir(path) or bool(os.listdir(path)))


def _running(cluster: Cluster, host: Host) -> Record | None:
    record = NodePaths(cluster, host.name).read()
    return record if record and record.runs() else None


def _port_problem(cluster: Cluster, host: Host) -> str:
    if _running(cluster, host):
        return ""
    try:
        network.check_ports(cluster, host)
    except MvpError as error:
        return error.what
    return ""


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
