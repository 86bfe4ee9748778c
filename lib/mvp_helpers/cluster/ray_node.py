"""The life of one Ray node, on the host it runs on: started, found healthy, repaired, stopped.

``ray start --block`` runs in a session of its own. It and all its descendants have ``MVP_RAY_INSTANCE=<instance>`` in their
environment, a random value that is also the node's name in Ray's node table. It identifies our processes and our row, and nothing
else is touched. Nothing here imports Ray, which would take 0.4 s per call.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from ..base import files, processes, shared_storage, times
from ..base.errors import Blocked, Failed, MvpError, TimedOut
from . import addresses, gpus, network, ray_api, ray_command, shape
from .cluster_file import Cluster
from .host_kinds import Host
from .node_record import NodePaths, Record

T = TypeVar("T")

INSTANCE = "MVP_RAY_INSTANCE"
PASSING_MARK = "MVP_EXEC"
"""Host drivers set it to find and end the processes of one command after Ctrl-C; a node must outlive its command."""
TOKEN_AUTH_SINCE = (2, 52)
"""The first Ray with token authentication."""
TERM_WAIT_S = 10.0
"""Time for ``ray start`` to end its own processes; it takes 3 s on an idle machine."""
HEAD_GONE_S = 3.0
"""A worker that starts gives up when the head has not answered for so long."""
LEFTOVER_WAIT_S = 5.0


def token_auth(ray_version: str) -> bool:
    """Return whether that Ray version has token authentication."""
    return tuple(int(part) for part in ray_version.split(".")[:2]) >= TOKEN_AUTH_SINCE


def start_argv(cluster: Cluster, host: Host, instance: str, temp_dir: Path, gpus: int) -> list[str]:
    """Return the ``ray start`` command that makes ``host`` a node named ``instance``; a worker offers ``gpus``."""
    ray = cluster.ray
    role = [f"--address={cluster.gcs_address}", f"--num-cpus={cluster.worker.num_cpus}", f"--num-gpus={gpus}"]
    role += [f"--resources={json.dumps(cluster.worker.resources)}"]
    if host.role == "head":
        role = ["--head", f"--port={ray.port}", "--num-cpus=0", "--num-gpus=0"]
        role += [
            f"--dashboard-host={host.ip}",
            f"--dashboard-port={ray.dashboard_port}",
            f"--ray-client-server-port={ray.client_port}",
        ]
    memory = [f"--object-store-memory={ray.object_store_mb * 1_000_000}"] if ray.object_store_mb else []
    return [
        *ray_command.argv(["start", "--block", "--log-color=false", "--disable-usage-stats"]),
        *role,
        f"--node-name={instance}",
        f"--node-ip-address={host.ip}",
        # Agents listen on 127.0.0.1 as well: nodes that share a machine need one port each.
        f"--dashboard-agent-listen-port={ray.agent_port + cluster.hosts.index(host)}",
        # 0: the kernel picks free ports. Ray's default is one fixed range for every node on a machine.
        *("--min-worker-port=0", "--max-worker-port=0"),
        f"--temp-dir={temp_dir}",
        *memory,
    ]


def start_environment(
    cluster: Cluster, instance: str, inherited: Mapping[str, str], python: str = sys.executable
) -> dict[str, str]:
    """Return the environment of a node and its jobs: without other Ray clusters' variables, with the mark of our processes.

    ``python3`` in a job is the one beside ``python``.
    """
    passing = ("MVP_CLUSTER_JSON", PASSING_MARK)
    kept = {key: value for key, value in inherited.items() if not key.startswith("RAY_") and key not in passing}
    kept["PATH"] = f"{Path(python).parent}:{inherited.get('PATH', os.defpath)}"
    # Since 2.60 Ray leaves all GPUs visible to a process that asked for none: a driver or an agent would take memory on one.
    hidden = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"} if cluster.device == "cuda" else {}
    return kept | hidden | cluster.ray.system_env | ray_api.environment(cluster) | {INSTANCE: instance}


def start(cluster: Cluster, name: str, *, early: bool = False) -> str:
    """Start host ``name``'s node; return ``started``, ``repaired`` (ended the rest of a dead node) or ``already running``.

    ``early`` returns for the head as soon as workers can join. Ray starts the head's raylet only after its dashboard: most of
    the time that a node takes passes meanwhile on the workers. ``wait`` notices a head that dies then.

    Raises:
        Blocked: a port is taken, Ray is not installed, the head does not answer, or ``ray start`` failed (with its last lines).
        TimedOut: not up within ``ray.start_timeout_s`` seconds.
    """
    host, paths = cluster.host(name), NodePaths(cluster, name)
    with paths.locked():
        if host.role == "worker":
            cluster = addresses.with_head(cluster)
            if not network.answers(cluster.head.ip, cluster.ray.port):
                raise Blocked(f"{name}: no head answers at {cluster.gcs_address}", hint="./scripts/20_start_head.sh")
        old = paths.read()
        if old and old.runs() and _has_raylet(old) and _wait_for_row(cluster, old):
            return "already running"
        if not old and _unrecorded(cluster, name):
            raise Blocked(f"{name}: its Ray node runs, but {paths.record} was lost", hint="./scripts/02_down.sh ends the node")
        if old:
            _say(f"{name}: its Ray node is not fully alive: ending the rest of it")
            _end(paths, old.instance)
        ray_version = _installed_ray(cluster, host)
        _check_versions(cluster, host, ray_version)
        _make_token(cluster, host, ray_version)
        network.check_ports(cluster, host)
        if host.role == "worker" and cluster.device == "cuda":
            gpus.check_count(name, cluster.worker.num_gpus, os.environ | cluster.ray.system_env)
        paths.make_temp_dir()
        record = Record(
            boot_id=processes.boot_id(),
            instance=f"{cluster.name}.{name}.{secrets.token_hex(8)}",
            role=host.role,
            ip=host.ip,
            ray_version=ray_version,
            python_version=platform.python_version(),
            started_at=times.now(),
        )
        paths.write(
            record
        )  # before the process exists: a record without a process is cleaned up, a process without a record is lost
        try:
            _start_and_wait(cluster, host, paths, record, early)
            if host.role == "head":
                shared = {
                    field: getattr(record, field) for field in ("ip", "instance", "ray_version", "python_version", "started_at")
                }
                addresses.publish(cluster, addresses.Head(port=cluster.ray.port, **shared))
        except BaseException:
            _end(paths, record.instance)
            raise
    return "repaired" if old else "started"


def lost(cluster: Cluster, name: str, *, ask_head: bool) -> str:
    """Return why host ``name``'s node needs a start, or ""; with ``ask_head`` also check the head's node table."""
    record = NodePaths(cluster, name).read()
    if not (record and record.runs() and _has_raylet(record)):
        return "its Ray node has died"
    if ask_head and _row(addresses.with_head(cluster), record) is False:
        return "the head does not list its Ray node as alive"
    return ""


def _start_and_wait(cluster: Cluster, host: Host, paths: NodePaths, record: Record, early: bool) -> None:
    began = time.monotonic()
    found = shape.find(cluster, host, os.environ)
    if cluster.device == "cuda" and host.role == "worker" and not found.count:
        _say(f"{host.name}: offers no GPU to Ray: {found.problem or 'none is visible'}")
    argv = start_argv(cluster, host, record.instance, paths.temp_dir, found.count)
    argv[0] = paths.interpreter()
    environment = start_environment(cluster, record.instance, os.environ, argv[0])
    environment |= network.variables(cluster, host.ip, environment)
    with shared_storage.writing(paths.log), paths.log.open("a") as log:
        log.write(f"\n=== {record.started_at} {' '.join(argv)}\n")
        log.flush()
        offset = log.tell()
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=paths.folder,  # a folder without packages: Python's "-m" and Ray's drivers import from it first
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: processes.mark(record.instance, node=True),
        )
    paths.write(msgspec.structs.replace(record, pid=process.pid, pid_start_time=processes.start_time(process.pid) or 0))
    joinable = early and host.role == "head"
    answered = began
    while not ((joinable and network.answers(host.ip, cluster.ray.port)) or _row(cluster, record)):
        if process.poll() is not None:
            raise Blocked(f"{host.name}: ray start ended with code {process.returncode}{paths.log_tail(offset)}")
        if host.role == "head" or network.answers(cluster.head.ip, cluster.ray.port):
            answered = time.monotonic()
        if time.monotonic() - answered > HEAD_GONE_S:
            raise Blocked(
                f"{host.name}: the head at {cluster.gcs_address} no longer answers", hint="./scripts/01_up.sh repairs it"
            )
        if time.monotonic() - began > cluster.ray.start_timeout_s:
            raise TimedOut(
                f"{host.name}: not up after {cluster.ray.start_timeout_s} s (ray.start_timeout_s){paths.log_tail(offset)}"
            )
        time.sleep(0.1)
    _say(f"{host.name}: {'accepts workers' if joinable else 'up'} after {time.monotonic() - began:.1f} s")


def stay(cluster: Cluster, name: str) -> None:
    """Wait until host ``name``'s node, just started, is stopped; end the node when interrupted.

    Raises:
        Failed: the node ended by itself (with the end of the output of ``ray start``).
    """
    paths = NodePaths(cluster, name)
    started = paths.read()
    if not started:
        return
    try:
        while started.runs():
            time.sleep(0.5)
    except KeyboardInterrupt:
        _end(paths, started.instance)
        raise
    now = paths.read()
    if now and now.instance == started.instance and not now.stopping:
        raise Failed(f"{name}: its Ray node has ended{paths.log_tail()}")


def stop(cluster: Cluster, name: str) -> str:
    """End host ``name``'s node and everything that runs on it; return ``stopped`` or ``not running``.

    Raises:
        Failed: processes of the node survive SIGKILL (they hang in the kernel).
    """
    cluster.host(name)
    paths = NodePaths(cluster, name)
    record = paths.read()
    if record:
        with contextlib.suppress(Blocked):  # a full disk must not keep the node running
            paths.write(msgspec.structs.replace(record, stopping=True))
    instances = [record.instance] if record else _unrecorded(cluster, name)
    for instance in instances:
        if not record:
            _say(f"{name}: ending its Ray node, whose record {paths.record} was lost")
        _end(paths, instance)
        addresses.withdraw(cluster, instance)
    paths.remove_temp_link()
    return "stopped" if instances else "not running"


def _unrecorded(cluster: Cluster, name: str) -> list[str]:
    """Return the instances of host ``name`` that run although their record was lost with the state directory.

    Another checkout can have a cluster of the same name, but not with the same folder for Ray's files.
    """
    prefix, folder = f"{cluster.name}.{name}.", str(NodePaths(cluster, name).temp_dir)
    instances = set()
    for pid in processes.pids():
        with contextlib.suppress(OSError):
            instance = processes.environment(pid).get(INSTANCE, "")
            if instance.startswith(prefix) and folder in re.split(r"[ =]", processes.command(pid)):
                instances.add(instance)
    return sorted(instances)


def _end(paths: NodePaths, instance: str) -> None:
    """End ``ray start``, which ends Ray's own processes in order, then all other processes with this node's mark."""
    record = paths.read()
    if record and record.instance == instance:
        pid = [record.pid] if record.runs() else []  # its process id, if it got that far
    else:
        pid = [each for each in processes.holding(INSTANCE, instance) if " start --block " in processes.command(each)]
    starts = {each: processes.start_time(each) for each in pid}
    processes.end(lambda: [each for each in pid if starts[each] == processes.start_time(each) is not None], TERM_WAIT_S)

    def leftovers() -> set[int]:
        return _known(paths, instance) | {*processes.marked(instance, node=True)}

    if left := processes.end(leftovers, LEFTOVER_WAIT_S):
        raise Failed(f"these processes survive SIGKILL: {', '.join(f'{pid} ({processes.command(pid)[:60]})' for pid in left)}")
    paths.record.unlink(missing_ok=True)


def _known(paths: NodePaths, instance: str) -> set[int]:
    return {*processes.holding(INSTANCE, instance), *processes.renamed_by_ray(Path(os.path.realpath(paths.ray_files)))}


def orphans_of_unknown_jobs(cluster: Cluster, name: str) -> list[int]:
    """Return the processes under host ``name``'s node that have emptied their environment and whose job is unknown.

    A Ray worker started them, and has ended since; ``stop`` ends them with the node.
    """
    paths = NodePaths(cluster, name)
    if not (record := paths.read()):
        return []
    known = processes.with_descendants(_known(paths, record.instance))
    marked = processes.marked(record.instance, node=True)
    return [pid for pid in marked if pid not in known and not processes.marked_by_job(pid)]


def _ask(cluster: Cluster, question: Callable[[ray_api.RayApi], T]) -> T | None:
    """Return the head's answer, or None when it does not answer (yet)."""
    if not network.answers(cluster.head.ip, cluster.ray.dashboard_port):
        return None
    try:
        return question(ray_api.of(cluster))
    except (MvpError, OSError):
        return None


