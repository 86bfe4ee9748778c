"""One host's report on a job, for a debug bundle on demand: memory, disks, GPUs, processes and their environment, the ends of
the job's Ray logs, and on request the stacks of its Python processes.

Runs on every host. A part that fails is named in ``report.json`` and costs only itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from ..base import files, processes, redact
from ..base.documents import Damaged, read_rows
from ..base.errors import BadInput
from ..base.paths import JobFolder
from ..base.times import now, seconds_of
from ..cluster.cluster_file import Cluster
from ..cluster.node_record import NodePaths
from ..cluster.ray_node import INSTANCE
from ..masking import known
from ..plan import environment, plan
from ..record import host_processes, job_folder
from ..record.job_folder import Result

TAIL = 256 << 10
"""Bytes kept of the end of a log; a quarter of that for Ray's C++ logs."""
MOST = 16 << 20
"""Bytes of Ray logs kept for one host, the newest first."""
NODE_LOGS = (
    "raylet.out",
    "raylet.err",
    "gcs_server.out",
    "gcs_server.err",
    "dashboard_agent.log",
    "dashboard.log",
    "monitor.log",
)


def take(cluster: Cluster, name: str, folder: JobFolder, bundle: Path, *, py_spy: bool = False) -> list[str]:
    """Write ``<bundle>/hosts/<name>/`` and return a phrase for each thing that is missing in it.

    Raises:
        BadInput: the cluster has no such host, or ``bundle`` is not a debug bundle of that job.
        OSError: the job folder cannot be written from here.
    """
    cluster.host(name)
    if bundle.parent != folder.debug or not bundle.is_dir():
        raise BadInput(f"{bundle} is not a debug bundle of job '{folder.submission_id}'")
    folder.check_own(bundle)
    report = _Report(NodePaths(cluster, name), folder, bundle)
    parts: dict[str, Callable[[], None]] = {
        "host.json": lambda: report.host(cluster),
        "gpus.txt": report.gpus,
        "kernel.txt": report.kernel,
        "processes.json": report.processes,
        "environment.txt": report.environment,
        "ray-logs": report.ray_logs,
        **({"py-spy": report.py_spy} if py_spy else {}),
    }
    for name_of_part, part in parts.items():
        try:
            part()
        except Exception as failure:  # whatever it is: the report records it and continues
            report.missing.append(f"{name_of_part}: {failure}")
    files.write_json(report.place / "report.json", {"host": name, "taken_at": now(), "missing": report.missing})
    return report.missing


