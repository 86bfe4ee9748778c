"""Script 00: what each host is and has, and the decision whether the cluster can be started on it.

``host_facts`` runs on every host; ``decide`` is pure and runs where the script was started.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from ..base import processes
from ..base.errors import MvpError
from . import gpus, ray_node
from .all_reduce import Bandwidth, Outcome
from .cluster_file import Cluster
from .gpus import GpuFacts
from .host_kinds import Host

GIB = 1 << 30
MIN_DISK = 5 * GIB
"""A few checkpoints of a small model and the logs of a session."""
MIN_MEMORY = 8 * GIB
"""Three local Ray nodes (2 GiB) and a small PPO run (4 to 5 GiB)."""
MIN_SHM = GIB
"""Ray's object store lives there; with less it falls back to the disk and crawls."""
MIN_RAY = (2, 41)
MAX_CLOCK_SKEW_S = 30.0


class Facts(msgspec.Struct, kw_only=True):
    """What one host says about itself; sizes in bytes, ``clock`` in seconds since the epoch, problems as texts ("" is none)."""

    name: str
    hostname: str = ""
    python: str = ""
    ray: str = ""
    verl: str = ""
    disk_free: int = 0
    memory_total: int = 0
    memory_available: int = 0
    shm_free: int = 0
    gpus: GpuFacts | None = None
    """Of the workers of a cluster with GPUs."""
    clock: float = 0.0
    shared_root_problem: str = ""
    code_problem: str = ""
    port_problem: str = ""
    node_runs: bool = False
    sees: list[str] = []
    """Hosts whose canary file it sees on the shared root."""


class Check(msgspec.Struct, kw_only=True):
    """One row of the table: ``todo`` says what to do when it is not ok."""

    what: str
    ok: bool
    found: str
    todo: str = ""
    info: bool = False
    """Only to know: nothing about it can be wrong."""
    sizes: list[Bandwidth] | msgspec.UnsetType = msgspec.UNSET


def write_canary(cluster: Cluster, name: str, token: str) -> str:
    """Leave this host's canary on the shared root; returns why that failed, or an empty string."""
    folder = Path(cluster.shared_root) / f".canary-{token}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
        # Writing tells more than permission bits: a full or read-only file system shows only then.
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x" * (1 << 20))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return f"{cluster.shared_root}: {error.strerror}"
    return ""


def host_facts(cluster: Cluster, name: str, token: str) -> Facts:
    """Everything ``decide`` wants to know of this host, canaries of the others included."""
    host = cluster.host(name)
    memory = dict(re.findall(r"(\w+):\s+(\d+) kB", Path("/proc/meminfo").read_text()))
    problem = write_canary(cluster, name, token)
    has_gpus = cluster.device == "cuda" and host.role == "worker"
    return Facts(
        name=name,
        hostname=platform.node(),
        python=platform.python_version(),
        ray=_version("ray"),
        verl=_version("verl"),
        disk_free=_free(Path(cluster.shared_root)),
        memory_total=int(memory["MemTotal"]) * 1024,
        memory_available=int(memory["MemAvailable"]) * 1024,
        shm_free=_free(Path("/dev/shm")),
        gpus=gpus.look(_node_environment(cluster, host)) if has_gpus else None,
        clock=time.time(),
        shared_root_problem=problem,
        code_problem=_code_problem(cluster) if host.role == "head" else "",
        port_problem=_port_problem(cluster, host),
        node_runs=_running(cluster, host) is not None,
    )


def canaries(cluster: Cluster, name: str, token: str) -> Facts:
    """Second round, when all hosts have written: whose canaries this host sees."""
    folder = Path(cluster.shared_root) / f".canary-{token}"
    return Facts(name=name, sees=sorted(os.listdir(folder)) if folder.is_dir() else [])


def decide(cluster: Cluster, facts: Iterable[Facts], second: Iterable[Facts], tools: dict[str, str]) -> list[Check]:
    """The table: ``tools`` are versions (or "") of the commands the scripts need here; hosts without facts did not answer."""
    known = {host.name: host for host in facts}
    sees = {host.name: set(host.sees) for host in second}
    checks = [
        Check(what=f"{tool} here", ok=bool(version), found=version or "not found", todo=f"install {tool}")
        for tool, version in tools.items()
    ]
    for member in cluster.hosts:
        if member.name not in known:
            checks.append(Check(what=f"{member.name} answers", ok=False, found="no answer", todo="its message is above"))
            continue
        checks += _host_checks(cluster, member, known[member.name])
    answered = [known[host.name] for host in cluster.hosts if host.name in known]
    everybody = {host.name for host in answered}
    for host in answered:
        unseen = sorted(everybody - sees.get(host.name, set()))
        checks.append(
            Check(
                what=f"{host.name}: same shared root as the others",
                ok=not unseen,
                found=f"does not see what {', '.join(unseen)} wrote" if unseen else f"sees what all {len(everybody)} hosts wrote",
                todo=f"mount the same file system at {cluster.shared_root} on every host",
            )
        )
    checks += [
        _equal("Python", answered, lambda host: host.python, "use one image, or one virtual environment, on all hosts"),
        _equal("Ray", answered, lambda host: host.ray, "./scripts/12_install_py_deps.sh on the host that differs"),
    ]
    checks += _own_gpus(cluster, answered)
    if len(answered) > 1:
        skew = max(host.clock for host in answered) - min(host.clock for host in answered)
        checks.append(
            Check(
                what="clocks agree", ok=skew < MAX_CLOCK_SKEW_S, found=f"within {skew:.0f} s", todo="synchronise the clocks (NTP)"
            )
        )
    return checks


