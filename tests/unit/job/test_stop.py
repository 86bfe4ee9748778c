"""Stopping jobs: who is asked, what becomes of their folders, and that exactly their processes are gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_ray import FakeRay
from toys import plan_of

from mvp_helpers.base import processes
from mvp_helpers.base.errors import BadInput, Blocked, Failed, TimedOut
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.base.times import now
from mvp_helpers.cluster import cluster_file, ray_node
from mvp_helpers.cluster.node_record import NodePaths, Record
from mvp_helpers.job import stop
from mvp_helpers.plan import environment, plan
from mvp_helpers.record import control, job_folder
from mvp_helpers.record.control import Saved, Trainer
from mvp_helpers.record.job_folder import Result

STOP = "POST /api/jobs/a/stop"
HOOK = plan.SETUP_HOOK.rpartition(".")[::2]
CLUSTER = cluster_file.load("local")


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return a_job(tmp_path, "a", "RUNNING")


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRay]:
    for name in ("POLL_S", "NEVER_STARTED_S"):
        monkeypatch.setattr(stop, name, 0.02)
    with FakeRay() as server:
        server.has_cluster()
        server.has_rows("actors", [])
        server.has_rows("placement_groups", [])
        server.answers["/api/jobs/"] = []
        yield server


def a_job(root: Path, name: str, state: str) -> JobFolder:
    folder = job_folder.claim(SharedRoot(root), Result(submission_id=name, workload="echo", state="CLAIMED"))
    folder.resolved.write_text(plan.to_yaml(msgspec.structs.replace(plan_of(name, root), stop_wait_s=7)))
    set_state(folder, state=state)
    return folder


def set_state(folder: JobFolder, **fields: Any) -> None:
    job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), **fields))


def stops(ray: FakeRay, folder: JobFolder, status: str, **fields: Any) -> None:
    """From the request on, Ray says ``status``, and the job runner has written ``fields``."""

    def act() -> dict[str, bool]:
        ray.has_job(folder.submission_id, status)
        if fields:
            set_state(folder, ended_at=now(), **fields)
        return {"stopped": True}

    ray.has_job(folder.submission_id, "RUNNING")
    ray.answers[f"POST /api/jobs/{folder.submission_id}/stop"] = act


def bundles(folder: JobFolder) -> list[str]:
    return [path.name.partition("-")[2] for path in folder.debug.iterdir()]


def test_a_running_job_is_told_once_and_its_own_ending_is_kept(folder: JobFolder, ray: FakeRay) -> None:
    stops(ray, folder, "STOPPED", state="STOPPED", reason="stopped on request", exit_code=0)
    said: list[str] = []
    [result] = stop.stop([folder], ray.api(), said.append)
    assert (result.state, result.reason, result.exit_code) == ("STOPPED", "stopped on request", 0)
    assert ray.asked.count(STOP) == 1
    assert said[0] == "a: asked to stop; its trainer has 7 s to end"
    assert bundles(folder) == ["stopped"]


@pytest.mark.parametrize("anew", [False, True], ids=["gone", "made anew by its trainer"])
def test_a_job_whose_folder_was_moved_away_is_stopped_by_ray(folder: JobFolder, ray: FakeRay, anew: bool) -> None:
    stops(ray, folder, "STOPPED")
    other = a_job(folder.shared.root, "other", "SUCCEEDED")
    folder.path.rename(folder.path.with_name("moved"))
    if anew:
        (folder.path / "rollouts").mkdir(parents=True)
    said: list[str] = []
    results = stop.stop([folder, other], ray.api(), said.append)
    assert [(result.submission_id, result.state) for result in results] == [("a", "STOPPED"), ("other", "SUCCEEDED")]
    assert "a: its folder" in said[0] and "is gone" in said[0] and "Ray reports STOPPED" in said[1]
    assert ray.asked.count(STOP) == 1 and folder.path.exists() == anew and not folder.result.exists()


def test_an_id_that_neither_ray_nor_a_folder_knows_is_refused(folder: JobFolder, ray: FakeRay) -> None:
    ray.lacks_job("none")
    with pytest.raises(BadInput, match="job 'none' does not exist"):
        stop.stop([folder.shared.job("none")], ray.api(), lambda _: None)


def test_the_bundle_that_the_runner_took_is_enough(folder: JobFolder, ray: FakeRay) -> None:
    (folder.debug / "20260101T000000.000Z-stopped").mkdir(parents=True)
    stops(ray, folder, "STOPPED", state="STOPPED")
    stop.stop([folder], ray.api(), lambda _: None)
    assert bundles(folder) == ["stopped"]


def test_a_job_whose_runner_left_no_word_gets_it_from_ray(folder: JobFolder, ray: FakeRay) -> None:
    stops(ray, folder, "STOPPED")
    assert stop.stop([folder], ray.api(), lambda _: None)[0].state == "STOPPED"
    assert job_folder.read(folder).state == "STOPPED" and bundles(folder) == ["stopped"]


def test_ray_is_waited_for_after_the_runners_last_word(folder: JobFolder, ray: FakeRay) -> None:
    answers = iter(["RUNNING", "RUNNING", "RUNNING", "STOPPED"])
    stops(ray, folder, "RUNNING", state="STOPPED")
    api, known = ray.api(), ray.answers["/api/jobs/a"]
    act = ray.answers[STOP]

    def told() -> Any:
        answer = act()
        ray.answers["/api/jobs/a"] = lambda: {**known, "status": next(answers, "STOPPED")}
        return answer

    ray.answers[STOP] = told
    stop.stop([folder], api, lambda _: None)
    assert next(answers, None) is None, "returned while Ray was still ending the job's processes"


def test_a_job_that_waits_for_resources_becomes_stopped(folder: JobFolder, ray: FakeRay) -> None:
    set_state(folder, state="SUBMITTED")
    ray.has_job("a", "PENDING")
    ray.answers[STOP] = {"stopped": True}
    [result] = stop.stop([folder], ray.api(), lambda _: None)
    assert (result.state, result.reason) == ("STOPPED", "stopped on request, before it started")
    assert job_folder.read(folder) == result and job_folder.active_ids(SharedRoot(folder.path.parents[1])) == []
    assert bundles(folder) == ["stopped"]


@pytest.mark.parametrize("state", sorted(job_folder.TERMINAL))
def test_a_job_that_has_ended_is_left_as_it_is(folder: JobFolder, ray: FakeRay, state: str) -> None:
    set_state(folder, state=state, reason="because")
    before = folder.result.read_bytes()
    said: list[str] = []
    assert stop.stop([folder], ray.api(), said.append)[0].state == state
    assert said == [f"a: has already ended, {state} (because)"]
    assert not ray.asked and folder.result.read_bytes() == before


def test_several_jobs_are_all_told_before_one_is_waited_for(tmp_path: Path, ray: FakeRay) -> None:
    one, other, over = (a_job(tmp_path, name, "RUNNING") for name in ("a", "b", "c"))
    set_state(over, state="SUCCEEDED")
    ray.has_job("a", "RUNNING")
    ray.answers[STOP] = {"stopped": True}
    stops(ray, other, "STOPPED", state="STOPPED")
    act = ray.answers["POST /api/jobs/b/stop"]

    def told() -> Any:
        set_state(one, state="STOPPED")
        ray.has_job("a", "STOPPED")
        return act()

    ray.answers["POST /api/jobs/b/stop"] = told
    results = stop.stop([one, other, over], ray.api(), lambda _: None)
    assert [(result.submission_id, result.state) for result in results] == [
        ("a", "STOPPED"),
        ("b", "STOPPED"),
        ("c", "SUCCEEDED"),
    ]


def test_a_job_that_goes_on_is_said_and_not_written(folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop, "MARGIN_S", -6.9)
    stops(ray, folder, "RUNNING")
    with pytest.raises(TimedOut, match="job 'a' has not ended"):
        stop.stop([folder], ray.api(), lambda _: None)
    assert job_folder.read(folder).state == "RUNNING"


def test_without_ray_nothing_is_stopped(folder: JobFolder, ray: FakeRay) -> None:
    api = ray.api()
    ray.close()
    with pytest.raises(Blocked, match="does not answer"):
        stop.stop([folder], api, lambda _: None)
    assert job_folder.read(folder).state == "RUNNING"


def test_a_job_that_ray_does_not_have_yet_is_said(folder: JobFolder, ray: FakeRay) -> None:
    set_state(folder, state="CLAIMED")
    ray.lacks_job("a")
    ray.answers[STOP] = 404
    with pytest.raises(Blocked, match=r"Ray has no job 'a' yet \(being submitted\)"):
        stop.stop([folder], ray.api(), lambda _: None)


def test_a_refusal_of_ray_is_said(folder: JobFolder, ray: FakeRay) -> None:
    ray.has_job("a", "RUNNING")
    ray.answers[STOP] = 500
    with pytest.raises(Blocked, match="answers /api/jobs/a/stop with HTTP 500"):
        stop.stop([folder], ray.api(), lambda _: None)


def test_ctrl_c_leaves_the_stop_going_on_and_says_so(folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        if seconds == stop.POLL_S:
            raise KeyboardInterrupt

    stops(ray, folder, "RUNNING")
    monkeypatch.setattr("mvp_helpers.job.stop.time.sleep", interrupt)
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        stop.stop([folder], ray.api(), said.append)
    assert said[-1] == "no longer waiting; the stop continues: ./scripts/50_status.sh"


@pytest.fixture
def started() -> Iterator[Callable[[JobFolder, str], subprocess.Popen[bytes]]]:
    """Starts processes of a job; ends what a test leaves."""
    processes = []

    def start(folder: JobFolder, code: str) -> subprocess.Popen[bytes]:
        variables = {"PATH": os.environ["PATH"], environment.JOB_FOLDER: str(folder.path)}
        code = f"import signal, time; {code}; print(flush=True); time.sleep(60)"
        process = subprocess.Popen([sys.executable, "-c", code], env=variables, stdout=subprocess.PIPE)
        assert process.stdout
        process.stdout.readline()
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_what_an_ended_job_left_is_ended_and_nothing_else(
    tmp_path: Path, started: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop, "LEAVE_S", 0.3)
    ended, other = a_job(tmp_path, "a", "STOPPED"), a_job(tmp_path, "a-2", "RUNNING")
    polite, stubborn = started(ended, "0"), started(ended, "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    untouched = started(other, "signal.signal(signal.SIGTERM, lambda *_: time.sleep(0))")
    said: list[str] = []
    stop.end_leftovers(CLUSTER, ended, "worker-0", said.append)
    assert (polite.wait(120), stubborn.wait(120)) == (-15, -9)
    time.sleep(0.2)
    assert untouched.poll() is None
    assert said[-1] == "worker-0: no process of job 'a' is left"
    assert {line.split("pid ")[1].split()[0] for line in said[:-1]} == {str(polite.pid), str(stubborn.pid)}


def orphan(mark: str, tmp_path: Path) -> int:
    """Start a process with an emptied environment, in a session of its own, whose parents have ended; return its id."""
    code = f"""if True:
        import subprocess
        from mvp_helpers.base import processes
        {mark}
        shell = "env -i setsid sleep 60 >/dev/null 2>&1 & echo $!"
        print(subprocess.check_output(["sh", "-c", shell], text=True), flush=True)"""
    python_path = os.environ | {"PYTHONPATH": str(PROJECT / "lib")}
    pid = int(subprocess.check_output([sys.executable, "-c", code], env=python_path, text=True))
    while processes.command(pid) != "sleep 60":
        time.sleep(0.01)
    return pid


def test_what_a_job_left_is_ended_although_it_emptied_its_environment_and_lost_its_parents(tmp_path: Path) -> None:
    ended, other = a_job(tmp_path, "a", "STOPPED"), a_job(tmp_path, "a-2", "RUNNING")
    left, untouched = (orphan(f"processes.mark({str(folder.path)!r})", tmp_path) for folder in (ended, other))
    try:
        said: list[str] = []
        stop.end_leftovers(CLUSTER, ended, "worker-0", said.append)
        assert processes.start_time(left) is None and processes.start_time(untouched) is not None
        assert said == [
            f"worker-0: ended a process that job 'a' had left: pid {left} (sleep 60)",
            "worker-0: no process of job 'a' is left",
        ]
    finally:
        os.kill(untouched, signal.SIGKILL)


def test_what_a_ray_worker_of_the_job_left_is_ended_too(tmp_path: Path) -> None:
    ended = a_job(tmp_path, "a", "STOPPED")
    setup = f"import os; os.environ['MVP_JOB_FOLDER'] = {str(ended.path)!r}; from {HOOK[0]} import {HOOK[1]}; {HOOK[1]}()"
    left = orphan(f"processes.mark('local.worker-0.x', node=True); {setup}", tmp_path)
    stop.end_leftovers(CLUSTER, ended, "worker-0", lambda _: None)
    assert processes.start_time(left) is None


def test_an_orphan_of_a_ray_worker_of_no_known_job_is_named_and_ended_with_its_node(tmp_path: Path) -> None:
    cluster = msgspec.structs.replace(CLUSTER, state_dir=str(tmp_path / "state"))
    paths = NodePaths(cluster, "worker-0")
    paths.folder.mkdir(parents=True)
    instance = f"local.worker-0.{os.urandom(8).hex()}"
    unset = dict.fromkeys(("boot_id", "ip", "ray_version", "python_version", "started_at"), "")
    node = Record(instance=instance, role="worker", **unset)
    paths.write(node)
    unknown = orphan(f"processes.mark({node.instance!r}, node=True)", tmp_path)
    of_a_job = orphan(f"processes.mark({node.instance!r}, node=True); processes.mark('/jobs/other')", tmp_path)
    said: list[str] = []
    stop.end_leftovers(cluster, a_job(tmp_path, "a", "STOPPED"), "worker-0", said.append)
    assert said == [
        f"worker-0: pid {unknown} (sleep 60) may be of job 'a' or of another: 02_down.sh ends it",
        "worker-0: no other process of job 'a' is left",
    ]
    assert ray_node.stop(cluster, "worker-0") == "stopped"
    assert [processes.start_time(pid) for pid in (unknown, of_a_job)] == [None, None]


def test_processes_that_go_by_themselves_are_not_hurried(tmp_path: Path, started: Callable[..., subprocess.Popen[bytes]]) -> None:
    folder = a_job(tmp_path, "a", "SUCCEEDED")
    started(folder, "time.sleep(0.3); import os; os._exit(0)")
    said: list[str] = []
    stop.end_leftovers(CLUSTER, folder, "worker-0", said.append)
    assert said == ["worker-0: no process of job 'a' is left"]


def test_a_job_that_has_not_ended_keeps_its_processes(folder: JobFolder, started: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = started(folder, "0")
    with pytest.raises(BadInput, match="job 'a' has not ended"):
        stop.end_leftovers(CLUSTER, folder, "worker-0", lambda _: None)
    assert process.poll() is None


def test_a_process_that_cannot_be_ended_is_said(
    folder: JobFolder, started: Callable[[JobFolder, str], subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_state(folder, state="STOPPED")
    monkeypatch.setattr(stop, "LEAVE_S", 0.0)
    monkeypatch.setattr("mvp_helpers.base.processes.end", lambda find, *_: find())
    with pytest.raises(Failed, match=f"worker-0: 1 processes of job 'a' cannot be ended: {started(folder, '0').pid}"):
        stop.end_leftovers(CLUSTER, folder, "worker-0", lambda _: None)


def test_without_ray_the_job_runner_is_told_and_its_last_word_awaited(
    folder: JobFolder, started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    ending = folder.path / "ending.json"
    ending.write_text(folder.result.read_text().replace("RUNNING", "STOPPED"))
    move = f"os.rename({str(ending)!r}, {str(folder.result)!r})"
    code = f"import os; signal.signal(signal.SIGTERM, lambda *_: ({move}, exit(0))); 'run-job {folder.path}'"
    runner, trainer = started(folder, code), started(folder, "0")
    said: list[str] = []
    stop.stop_here(folder, "worker-0", said.append)
    assert runner.wait(120) == 0 and trainer.poll() is None
    assert said == ["worker-0: job 'a': asked to stop; its trainer has 7 s to end"]


def test_without_ray_a_host_without_the_runner_has_nothing_to_do(
    folder: JobFolder, started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    elsewhere, other = started(folder, f"'run-job {folder.path}'"), started(folder, "'another process of the job'")
    set_state(folder, driver_host="worker-0")
    stop.stop_here(folder, "worker-1", lambda text: pytest.fail(text))
    assert elsewhere.poll() is None
    elsewhere.kill()
    elsewhere.wait()
    stop.stop_here(folder, "worker-0", lambda text: pytest.fail(text))
    assert other.poll() is None


def test_without_ray_a_runner_that_goes_on_is_said(
    folder: JobFolder, started: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop, "MARGIN_S", -6.5)
    started(folder, f"signal.signal(signal.SIGTERM, signal.SIG_IGN); 'run-job {folder.path}'")
    with pytest.raises(TimedOut, match="worker-0: job 'a' has not ended"):
        stop.stop_here(folder, "worker-0", lambda _: None)


def train(folder: JobFolder, steps: int) -> None:
    folder.metrics.write_text("".join(f'{{"step": {step}, "data": {{"loss": 1.0}}}}\n' for step in range(1, steps + 1)))


def say_supported(folder: JobFolder, problem: str = "", step_s: float | None = None) -> None:
    trainer = Trainer(
        supported=not problem, trainer="SFTTrainer", problem=problem, host="w", pid=1, written_at=now(), step_s=step_s, save_s=1.0
    )
    control.set_trainer(folder, trainer)


def be(folder: JobFolder, workload: str) -> None:
    """Make the job one of that workload."""
    folder.resolved.write_text(plan.to_yaml(msgspec.structs.replace(plan.read(folder), workload=workload)))


@pytest.fixture
def ray_is_asked_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray is asked 0.1 s after the request, not long after the trainer's seven seconds."""
    monkeypatch.setattr(environment, "LAST_WORD_S", -6.9)


