"""The job runner notices by itself that no step comes: real runners, trainers and bundles, without Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from runners import ENVIRONMENT, job, python, start
from toys import plan_of

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.job import stall_bundle, stall_watch
from mvp_helpers.job.stall_watch import StallWatch
from mvp_helpers.job.stopping import Stopping
from mvp_helpers.plan.environment import JOB_FOLDER
from mvp_helpers.record import job_folder, stall
from mvp_helpers.record.job_folder import Result
from mvp_helpers.record.stall import StallLimits

POPEN = subprocess.Popen
STEPS = """
import json, os, sys, time
def wait_for_ever(): time.sleep(600)
def step(number):
    print(json.dumps({"step": number, "data": {"timing_s/step": 0.1}}), file=open("metrics.jsonl", "a"), flush=True)
number = 0
while True:
    number += 1
    step(number)
    print("\\rstep", number, end="", flush=True)  # a progress bar leaves its line open
    time.sleep(0.1)
"""


def wait_for(condition: Callable[[], object], what: str, limit_s: float = 120) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


def stalls(folder: JobFolder) -> list[stall.Stall]:
    return job_folder.read(folder).stalls


def trainer_job(root: Path, limits: StallLimits, **fields: Any) -> JobFolder:
    return job(root, python(STEPS), stall=limits, env_vars={"LOG": str(root / "jobs" / "job1" / "metrics.jsonl")}, **fields)


def test_a_stopped_trainer_is_named_in_one_bundle_and_its_next_step_ends_the_stall(tmp_path: Path) -> None:
    folder = trainer_job(tmp_path, StallLimits(after_s=2))
    runner = start(folder, **{JOB_FOLDER: str(folder.path)})
    wait_for(lambda: job_folder.read(folder).steps_done > 3, "steps")
    pid = int(job_folder.read(folder).trainer_pid or 0)
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: stalls(folder) and stalls(folder)[0].cause, "a stall")
    found = stalls(folder)[0]
    assert f"pid {pid}, is stopped (SIGSTOP)" in found.cause
    bundle = folder.path / found.bundle
    assert bundle.name.endswith("-stalled") and (bundle / "stall.json").exists() and (bundle / "bundle.json").exists()
    written = json.loads((bundle / "stall.json").read_bytes())
    assert written["kind"] == "stopped" and any("driver's host" in what for what in written["missing"])
    os.kill(pid, signal.SIGCONT)
    wait_for(lambda: stalls(folder)[0].over, "the end of the stall")
    runner.send_signal(signal.SIGTERM)
    runner.communicate(timeout=120)
    log = folder.driver_log.read_text()
    assert "\nMVP_STALLED: no step after step " in log and "\nMVP_RESUMED: step " in log
    assert len(stalls(folder)) == 1 and len(list(folder.debug.glob("*-stalled"))) == 1


def test_on_stall_stop_ends_the_job_and_says_why(tmp_path: Path) -> None:
    folder = trainer_job(tmp_path, StallLimits(after_s=2, on_stall="stop"), stop_wait_s=3)
    runner = start(folder, **{JOB_FOLDER: str(folder.path)})
    wait_for(lambda: job_folder.read(folder).steps_done > 3, "steps")
    os.kill(int(job_folder.read(folder).trainer_pid or 0), signal.SIGSTOP)
    runner.communicate(timeout=120)
    result = job_folder.read(folder)
    assert result.state == "STOPPED"
    assert result.reason.startswith("stopped because of a stall (stall.on_stall): no step after step ")
    assert "is stopped (SIGSTOP)" in result.reason


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[StallWatch, list[str], list[float]]:
    """A watch over a job without processes; its notes, and the clock in a list of one."""
    folder = job_folder.claim(SharedRoot(tmp_path), Result(submission_id="job1", workload="echo", state="RUNNING"))
    clock, notes = [0.0], list[str]()
    monkeypatch.setattr(stall_watch.time, "monotonic", lambda: clock[0])
    plan = msgspec.structs.replace(plan_of("job1", tmp_path), stall=StallLimits(after_s=5), env_vars={"LOG": str(folder.metrics)})
    return StallWatch(folder, plan, job_folder.read(folder), Stopping(folder, 5), notes.append), notes, clock


def steps(watch: StallWatch, *numbers: int, seconds: float = 0.1) -> None:
    with watch.folder.metrics.open("a") as stream:
        stream.writelines(f'{{"step": {number}, "data": {{"timing_s/step": {seconds}}}}}\n' for number in numbers)
    watch.look()


def advance(watch: StallWatch, clock: list[float], seconds: float) -> None:
    for _ in range(int(seconds)):
        clock[0] += 1
        watch.look()


def answer(text: str) -> list[str]:
    return [sys.executable, "-c", f"print({text!r})"]


def child(monkeypatch: pytest.MonkeyPatch, argv: list[str]) -> None:
    """The process that takes bundles is ``argv`` instead."""
    monkeypatch.setattr(stall_watch.subprocess, "Popen", lambda _, **options: POPEN(argv, **options))


def test_only_three_stalls_of_a_job_get_a_bundle(
    watched: tuple[StallWatch, list[str], list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, notes, clock = watched
    child(monkeypatch, answer(json.dumps({"finding": {"text": "why"}, "bundle": str(watch.folder.debug / "B-stalled")})))
    for number in range(1, 5):
        steps(watch, number)
        advance(watch, clock, 7)
        if watch._child:
            watch._child.wait()
        advance(watch, clock, 1)
    assert [found.bundle for found in watch.result.stalls] == ["debug/B-stalled"] * 3 + [""]
    assert watch.result.stalls[3].cause == "no bundle: this job already has 3"
    assert [found.over for found in watch.result.stalls] == [True, True, True, False]
    assert sum("MVP_RESUMED" in note for note in notes) == 3


def test_a_bundle_that_does_not_end_is_ended_and_one_that_fails_is_said(
    watched: tuple[StallWatch, list[str], list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, _, clock = watched
    child(monkeypatch, [sys.executable, "-c", "import time; time.sleep(600)"])
    steps(watch, 1)
    advance(watch, clock, 7)
    taking = watch._child
    assert taking
    os.kill(taking.pid, signal.SIGSTOP)
    advance(watch, clock, stall_bundle.LIMIT_S + 2)
    assert taking.returncode == -signal.SIGKILL
    assert watch.result.stalls[0].cause == "no bundle: the process that takes it did not end within 120 s"
    steps(watch, 2)
    child(monkeypatch, [sys.executable, "-c", "import sys; sys.exit(9)"])
    advance(watch, clock, 7)
    assert watch._child
    watch._child.wait()
    advance(watch, clock, 1)
    assert watch.result.stalls[1].cause == "no bundle: the process that takes it ended with exit code 9"


def test_a_runner_that_was_suspended_itself_does_not_blame_the_trainer(
    watched: tuple[StallWatch, list[str], list[float]],
) -> None:
    watch, _, clock = watched
    steps(watch, 1)
    clock[0] += 3600
    watch.look()
    assert watch.result.stalls == []


def test_a_limit_below_a_step_is_said_once_and_the_usual_step_counts(
    watched: tuple[StallWatch, list[str], list[float]],
) -> None:
    watch, notes, clock = watched
    steps(watch, 1, 2, 3, seconds=20)
    advance(watch, clock, 50)
    assert notes == ["MVP_WARNING: stall.after_s 5 is shorter than a step (20.0 s): 100 s is used"]
    assert watch.result.stalls == []


def test_a_job_that_was_not_asked_for_metrics_never_stalls(tmp_path: Path) -> None:
    folder = job(tmp_path, python("import time; time.sleep(3)"), stall=StallLimits(start_s=1))
    runner = start(folder)
    runner.communicate(timeout=120)
    assert job_folder.read(folder).state == "SUCCEEDED" and stalls(folder) == []


def test_a_trainer_that_never_makes_a_step_stalls_after_the_start_limit(tmp_path: Path) -> None:
    metrics = str(tmp_path / "jobs" / "job1" / "metrics.jsonl")
    folder = job(
        tmp_path, python("def load(): time.sleep(60)\nimport time; load()"), stall=StallLimits(start_s=1), env_vars={"M": metrics}
    )
    runner = start(folder, **{JOB_FOLDER: str(folder.path)})
    wait_for(lambda: stalls(folder) and stalls(folder)[0].cause, "a stall")
    runner.send_signal(signal.SIGTERM)
    runner.communicate(timeout=120)
    found = stalls(folder)[0]
    assert found.step == 0 and "load (<string>:1)" in found.cause


@pytest.mark.parametrize("address", ["", "127.0.0.1:1"])
def test_a_shared_root_that_cannot_be_written_or_a_ray_that_does_not_answer_costs_its_part_only(
    tmp_path: Path, address: str
) -> None:
    """The process that takes the bundle still names the stopped trainer."""
    folder = trainer_job(tmp_path, StallLimits(after_s=2))
    if not address:
        folder.debug.rmdir()
        folder.debug.write_text("not a folder: nothing can be written in it")
    mark = {JOB_FOLDER: str(folder.path)}
    with subprocess.Popen(
        [*python("import time; print(1, flush=True); time.sleep(600)")], env=os.environ | mark, stdout=-1
    ) as trainer:
        assert trainer.stdout and trainer.stdout.readline()
        trainer.send_signal(signal.SIGSTOP)
        code = (
            "import json, sys; from pathlib import Path; from mvp_helpers.base.paths import JobFolder; "
            "from mvp_helpers.job import stall_bundle; stall_bundle.RAY_LIMIT_S = 4; "
            "print(json.dumps(stall_bundle.take(JobFolder(Path(sys.argv[1])), 0)), flush=True); import os; os._exit(0)"
        )
        environment = ENVIRONMENT | mark | ({"RAY_ADDRESS": address} if address else {})
        child = subprocess.run([*python(code), str(folder.path)], env=environment, capture_output=True, text=True, timeout=120)
        trainer.kill()
    answer = json.loads(child.stdout.splitlines()[-1])
    assert f"pid {trainer.pid}, is stopped" in answer["finding"]["text"]
    missing = answer["finding"]["missing"]
    if address:
        assert "only the processes of the driver's host are in the bundle" in missing and answer["bundle"]
    else:
        assert any(what.startswith("the bundle cannot be written: ") for what in missing) and not answer["bundle"]
