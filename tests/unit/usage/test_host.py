"""The measures of a host and of a job's processes there, with real processes."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mvp_helpers.base import processes
from mvp_helpers.usage import host
from mvp_helpers.usage.host import Host

MEBI = 1 << 20
BUSY = f"""
import os, sys, time
data = b"x" * {64 * MEBI}
with open(sys.argv[1], "wb") as file:
    file.write(data[:{8 * MEBI}])
    os.fsync(file.fileno())
print("ready", flush=True)
while True:
    pass
"""


def test_memory_cpu_and_disk_are_those_of_the_jobs_processes_alone(tmp_path: Path) -> None:
    job = str(tmp_path / "job")
    watched = Host(job, "MVP_JOB_FOLDER", "MVP_RAY_INSTANCE")
    first = watched.sample()
    assert first["job"]["processes"] == 0 and first["job"]["cpu"] is first["cpu"]["busy"] is None
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY, str(tmp_path / "written")], stdout=subprocess.PIPE, preexec_fn=lambda: processes.mark(job)
    )
    try:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        time.sleep(0.5)
        own = watched.sample()["job"]
        assert own["processes"] == 1
        assert 64 * MEBI <= own["memory"] < 128 * MEBI
        assert own["cpu"] > 0 and own["written"] > 0
        assert Host(f"{job}2", "MVP_JOB_FOLDER", "MVP_RAY_INSTANCE").sample()["job"]["processes"] == 0
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()
    ended = watched.sample()["job"]
    assert (ended["processes"], ended["memory"], ended["cpu"]) == (0, 0, 0)


def test_of_nodes_that_share_a_machine_each_sees_its_own_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = str(tmp_path / "job")

    def as_ray_starts_it() -> None:
        processes.mark("node-1", node=True)

    variables = {"MVP_JOB_FOLDER": job}
    process = subprocess.Popen(["/bin/sleep", "60"], env=variables, preexec_fn=as_ray_starts_it)
    try:
        while processes.command(process.pid) != "/bin/sleep 60":
            time.sleep(0.01)
        for node, count in (("node-1", 1), ("node-2", 0)):
            monkeypatch.setenv("MVP_RAY_INSTANCE", node)
            assert Host(job, "MVP_JOB_FOLDER", "MVP_RAY_INSTANCE").sample()["job"]["processes"] == count, node
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("version", [1, 2])
def test_the_memory_of_a_container_is_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    most, current, facts, prefix = host.CGROUP_FILES[2 - version]
    cached = f"anon 1\n{prefix}inactive_file 150000\n{prefix}active_file 50000\n"
    for name, text in ((most, "1000000"), (current, "700000"), (facts, cached)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setattr(host, "CGROUP", tmp_path)
    assert host.memory() == (500000, 1000000)


@pytest.mark.parametrize("limit", ["max", str(1 << 62)])
def test_without_a_limit_it_is_the_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    monkeypatch.setattr(host, "CGROUP", tmp_path)
    used, total = host.memory()
    assert 0 < used < total


class Nvml:
    """NVML as of a machine with a GPU, one in MIG mode, and one that is lost."""

    class NVMLError(Exception):
        pass

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return 3

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        if handle == 2:
            raise self.NVMLError("GPU is lost")
        return SimpleNamespace(used=20, total=80)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:
        if handle == 1:
            raise self.NVMLError("Not Supported")
        return SimpleNamespace(gpu=93)


def test_gpus_that_do_not_answer_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    sample = Host("/no/job", "MVP_JOB_FOLDER", "MVP_RAY_INSTANCE").sample()
    assert sample["gpus"] == [{"index": 0, "utilisation": 0.93, "memory_used": 20, "memory_total": 80}]


def test_a_host_without_nvml_has_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert host.gpus() == []


def test_a_stream_yields_samples_of_this_host_at_multiples_of_its_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "calm", lambda host: None)  # the test itself keeps its priority
    slept: list[float] = []
    monkeypatch.setattr(time, "time", lambda: 1003.5)
    monkeypatch.setattr(time, "sleep", slept.append)
    first, second = itertools.islice(host.stream("/job", "FOLDER", "INSTANCE", 10.0), 2)
    assert slept == [6.5, 6.5]
    assert first["cpu"]["busy"] is None and second["cpu"]["busy"] is not None