@pytest.mark.usefixtures("ray_is_asked_soon")
def test_a_trainer_that_can_save_is_asked_in_the_job_folder(folder: JobFolder, ray: FakeRay) -> None:
    say_supported(folder)
    stops(ray, folder, "SUCCEEDED", state="STOPPED", reason="stopped on request, saved at step 19")
    said: list[str] = []
    stop.stop([folder], ray.api(), said.append)
    request = control.stop_request(folder)
    assert request and not request.now
    assert said[0] == "a: asked to finish its step, save and stop; it has 7 s (stop_wait_s), --now does not wait"
    assert ", stopped on request, saved at step 19; " in said[1]


@pytest.mark.usefixtures("ray_is_asked_soon")
def test_a_step_that_takes_longer_than_the_time_there_is_is_announced(folder: JobFolder, ray: FakeRay) -> None:
    say_supported(folder, step_s=300)
    stops(ray, folder, "STOPPED", state="STOPPED")
    said: list[str] = []
    stop.stop([folder], ray.api(), said.append)
    assert "a step and a save took up to 301 s: steps that are not saved in time are lost" in said[0]


@pytest.mark.parametrize("problem", ["", "its fit is different"])
def test_a_trainer_that_cannot_be_asked_and_has_steps_to_lose_goes_on(folder: JobFolder, ray: FakeRay, problem: str) -> None:
    other = a_job(folder.path.parents[1], "b", "RUNNING")
    be(folder, "sft")
    train(folder, 9)
    if problem:
        say_supported(folder, problem)
    with pytest.raises(stop.GoesOn) as error:
        stop.stop([other, folder], ray.api(), lambda _: None)
    why = f" ({problem})" if problem else ""
    assert error.value.what == f"job 'a' cannot be asked to save{why}; no checkpoint was saved, 9 steps will be lost"
    assert "--now a" in error.value.hint and error.value.exit_code == 4
    assert not [call for call in ray.asked if call.endswith("/stop")], "one of the jobs was stopped"