def _host_checks(cluster: Cluster, host: Host, facts: Facts) -> list[Check]:
    def check(what: str, ok: bool, found: str, todo: str) -> Check:
        return Check(what=f"{host.name}: {what}", ok=ok, found=found, todo=todo)

    python = tuple(int(part) for part in facts.python.split(".")[:2])
    ray = tuple(int(part) for part in re.findall(r"\d+", facts.ray)[:2])
    install = "./scripts/12_install_py_deps.sh"
    checks = [
        check("Python >= 3.10", python >= (3, 10), facts.python, f"MVP_PYTHON=/path/to/python3.12 {install}"),
        check(f"Ray >= {'.'.join(map(str, MIN_RAY))}", ray >= MIN_RAY, facts.ray or "not installed", install),
        check(
            "shared root can be written",
            not facts.shared_root_problem,
            facts.shared_root_problem or cluster.shared_root,
            MAKE_ROOM,
        ),
        check(
            "free disk", facts.disk_free >= MIN_DISK, f"{_gib(facts.disk_free)} ({_gib(MIN_DISK)} wanted)", "free some disk space"
        ),
        check(
            "memory",
            facts.memory_total >= MIN_MEMORY,
            f"{_gib(facts.memory_available)} of {_gib(facts.memory_total)} available ({_gib(MIN_MEMORY)} in all wanted)",
            "a machine with more memory",
        ),
        check(
            "/dev/shm",
            facts.shm_free >= MIN_SHM,
            f"{_gib(facts.shm_free)} free ({_gib(MIN_SHM)} wanted)",
            "enlarge /dev/shm (docker: shm_size)",
        ),
        check(
            "ports", not facts.port_problem, facts.port_problem or ("held by this cluster" if facts.node_runs else "free"), PORTS
        ),
    ]
    if host.role == "head":
        checks.append(check("verl code", not facts.code_problem, facts.code_problem or f"verl {facts.verl}", install))
    elif facts.gpus:
        checks += _gpu_checks(host.name, facts.gpus, cluster.worker.num_gpus)
    return checks


def _gpu_checks(name: str, facts: GpuFacts, wanted: int) -> list[Check]:
    def check(what: str, ok: bool, found: str, todo: str = "", *, info: bool = False) -> Check:
        return Check(what=f"{name}: {what}", ok=ok, found=found, todo=todo, info=info)

    models = "; ".join(
        f"{count} × {model}" for model, count in Counter(f"{gpu.name}, {gpu.memory}" for gpu in facts.gpus).items()
    )
    driver = check(
        "NVIDIA driver",
        not facts.problem,
        facts.problem or facts.driver,
        "nvidia-smi on that host; in docker: gpus, or the runtime",
    )
    selectors = [f"{selector}={value}" for selector, value in facts.selectors.items() if value]
    rocr = facts.selectors.get("ROCR_VISIBLE_DEVICES")
    alone = " (Ray gives its workers CUDA_VISIBLE_DEVICES beside it)" if len(selectors) == 1 else ""
    choice = check(
        "one variable chooses GPUs",
        not rocr,
        " and ".join(selectors) + f": verl refuses both{alone}" if rocr else ", ".join(selectors) or "none is set",
        f"unset ROCR_VISIBLE_DEVICES where {name} is started; then ./scripts/02_down.sh and ./scripts/01_up.sh",
    )
    fabric = check("InfiniBand", True, facts.fabric, info=True)
    if facts.problem:
        return [driver, choice, fabric]
    visible, chosen = len(facts.visible), facts.selectors.get("CUDA_VISIBLE_DEVICES")
    shown = f"torch sees {facts.torch_count}" + "".join(
        f" ({text})" for text in (facts.torch_version, facts.torch_problem) if text
    )
    return [
        driver,
        check(
            f"GPUs ({wanted} wanted)",
            len(facts.gpus) >= wanted,
            models or "none",
            "worker.num_gpus in the cluster file, or the driver",
        ),
        choice,
        check(
            "visible GPUs",
            visible >= wanted,
            "all" if chosen is None else f"{visible} of {len(facts.gpus)} by CUDA_VISIBLE_DEVICES={chosen}",
            f"unset CUDA_VISIBLE_DEVICES where {name} is started, or worker.num_gpus in the cluster file",
        ),
        check(
            "GPUs in torch",
            facts.torch_count >= min(wanted, visible) and facts.torch_count > 0,
            shown,
            "a torch built for this driver's CUDA (./scripts/12_install_py_deps.sh, or the image)",
        ),
        check("NVLink", True, facts.links, info=True),
        fabric,
    ]


