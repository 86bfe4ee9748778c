"""The file of samples: whole lines, of bounded size, and what they say of a running job."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from mvp_helpers.usage import resources
from mvp_helpers.usage.resources import Log, Sample


def sample(host: str, cpu: float | None = 1.0, used: int = 40, processes: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "host": host,
        "cpu": {"cores": 8, "busy": 2.0},
        "memory": {"total": 100, "used": used},
        "network": {"received": 0.0, "sent": 0.0},
        "job": {"processes": processes, "memory": 10, "cpu": cpu, "read": 0.0, "written": 0.0},
        "gpus": [],
        **more,
    }


def test_what_is_written_is_read_and_a_damaged_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "resources.jsonl"
    log = Log(path, 10)
    log.add(1.0, 0, [sample("a", cpu=None)])
    log.add(11.0, 3, [sample("a"), sample("b", problem="no answer")])
    with path.open("ab") as stream:
        stream.write(b'{"at": 21, "host": "a", "st\n\xff\n[1]\n')
    log.add(31.0, 4, [sample("a")])
    read = resources.read(path)
    assert [(each.at, each.host, each.step) for each in read] == [(1, "a", 0), (11, "a", 3), (11, "b", 3), (31, "a", 4)]
    assert read[2] == resources.msgspec.convert({"at": 11.0, "step": 3, **sample("b", problem="no answer")}, Sample)
    assert resources.read(tmp_path / "missing") == []


def test_the_file_stays_bounded_with_all_hosts_of_evenly_spaced_moments(tmp_path: Path) -> None:
    path = tmp_path / "resources.jsonl"
    log = Log(path, 10, most=20_000)
    at = 0.0
    while log.every_s < 80:
        log.add(at, 0, [sample("a"), sample("b")])
        assert path.stat().st_size < 21_000
        at = (at // log.every_s + 1) * log.every_s  # as the sampler does
    read = resources.read(path)
    moments = sorted({each.at for each in read})
    assert len(read) == 2 * len(moments)
    assert {later - earlier for earlier, later in itertools.pairwise(moments)} == {80.0}


def test_a_full_disk_loses_samples_and_nothing_else(tmp_path: Path) -> None:
    Log(Path("/dev/full"), 10).add(1.0, 0, [sample("a")])
    Log(tmp_path / "gone" / "resources.jsonl", 10).add(1.0, 0, [sample("a")])


def test_a_running_job_uses_the_gpus_of_the_hosts_where_it_has_processes(tmp_path: Path) -> None:
    path = tmp_path / "resources.jsonl"
    log = Log(path, 10)
    assert resources.now(path) is None
    log.add(1.0, 0, [sample("a", cpu=None)])
    assert resources.now(path) is None
    gpu = {"index": 0, "utilisation": 0.9, "memory_used": 60, "memory_total": 80}
    idle = {"index": 0, "utilisation": 0.0, "memory_used": 0, "memory_total": 80}
    log.add(11.0, 0, [sample("a", cpu=1.5, gpus=[gpu]), sample("b", cpu=0.0, used=75, processes=0, gpus=[idle])])
    assert resources.now(path) == {"gpu": 0.9, "gpu_memory": 0.75, "cpu": 1.5, "memory": 0.75}


def test_without_gpus_their_use_is_unknown_and_not_zero(tmp_path: Path) -> None:
    path = tmp_path / "resources.jsonl"
    for at in range(20):
        Log(path, 10).add(float(at), 0, [sample("a", cpu=float(at))])
    assert resources.now(path) == {"gpu": None, "gpu_memory": None, "cpu": 16.5, "memory": 0.4}  # of the last six