def test_now_stops_it_and_asks_for_nothing_to_be_saved(folder: JobFolder, ray: FakeRay) -> None:
    be(folder, "sft")
    train(folder, 9)
    say_supported(folder)
    stops(ray, folder, "STOPPED", state="STOPPED")
    said: list[str] = []
    assert stop.stop([folder], ray.api(), said.append, at_once=True)[0].state == "STOPPED"
    request = control.stop_request(folder)
    assert request and request.now and "asked to stop; its trainer has 7 s to end" in said[0]


def test_a_save_waits_for_its_own_checkpoint(folder: JobFolder, ray: FakeRay) -> None:
    ray.has_job("a", "RUNNING")
    say_supported(folder)
    before = Saved(step=4, path="/c/4", seconds=1, reason="save", request_id="earlier", saved_at="2020-01-01T00:00:00Z")
    control.set_saved(folder, before)

    def answer() -> None:
        request = None
        for _ in range(500):
            if request := control.save_request(folder):
                break
            time.sleep(0.01)
        assert request, "nothing was asked"
        time.sleep(0.2)
        control.set_saved(folder, msgspec.structs.replace(before, step=9, path="/c/9", request_id=request.id))

    trainer = threading.Thread(target=answer)
    trainer.start()
    [(which, saved)] = stop.save([folder], ray.api(), lambda _: None)
    trainer.join()
    assert (which, saved.step, saved.path) == (folder, 9, "/c/9")