def _has_raylet(record: Record) -> bool:
    """Return whether the raylet runs: ``ray start --block`` outlives it by 1 s, its row in the head's table by over 10 s."""
    ours = processes.holding(INSTANCE, record.instance)
    return any(processes.command(pid).partition(" ")[0].endswith("/raylet") for pid in ours)


def _row(cluster: Cluster, record: Record) -> bool | None:
    """Return whether Ray's node table lists this node as alive; None when the head does not answer."""
    rows = _ask(cluster, lambda api: api.state_rows("nodes")[0])
    return None if rows is None else any(row.get("node_name") == record.instance and row.get("state") == "ALIVE" for row in rows)


def _wait_for_row(cluster: Cluster, record: Record) -> bool:
    """Return ``_row``, waiting for a dashboard that is still starting or busy; False if it never answers."""
    deadline = time.monotonic() + cluster.ray.start_timeout_s
    while (alive := _row(cluster, record)) is None and record.runs() and time.monotonic() < deadline:
        time.sleep(0.2)
    return bool(alive)


def _installed_ray(cluster: Cluster, host: Host) -> str:
    try:
        return importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        raise Blocked(
            f"{host.name}: Ray is not installed for {sys.executable}", hint=cluster.kind.install_hint(cluster.python)
        ) from None


