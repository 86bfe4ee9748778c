"""Script 57 --export: what is refused, and that nothing half-made is left. The real merger is in tests/bats/job_life.bats."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import msgspec
import pytest
from kept_jobs import Run, make_job

from mvp_helpers.base import processes
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.keep import verl_export
from mvp_helpers.plan import plan
from mvp_helpers.prepare import snapshot
from mvp_helpers.record import removals

BROKEN_MERGER = """
import os, sys, time
with open(sys.argv[-1] + "/half", "w") as stream:
    stream.write(str(os.getpid()))
while os.path.exists("{slow}"):
    time.sleep(0.1)
raise ValueError("shards do not fit")
"""


@pytest.fixture
def job(shared: SharedRoot, tmp_path: Path) -> JobFolder:
    """A job with the checkpoints 2, 4 and 6, of which 6 is not whole; the merger of its code writes a file and fails."""
    merger = tmp_path / "src" / "verl" / "model_merger"
    merger.mkdir(parents=True)
    (merger.parent / "__init__.py").write_text("__version__ = '0'\n")
    (merger / "__init__.py").write_text("")
    (merger / "__main__.py").write_text(BROKEN_MERGER.format(slow=tmp_path / "slow"))
    code = snapshot.snapshot(snapshot.Source(path=tmp_path / "src"), shared, "codeA").path
    folder = make_job(shared, "a", 2, 4, 6)
    folder.resolved.write_text(plan.to_yaml(msgspec.structs.replace(plan.read(folder), code_path=str(code), workload="ppo")))
    (folder.checkpoints / "global_step_6" / "data.pt").unlink()
    return folder


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("a:6", "out", "a:6 is not whole: data.pt is missing"),
        ("a:3", "out", "the job has no checkpoint a:3"),
        ("a:8", "out", "a:8 was removed on request at 2"),
        ("a:x", "out", "'a:x' is not ID or ID:STEP"),
        ("a:", "out", "'a:' is not ID or ID:STEP"),
        ("b", "out", "job 'b' does not exist"),
        ("a", "full", "full is not empty"),
        ("a", "full/file", "full/file is a file"),
        ("a", "jobs/a/weights", "is in the folder of the jobs"),
        ("a", "outputs/../jobs", "is in the folder of the jobs"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(job: JobFolder, run: Run, name: str, target: str, message: str) -> None:
    (job.shared.root / "full").mkdir()
    (job.shared.root / "full" / "file").touch()
    removals.record(job, "57", [removals.Gone(step=8, bytes=1)])
    before = sorted(job.shared.root.rglob("*"))
    code, out, err = run("export-checkpoint", name, target)
    assert (code, out) == (2, "") and message in err.splitlines()[0] and err.startswith("bad input: ")
    assert sorted(job.shared.root.rglob("*")) == before


def test_without_any_whole_checkpoint_there_is_nothing_to_export(job: JobFolder, run: Run) -> None:
    for step in (2, 4):
        (job.checkpoints / f"global_step_{step}" / "data.pt").unlink()
    assert "job 'a' has no whole checkpoint" in run("export-checkpoint", "a", "out")[2]


def test_a_merger_that_fails_leaves_nothing(job: JobFolder, run: Run) -> None:
    code, out, err = run("export-checkpoint", "a", "models/out")
    assert (code, out) == (1, "") and "ValueError: shards do not fit" in err and "merging step 4 of a" in err
    assert list((job.shared.root / "models").iterdir()) == []


def test_the_merger_runs_with_the_jobs_code_without_an_accelerator_or_the_settings_of_another_verl(tmp_path: Path) -> None:
    made = verl_export.environment(tmp_path, {"VERL_USE_EXTERNAL_MODULES": "x", "HOME": "/h", "PYTHONPATH": "/else"})
    assert made["PYTHONPATH"].split(":")[0] == str(tmp_path) and "/else" not in made["PYTHONPATH"]
    assert made["CUDA_VISIBLE_DEVICES"] == "" and made["HOME"] == "/h" and "VERL_USE_EXTERNAL_MODULES" not in made


def test_a_model_of_fsdp_and_one_of_megatron_are_told_apart(tmp_path: Path) -> None:
    assert verl_export.backend(tmp_path) == "megatron"
    (tmp_path / "fsdp_config.json").write_text("{}")
    assert verl_export.backend(tmp_path) == "fsdp"


def test_merging_lora_needs_an_adapter(job: JobFolder, run: Run) -> None:
    code, out, err = run("export-checkpoint", "--merge-lora", "a:4", "out")
    assert (code, out) == (2, "") and "a:4 has no LoRA adapter" in err.splitlines()[0]
    assert not (job.shared.root / "out").exists()


def test_an_export_that_is_killed_takes_its_merger_along_and_the_next_one_removes_what_it_left(job: JobFolder, run: Run) -> None:
    slow, models = job.shared.root / "slow", job.shared.root / "models"
    slow.touch()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            run("export-checkpoint", "a", "models/out")
        os._exit(0)
    while not (mergers := [int(path.read_text() or 0) for path in models.glob(".out.export-*/half")]) or not mergers[0]:
        assert processes.start_time(child) is not None, "it did not get so far"
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while processes.start_time(mergers[0]) is not None:
        time.sleep(0.05)
    assert not (models / "out").exists() and len(list(models.iterdir())) == 1
    slow.unlink()
    assert run("export-checkpoint", "a", "models/out")[0] == 1  # as the merger of this test does
    assert list(models.iterdir()) == []
