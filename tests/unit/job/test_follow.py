"""Following a job: phases from its files, endings that are true, and leaving early without touching the job."""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_ray import STATUS_TEXT, FakeRay

from mvp_helpers.base.errors import BadInput, TimedOut
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.times import now
from mvp_helpers.job import follow
from mvp_helpers.plan import plan
from mvp_helpers.record import job_folder, stall
from mvp_helpers.record.job_folder import Result
from mvp_helpers.record.metrics import Metrics

UNPLACED = "{'CPU': 1.0, 'worker_node': 500.0}: 1+ pending tasks/actors"


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRay]:
    monkeypatch.setattr(follow, "POLL_S", (0.01, 0.02))
    with FakeRay() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    claimed = job_folder.claim(SharedRoot(tmp_path), Result(submission_id="a", workload="ppo", state="CLAIMED"))
    set_state(claimed, state="SUBMITTED", submitted_at=now())
    return claimed


def set_state(folder: JobFolder, **fields: Any) -> None:
    job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), **fields))


def add_steps(folder: JobFolder, *steps: int, reward: float = 0.1, seconds: float = 3.0) -> None:
    line = '{"step":%d,"data":{"critic/score/mean":%g,"timing_s/step":%g}}\n'
    with folder.metrics.open("a") as stream:
        stream.write("".join(line % (step, reward * step, seconds) for step in steps))


class Said(list[str]):
    def saw(self, text: str) -> Callable[[], bool]:
        return lambda: any(text in line for line in self)


def acting(*stages: tuple[Callable[[], bool], Callable[[], object]]) -> threading.Thread:
    """Run each action as soon as its condition holds, one after the other."""

    def act() -> None:
        for ready, action in stages:
            deadline = time.monotonic() + 120
            while not ready() and time.monotonic() < deadline:
                time.sleep(0.005)
            action()

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def test_every_phase_is_one_plain_line_and_the_end_a_summary(folder: JobFolder, ray: FakeRay) -> None:
    said = Said()

    def last_step() -> None:
        add_steps(folder, 3)
        set_state(folder, state="SUCCEEDED", exit_code=0, ended_at=now())

    acting(
        (said.saw("queued"), lambda: set_state(folder, state="RUNNING", started_at=now(), steps_total=3)),
        (said.saw("precheck"), lambda: folder.precheck.write_text("{}")),
        (said.saw("loading model"), lambda: add_steps(folder, 1, 2)),
        (said.saw("step 2/3"), last_step),
    )
    result = follow.follow(folder, ray.api(), say=said.append)
    assert result.state == "SUCCEEDED"
    # Whether the moment between the last step and the end is seen depends on the machine.
    assert [re.sub(r"[\d.]+s\b", "_", line) for line in said if not line.startswith("a: saving,")] == [
        "a: queued, elapsed _",
        "a: precheck, elapsed _",
        "a: loading model, elapsed _",
        "a: step 2/3, elapsed _, ETA _, 3.0 s/step, reward 0.2",
        f"SUCCEEDED in _: 3 steps, reward 0.1 → 0.3; {folder.path}",
    ]


def test_a_failed_job_ends_with_its_reason(folder: JobFolder, ray: FakeRay) -> None:
    set_state(folder, state="FAILED", reason="the trainer ended with exit code 1", ended_at=now())
    said = Said()
    assert follow.follow(folder, ray.api(), say=said.append).state == "FAILED"
    assert said[-1].endswith(f": the trainer ended with exit code 1; {folder.path}")


def test_a_job_whose_runner_died_does_not_hang_its_follower(
    folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "ASK_RAY_S", 0.05)
    set_state(folder, state="RUNNING")
    ray.has_job("a", "FAILED", message="the worker node died")
    assert follow.follow(folder, ray.api(), say=Said().append).reason == "the worker node died"


def test_what_ray_said_of_a_waiting_job_is_not_said_of_a_running_one(
    folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "ASK_RAY_S", 0.0)
    monkeypatch.setattr(follow, "PLAIN_LINE_S", 0.02)
    ray.has_job("a", "PENDING", message="It may be waiting for resources")
    said = Said()

    def start() -> None:
        ray.delays["/api/jobs/a"] = 5.0
        set_state(folder, state="RUNNING", started_at=now())

    def end() -> None:
        set_state(folder, state="SUCCEEDED", ended_at=now())

    acting((said.saw("Ray reports PENDING"), start), (said.saw("precheck"), end))
    follow.follow(folder, ray.api(), say=said.append)
    assert not [line for line in said if "precheck" in line and "PENDING" in line]


def test_a_job_that_does_not_start_says_what_ray_lacks_and_stays_as_it_is(folder: JobFolder, ray: FakeRay) -> None:
    ray.has_job("a", "PENDING", message="It may be waiting for resources")
    status = STATUS_TEXT.replace("(no resource demands)", UNPLACED)
    ray.answers["/api/cluster_status?format=1"] = {"data": {"clusterStatus": status}}
    before = folder.result.read_bytes()
    with pytest.raises(TimedOut) as caught:
        follow.follow(folder, ray.api(), pending_timeout_s=0.05, say=Said().append)
    assert "has not started after" in caught.value.what
    assert "Ray reports PENDING: It may be waiting for resources" in caught.value.what
    assert f"no free node for {UNPLACED}" in caught.value.what
    assert "51_logs.sh a -f" in caught.value.hint and "52_stop.sh a" in caught.value.hint
    assert folder.result.read_bytes() == before