def _own_gpus(cluster: Cluster, answered: list[Facts]) -> list[Check]:
    """Two workers on one machine, or two containers with the same device ids, would train on the same GPUs."""
    users: dict[str, list[str]] = {}
    for host in answered:
        for gpu in (host.gpus.visible if host.gpus else [])[: cluster.worker.num_gpus]:
            users.setdefault(gpu.uuid, []).append(host.name)
    shared = {uuid: names for uuid, names in users.items() if len(names) > 1}
    found = f"{len(users)} GPUs, each of one worker"
    if shared:
        uuid, names = next(iter(shared.items()))
        found = f"{' and '.join(names)} share {uuid}" + (f" and {len(shared) - 1} more" if len(shared) > 1 else "")
    todo = "other device ids for each worker (docker), or CUDA_VISIBLE_DEVICES where each is started"
    return [Check(what="no GPU belongs to two workers", ok=not shared, found=found, todo=todo)] if users else []


def all_reduce_check(cluster: Cluster, outcomes: list[Outcome]) -> Check:
    """The row of ``--nccl``: the figures of the largest size, or which worker failed and why."""
    what, told = "all-reduce between the workers", {outcome.name: outcome for outcome in outcomes}
    problems = [
        f"{worker.name}: {told[worker.name].problem if worker.name in told else 'no answer'}"
        for worker in cluster.workers
        if worker.name not in told or told[worker.name].problem
    ]
    if problems:
        todo = "let the workers reach each other on all ports, then again; with GPUs NCCL_DEBUG=INFO tells more"
        return Check(what=what, ok=False, found="; ".join(problems), todo=todo)
    first = told[cluster.workers[0].name]
    if first.processes == 1:
        return Check(what=what, ok=True, found="there is only one process: nothing to measure", info=True)
    largest = first.sizes[-1]
    rates = f"algorithm {largest.algorithm_gb_s:.2f} GB/s, bus {largest.bus_gb_s:.2f} GB/s (algorithm × 2(n-1)/n)"
    found = f"{largest.bytes >> 20} MiB over n = {first.processes} processes ({first.backend}): {rates}"
    return Check(what=what, ok=True, found=found, sizes=first.sizes)


MAKE_ROOM = "make the shared root writable, or choose another (MVP_SHARED_ROOT)"
PORTS = "end the program, or move this cluster's ports (MVP_HEAD_PORT, MVP_DASHBOARD_PORT, …)"


def _equal(what: str, hosts: list[Facts], value: Callable[[Facts], str], todo: str) -> Check:
    versions: dict[str, list[str]] = {}
    for host in hosts:
        versions.setdefault(value(host) or "none", []).append(host.name)
    found = (
        next(iter(versions), "no host answered")
        if len(versions) < 2
        else "; ".join(f"{v} on {', '.join(n)}" for v, n in versions.items())
    )
    return Check(what=f"same {what} on all hosts", ok=len(versions) == 1, found=found, todo=todo)


def tool_versions() -> dict[str, str]:
    """Version lines of the commands the scripts use on this machine; "" for a missing or too old one."""
    found = {}
    for tool in ("bash", "git", "make"):
        path = shutil.which(tool)
        line = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout.splitlines()[:1] if path else []
        found[tool] = line[0] if line else ""
    if (version := re.search(r"version (\d+)", found["bash"])) and int(version[1]) < 5:
        found["bash"] = ""
    return found


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


def _code_problem(cluster: Cluster) -> str:
    code = cluster.code
    if code.source == "package":
        return "" if _version("verl") else "the package verl is not installed"
    if code.path and (Path(code.path) / "verl" / "__init__.py").is_file():
        return ""
    return "" if code.source == "git" and code.repository else f"{code.path} holds no verl/"


def _running(cluster: Cluster, host: Host) -> ray_node.Record | None:
    record = ray_node.NodePaths(cluster, host.name).read()
    return record if record and record.runs() else None


def _port_problem(cluster: Cluster, host: Host) -> str:
    if _running(cluster, host):
        return ""
    try:
        ray_node.check_ports(cluster, host)
    except MvpError as error:
        return error.what
    return ""


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


def table(checks: list[Check]) -> str:
    """The rows for a person: ✓, ✗ or (only to know) ·, what, found; for each ✗ what to do."""
    width = max(len(check.what) for check in checks)
    lines = []
    for check in checks:
        mark = "·" if check.info else "✓" if check.ok else "✗"
        lines.append(f"{mark} {check.what:<{width}}  {check.found}")
        if not check.ok:
            lines.append(f"  {'':<{width}}  → {check.todo}")
    return "\n".join(lines)