class _Report:
    def __init__(self, node: NodePaths, folder: JobFolder, bundle: Path) -> None:
        self.node, self.folder, self.bundle = node, folder, bundle
        self.record = node.read()
        self.result: Result = job_folder.read(folder)
        self.place = bundle / "hosts" / node.folder.name
        folder.check_own(self.place)
        self.place.mkdir(parents=True, exist_ok=True)
        self.missing: list[str] = []
        self._mask = known.mask(folder.shared)
        self.pids = self._own_processes()

    def _own_processes(self) -> list[int]:
        """Return the job's processes under this host's Ray node; hosts can share a machine."""
        pids = processes.holding(environment.JOB_FOLDER, str(self.folder.path))
        if self.record is None:
            return sorted(pids)
        return sorted(set(pids) & set(processes.holding(INSTANCE, self.record.instance)))

    def _write(self, name: str, data: bytes | str) -> None:
        raw = data.encode(errors="surrogateescape") if isinstance(data, str) else data
        path = self.place / name
        self.folder.check_own(path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            files.write_new(path, redact.data(self._mask.data(raw)))
        except OSError:
            path.unlink(missing_ok=True)  # half a file would count as evidence
            raise

    def host(self, cluster: Cluster) -> None:
        places = {"shared root": Path(cluster.shared_root), "Ray's files": self.node.temp_dir, "/dev/shm": Path("/dev/shm")}
        disks = {}
        for name, path in places.items():
            with contextlib.suppress(OSError):
                usage = shutil.disk_usage(path)
                disks[name] = {"path": str(path), "total_bytes": usage.total, "free_bytes": usage.free}
        facts = {
            "hostname": platform.node(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "load": os.getloadavg(),
            "cores": os.cpu_count(),
            "memory_bytes": host_processes.memory(),
            "disks": disks,
            "ray_node": msgspec.to_builtins(self.record) | {"runs": self.record.runs()} if self.record else None,
        }
        self._write("host.json", json.dumps(facts, indent=2))
        if self.record is None:
            self.missing.append("no Ray node was started here, or it was stopped")
        elif not self.record.runs():
            self.missing.append("its Ray node is not running any more")

    def gpus(self) -> None:
        self._write("gpus.txt", host_processes.gpus())

    def kernel(self) -> None:
        """Write the kernel's messages about killed processes and GPU errors; mostly only root may read them."""
        if not shutil.which("dmesg"):
            return self._write("kernel.txt", "no dmesg on this host\n")
        output = host_processes.output(["dmesg"]).splitlines()
        lines = [line for line in output if re.search(r"(?i)killed process|oom|segfault|NVRM|Xid", line)]
        self._write("kernel.txt", "\n".join(lines[-200:]) + "\n")

    def processes(self) -> None:
        rows = host_processes.rows(self.pids)
        self._write("processes.json", json.dumps(rows, indent=1))
        if not rows:
            self.missing.append("no process of the job runs here")

    def environment(self) -> None:
        """Write the environment of the trainer, of another process of the job, or else of this report itself."""
        pid = self.result.trainer_pid if self.result.trainer_pid in self.pids else next(iter(self.pids), None)
        whose, variables = "of this report: no process of the job runs here", dict(os.environ)
        if pid:
            whose, variables = f"of pid {pid}", processes.environment(pid)
        named = dict.fromkeys(self._secrets(), redact.MASKED)
        shown = redact.environment(variables) | {name: value for name, value in named.items() if name in variables}
        self._write("environment.txt", f"# {whose}\n" + "".join(f"{name}={value}\n" for name, value in sorted(shown.items())))

    def _secrets(self) -> list[str]:
        with contextlib.suppress(BadInput):
            return plan.read(self.folder).secrets
        return []

    def ray_logs(self) -> None:
        budget, kept = MOST, 0
        for path in self._job_logs():
            limit = TAIL if path.suffix != ".log" or path.name.startswith("job-driver") else TAIL // 4
            data = tail(path, limit)
            if len(data) > budget:
                self.missing.append(f"ray-logs: more than {MOST >> 20} MiB: {path.name} and older ones were left out")
                break
            budget -= len(data)
            kept += 1
            self._write(f"ray-logs/{path.name}", data)
        if not kept:
            self.missing.append("no Ray log of the job here")

    def _job_logs(self) -> list[Path]:
        """Return the job's own logs, then the node's; each newest first."""
        began = seconds_of(self.result.started_at or self.result.claimed_at) if self.result.claimed_at else 0.0
        own: list[Path] = []
        node: list[Path] = []
        ids = self._ray_job_ids()
        for session in self.node.sessions():
            logs = list((session / "logs").glob("*"))
            mine = [path for path in logs if self._of_job(path, ids) and path.stat().st_mtime >= began - 5]
            workers = {path.name.split("-")[1] for path in mine if path.name.startswith("worker-")}
            cores = [path for path in logs if path.name.startswith("python-core-worker-")]
            mine += [path for path in cores if path.stem.split("-")[3].partition("_")[0] in workers]
            if mine or not own:
                own += mine
                node += [path for path in logs if path.name in NODE_LOGS and path.stat().st_mtime >= began - 5]
        return [path for path in _newest_first(own) + _newest_first(node) if path.is_file() and path.stat().st_size]

    def _of_job(self, path: Path, own: set[str]) -> bool:
        if path.name == f"job-driver-{self.folder.submission_id}.log":
            return True
        match = re.match(r"(?:worker-[0-9a-f]+-([0-9a-f]+)-(\d+)\.(?:out|err)|runtime_env_setup-([0-9a-f]+)\.log)$", path.name)
        return match is not None and ((match[1] or match[3]) in own or int(match[2] or 0) in self.pids)

    def _ray_job_ids(self) -> set[str]:
        """Return Ray's own ids of the job from its bundles; empty when none has one."""
        ids = set()
        for file in self.folder.debug.glob("*/job.json"):
            with contextlib.suppress(OSError, Damaged):
                ids |= {str(row["job_id"]) for row in read_rows(file) if row.get("job_id")}
        return ids

    def py_spy(self) -> None:
        """Write the stacks of each Python process of the job, all at about the same moment."""
        stacks, missing = host_processes.stacks(self.pids)
        for pid, text in stacks.items():
            self._write(f"py-spy/{pid}.txt", text)
        self.missing += missing


def tail(path: Path, limit: int) -> bytes:
    """Return the last ``limit`` bytes of a file, from the beginning of a line, after a note of how much was left out."""
    size, data = path.stat().st_size, files.tail(path, limit)
    if size <= limit:
        return data
    whole = data.partition(b"\n")[2] or data
    return f"[{size - len(whole)} bytes before this were left out]\n".encode() + whole


def _newest_first(paths: list[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)