def _check_versions(cluster: Cluster, host: Host, ray_version: str) -> None:
    """Raise Blocked if a worker's Ray or Python is not the head's; Ray would report that only in the node's log."""
    head = addresses.published(cluster) if host.role == "worker" else None
    for what, here, there in (
        ("Ray", ray_version, head and head.ray_version),
        ("Python", platform.python_version(), head and head.python_version),
    ):
        if there and here != there:
            raise Blocked(
                f"{host.name} has {what} {here}, the head has {what} {there}: they must be the same on all hosts of a cluster",
                hint=f"one image, or one virtual environment, on all hosts ({sys.executable} here)",
            )


def _make_token(cluster: Cluster, host: Host, ray_version: str) -> None:
    """Make the cluster's token on the head, once; check on a worker that the state directory has it."""
    if cluster.ray.auth == "none":
        return
    if not token_auth(ray_version):
        if host.role == "head":
            since = ".".join(map(str, TOKEN_AUTH_SINCE))
            _say(
                f"Ray {ray_version} has no token authentication (since {since}): whoever reaches {cluster.dashboard} can run code"
            )
    elif not cluster.token_file.exists():
        if host.role == "worker":
            raise Blocked(f"{host.name}: the head's Ray token is not at {cluster.token_file}", hint="./scripts/20_start_head.sh")
        with shared_storage.writing(cluster.token_file):
            files.write_text(cluster.token_file, secrets.token_hex(32), mode=0o600)


