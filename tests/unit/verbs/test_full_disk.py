"""A disk that takes no more: the verbs that write into a job's folder say so in one line, and leave nothing half-written."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from truthful_job import good_job

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster import cluster_file


def no_room() -> None:
    """Let the kernel refuse every byte that this process writes to a file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


@pytest.mark.parametrize("verb", [("debug-bundle", "job1"), ("host-report", "head", "job1"), ("pack-bundle", "job1")])
def test_a_bundle_that_cannot_be_written_is_blocked_in_one_line_and_leaves_nothing(tmp_path: Path, verb: tuple[str, ...]) -> None:
    shared = SharedRoot(tmp_path)
    folder = good_job(shared, "job1")
    before = sorted(folder.path.rglob("*"))
    bundle = max(folder.debug.iterdir())
    local = cluster_file.load("local")
    state, ray = str(tmp_path / "state"), msgspec.structs.replace(local.ray, dashboard_port=1)
    cluster = msgspec.structs.replace(local, shared_root=str(tmp_path), state_dir=state, seal_dir=state, ray=ray)
    done = subprocess.run(
        [sys.executable, "-m", "mvp_helpers", *verb, *([] if verb[0] == "debug-bundle" else [str(bundle)])],
        env={**os.environ, "PYTHONPATH": str(PROJECT / "lib"), "MVP_CLUSTER_JSON": msgspec.json.encode(cluster).decode()},
        capture_output=True,
        text=True,
        preexec_fn=no_room,
        check=False,
    )
    place = folder.debug if verb[0] == "debug-bundle" else bundle
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert done.stderr.splitlines()[0] == f"blocked: cannot write {place}: File too large"
    assert len(done.stderr.splitlines()) == 2
    left = [path for path in folder.path.rglob("*") if path not in before]
    assert [path for path in left if path.is_file()] == []