def test_a_runner_that_writes_elsewhere_is_suspected(folder: JobFolder, ray: FakeRay) -> None:
    ray.has_job("a", "RUNNING")
    ray.answers["/api/cluster_status?format=1"] = {"data": {"clusterStatus": STATUS_TEXT}}
    with pytest.raises(TimedOut, match="same shared root"):
        follow.follow(folder, ray.api(), pending_timeout_s=0.05, say=Said().append)


def test_a_timeout_leaves_the_job_running(folder: JobFolder, ray: FakeRay) -> None:
    set_state(folder, state="RUNNING", steps_total=9)
    add_steps(folder, 4)
    with pytest.raises(TimedOut, match=r"still runs \(step 4/9\)") as caught:
        follow.follow(folder, ray.api(), timeout_s=0.05, say=Said().append)
    assert caught.value.exit_code == 4 and "51_logs.sh a -f" in caught.value.hint
    assert job_folder.read(folder).state == "RUNNING"


def test_ctrl_c_leaves_the_job_running_and_says_so(folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mvp_helpers.job.follow.time.sleep", interrupt)
    said = Said()
    with pytest.raises(KeyboardInterrupt):
        follow.follow(folder, ray.api(), say=said.append)
    assert said[-1] == "no longer following; the job continues: ./scripts/51_logs.sh a -f"


def test_a_trainer_that_stalls_is_noted_once(folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall, "LEAST_S", 0.1)
    set_state(folder, state="RUNNING", steps_total=9)
    add_steps(folder, 1, 2, 3, seconds=0.01)
    said = Said()
    with pytest.raises(TimedOut):
        follow.follow(folder, ray.api(), timeout_s=0.4, say=said.append)
    notes = [line for line in said if line.startswith("no new step for")]
    assert len(notes) == 1 and str(folder.driver_log) in notes[0]


def test_the_runners_finding_about_a_stall_is_shown_until_the_next_step(folder: JobFolder, ray: FakeRay) -> None:
    set_state(folder, state="RUNNING", steps_total=9)
    add_steps(folder, 1, 2, 3)
    found = stall.Stall(step=3, noticed_at=now(), limit_s=60, cause="rank 1 is stopped", bundle="debug/X-stalled")
    set_state(folder, stalls=[found])
    said = Said()
    acting(
        (said.saw("rank 1 is stopped"), lambda: set_state(folder, stalls=[msgspec.structs.replace(found, resumed_at=now())])),
        (said.saw("the run goes on"), lambda: set_state(folder, state="STOPPED", ended_at=now())),
    )
    follow.follow(folder, ray.api(), say=said.append)
    why = [line for line in said if line.startswith("no step after step 3 within 1m00s: rank 1 is stopped; debug/X-stalled in ")]
    assert len(why) == 1, said
    assert "a new step came; the run goes on" in said


def test_a_terminal_gets_one_line_redrawn(folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen, said = Terminal(), Said()
    monkeypatch.setattr("mvp_helpers.job.follow.sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    set_state(folder, state="RUNNING")
    add_steps(folder, 1)
    acting((lambda: "step 1" in screen.getvalue(), lambda: set_state(folder, state="STOPPED", ended_at=now())))
    follow.follow(folder, ray.api(), say=said.append)
    drawn = screen.getvalue()
    assert "\n" not in drawn and drawn.endswith("\r\x1b[K")
    assert max(len(part) for part in drawn.replace("\x1b[K", "").split("\r")) <= 29
    assert len(said) == 1, "a terminal needs no plain lines but the summary"


def test_a_terminal_gets_the_curve_of_the_reward_at_the_end_and_a_file_does_not(
    folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_steps(folder, 1, 2, 3)
    set_state(folder, state="SUCCEEDED", ended_at=now())
    said = Said()
    follow.follow(folder, ray.api(), say=said.append)
    assert len(said) == 1
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("mvp_helpers.job.follow.sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    said.clear()
    follow.follow(folder, ray.api(), say=said.append)
    assert said[0] == "reward" and any("█" in line for line in said) and said[-1].startswith("SUCCEEDED")


def test_a_plain_command_is_running_where_a_trainer_is_prechecked(
    folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoImports:
        imports: tuple[str, ...] = ()
        stall = stall.StallLimits()

    monkeypatch.setattr(plan, "read", lambda _: NoImports)
    set_state(folder, state="RUNNING")
    said = Said()
    with pytest.raises(TimedOut):
        follow.follow(folder, ray.api(), timeout_s=0.03, say=said.append)
    assert said[0].startswith("a: running")


def test_a_job_folder_that_vanishes_is_said(folder: JobFolder, ray: FakeRay) -> None:
    folder.result.unlink()
    with pytest.raises(BadInput, match=r"has no result\.json"):
        follow.follow(folder, ray.api(), say=Said().append)


def test_metrics_are_read_as_they_grow(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path)
    assert not metrics.refresh(), "a missing file has no steps yet"
    path.write_text('{"step":0,"data":{"val/x":1}}\n{"step":1,"da')
    assert metrics.refresh() and metrics.last == 0, "half a line is left for the next look"
    with path.open("a") as stream:
        stream.write('ta":{"train/loss":5.0}}\nnonsense\n{"step":1,"data":{"val/loss":4.0}}\n')
    assert metrics.refresh()
    assert metrics.steps[1] == {"train/loss": 5.0, "val/loss": 4.0} and metrics.trained == [1]
    assert metrics.damaged == [3]