def missing(cluster: Cluster, nodes: list[ray_api.Node]) -> list[str]:
    """Return why the cluster is not complete, as phrases; empty when every host's node is alive with its resources.

    Raises:
        Blocked: a node that does not belong to this cluster is alive.
    """
    alive = [node for node in nodes if node.alive]
    if strangers := sorted({node.ip for node in alive} - {host.ip for host in cluster.hosts}):
        raise Blocked(
            f"Ray nodes with addresses that are not in the cluster file have joined: {', '.join(strangers)}",
            hint="stop them there, or add their hosts to the cluster file",
        )
    offered: dict[str, float] = {"CPU": float(cluster.worker.num_cpus)} | cluster.worker.resources
    gpus, problems = shape.counts(cluster), []
    for host in cluster.hosts:
        own = [node for node in alive if node.ip == host.ip]
        expected = offered if host.role == "worker" else dict.fromkeys(offered, 0.0)
        if (count := gpus.get(host.name, 0)) is not None:
            expected = expected | {"GPU": float(count)}
        if not own:
            problems.append(f"{host.name} ({host.ip}) has no Ray node alive")
        elif len(own) > 1:
            problems.append(f"{host.name} ({host.ip}) is listed {len(own)} times: Ray lists a dead node for up to a minute")
        for resource, amount in expected.items():
            if len(own) == 1 and own[0].total(resource) != amount:
                problems.append(f"{host.name} offers {resource} {own[0].total(resource):g} instead of {amount:g}")
    return problems