@pytest.mark.parametrize(
    ("trained", "problem", "why"),
    [
        (0, "", "has not begun to train"),
        (3, "", "does not look for requests"),
        (3, "its fit is different", "its fit"),
    ],
)
def test_a_save_that_nobody_would_write_is_refused(folder: JobFolder, ray: FakeRay, trained: int, problem: str, why: str) -> None:
    ray.has_job("a", "RUNNING")
    train(folder, trained)
    if problem:
        say_supported(folder, problem)
    with pytest.raises(stop.GoesOn, match=f"cannot be asked to save: .*{why}"):
        stop.save([folder], ray.api(), lambda _: None)
    assert control.save_request(folder) is None


def test_a_save_of_a_job_that_has_ended_is_bad_input(folder: JobFolder, ray: FakeRay) -> None:
    set_state(folder, state="SUCCEEDED")
    with pytest.raises(BadInput, match="job 'a' has ended, SUCCEEDED"):
        stop.save([folder], ray.api(), lambda _: None)


def test_a_save_that_does_not_come_times_out_and_a_job_that_ends_instead_fails(
    folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray.has_job("a", "RUNNING")
    say_supported(folder)
    monkeypatch.setattr(stop, "_time_given", lambda _: 0.1)
    with pytest.raises(TimedOut, match=r"has not saved 0\.1 s after it was asked; it will at the end of its step"):
        stop.save([folder], ray.api(), lambda _: None)
    monkeypatch.setattr(stop, "_refuse_save", lambda *_: None)
    set_state(folder, state="FAILED", reason="the trainer ended with exit code 1")
    monkeypatch.setattr(stop, "_time_given", lambda _: 5)
    with pytest.raises(Failed, match="ended before it saved: FAILED, the trainer ended with exit code 1"):
        stop.save([folder], ray.api(), lambda _: None)
