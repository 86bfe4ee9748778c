"""The sampler's process beside a runner: its own host at once, also without Ray, and nothing after its end."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.usage import resources, sampler


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    job = SharedRoot(tmp_path).job("a")
    job.path.mkdir(parents=True)
    return job


def test_its_own_host_is_sampled_at_once_and_nothing_is_written_after_the_stop(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MVP_HOST", "worker-0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    process = sampler.start(folder, None)
    assert process and folder.resources.exists()
    while not (samples := resources.read(folder.resources)):
        assert process.poll() is None
        time.sleep(0.02)
    sampler.stop(process)
    before = folder.resources.read_bytes()
    assert samples[0].host == "worker-0" and 0 < samples[0].memory.used < samples[0].memory.total
    assert process.returncode == 0
    assert list(folder.path.iterdir()) == [folder.resources] and folder.resources.read_bytes() == before


def test_one_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "END_S", 0.2)
    process = subprocess.Popen(["bash", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"], stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"ready\n"
    sampler.stop(process)
    assert process.returncode == -9
    process.stdout.close()


def test_a_job_folder_that_cannot_be_written_costs_the_samples_alone(tmp_path: Path) -> None:
    assert sampler.start(SharedRoot(tmp_path).job("gone"), None) is None
    sampler.stop(None)