def state(cluster: Cluster) -> Literal["up", "partly up", "down"]:
    """Return the cluster's state without waiting; call it on the head. ``down``: the head does not run or answer."""
    record = NodePaths(cluster, cluster.head.name).read()
    if not (record and record.runs() and _row(cluster, record)):
        return "down"
    nodes = _ask(cluster, ray_api.RayApi.nodes)
    with contextlib.suppress(Blocked):
        if nodes is not None and not missing(cluster, nodes):
            return "up"
    return "partly up"


def head_ended(cluster: Cluster) -> str:
    """Return the last words of a head that was started and does not run, "" if it runs; call it on the head."""
    paths = NodePaths(cluster, cluster.head.name)
    record = paths.read()
    return f"{cluster.head.name}: ray start has ended{paths.log_tail()}" if record and not record.runs() else ""


def wait(cluster: Cluster) -> None:
    """Wait until every host's node is alive with the expected resources; meanwhile print the problems.

    Raises:
        TimedOut: after ``ray.start_timeout_s`` seconds, naming the problems.
        Blocked: see ``missing``; or the head's node has ended.
    """
    began, printed = time.monotonic(), ""
    while True:
        nodes = _ask(cluster, ray_api.RayApi.nodes)
        problems = ["the head's dashboard does not answer yet"] if nodes is None else missing(cluster, nodes)
        if not problems:
            return
        if ended := head_ended(cluster):
            raise Blocked(ended, hint="./scripts/01_up.sh repairs it")
        what = "; ".join(problems)
        if time.monotonic() - began > cluster.ray.start_timeout_s:
            raise TimedOut(
                f"cluster '{cluster.name}' is not complete after {cluster.ray.start_timeout_s} s: {what}",
                hint=f"read the nodes' logs: {cluster.state}/*/ray_start.log",
            )
        if what != printed:
            _say(f"waiting: {what}")
            printed = what
        time.sleep(0.2)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
