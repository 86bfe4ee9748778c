"""The job runner: a trainer's whole life, with real processes. No Ray answers here: the evidence must not depend on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from fake_ray import WORKER_0_ID, WORKER_1_ID, FakeRay, node_rows
from runners import job, python, run, start

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.times import now
from mvp_helpers.job import run_job
from mvp_helpers.plan import plan
from mvp_helpers.record import control, job_folder, metrics, seal_request


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_trainer_that_ends_well_succeeds_and_its_output_is_kept(tmp_path: Path) -> None:
    folder = job(tmp_path, python("import os; print('hello', os.getcwd())"))
    code, out, result = run(folder)
    assert (code, result.state, result.exit_code) == (0, "SUCCEEDED", 0)
    assert folder.driver_log.read_text() == f"hello {folder.path}\n" == out
    assert result.driver_host == "worker-0"
    assert result.claimed_at <= str(result.started_at) <= str(result.ended_at)
    assert job_folder.active_ids(SharedRoot(tmp_path)) == []
    assert {path.name.split("-", 1)[1] for path in folder.debug.iterdir()} == {"started", "succeeded"}
    assert seal_request.ids(folder.shared, plan.read(folder).cluster) == [folder.submission_id]


LINES = [
    '{"step":1,"data":{"critic/score/mean":1e400}}',
    '{"step":1e400,"data":{}}',
    '{"step":%s,"data":{}}' % ("9" * 5000),
    '{"step":2,"data":{"a":%s}}' % ("[" * 100_000),
    '{"step":2,"data":{"a":%s}}' % ("[" * 900 + "]" * 900),
    '{"step":2,"data":{"a":"\\ud800","b":1e400,"\\u0000":NaN}}',
    '{"step":2,"data":{"a":"%s"}}' % ("x" * 3_000_000),
    "\0" * 70_000,
    '{"step":3,"data":{"train/loss":0.25}}',
]


def test_no_output_of_a_trainer_ends_the_runner(tmp_path: Path) -> None:
    trainer = tmp_path / "trainer.py"
    trainer.write_text(
        "import os, sys, time\n"
        "for line in open(sys.argv[1], 'rb'):\n"
        "    with open('metrics.jsonl', 'ab') as metrics: metrics.write(line)\n"
        "    os.write(1, line[:1_000_000] + b'\\xff\\x00\\x1b[2J Error' + b'A.' * 40_000)\n"
        "    time.sleep(0.3)\n"
        "os.mkfifo('precheck.json')\n"
        "os.write(2, b'\\nValueError: \\xed\\xa0\\x80 the end\\n')\n"
        "sys.exit(7)\n"
    )
    lines = tmp_path / "lines"
    lines.write_bytes("\n".join([*LINES, ""]).encode() + b"\xff\xfe\n")
    folder = job(tmp_path, ["python3", str(trainer), str(lines)])
    code, _, result = run(folder)
    assert (code, result.state, result.exit_code) == (7, "FAILED", 7)
    assert result.reason == "the trainer ended with exit code 7: ValueError: \ufffd\ufffd\ufffd the end"
    assert (result.steps_done, result.last_metrics) == (3, {"train/loss": 0.25})
    assert metrics.read(folder.metrics).damaged == [2, 3, 4, 5, 6, 7, 8, 10]


def test_a_jobs_variables_reach_the_trainer_and_none_changes_what_the_runner_imports(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nprint('customized', sys.orig_argv[1], flush=True)")
    (own / "msgspec.py").write_text("raise SystemExit('not the toolkit')")
    show = python("import os; print(os.environ['A'], os.environ['PYTHONPATH'], os.environ['RAY_JOB_CONFIG_JSON_ENV_VAR'])")
    folder = job(tmp_path, show, env_vars={"A": "b", "PYTHONPATH": str(own)})
    rays = {"metadata": {"job_name": "job1"}, "runtime_env": {"env_vars": {"A": "", "MVP_HOST": "w"}}}
    code, out, result = run(folder, RAY_JOB_CONFIG_JSON_ENV_VAR=json.dumps(rays), PYTHONPATH=str(own))
    assert (code, result.state) == (0, "SUCCEEDED"), out
    assert out.startswith(f"customized -c\nb {own} ")
    assert json.loads(out.split(maxsplit=4)[4])["runtime_env"]["env_vars"] == {"A": "b", "MVP_HOST": "w", "PYTHONPATH": str(own)}


def test_arguments_arrive_byte_for_byte(tmp_path: Path) -> None:
    nasty = ["", "a b", "it's", '"', "$(id)", "`id`", "new\nline", "ü漢", "\\", "*", "-x"]
    folder = job(tmp_path, [*python("import sys, json; print(json.dumps(sys.argv[1:]))"), *nasty])
    run(folder)
    assert json.loads(folder.driver_log.read_text()) == nasty


def test_a_failing_trainer_fails_with_its_exit_code_and_last_error(tmp_path: Path) -> None:
    code, _, result = run(job(tmp_path, python("import sys; print('x\\nValueError: too few', file=sys.stderr); sys.exit(7)")))
    assert (code, result.state, result.exit_code) == (7, "FAILED", 7)
    assert result.reason == "the trainer ended with exit code 7: ValueError: too few"


def test_a_killed_trainer_fails_with_the_signal(tmp_path: Path) -> None:
    code, _, result = run(job(tmp_path, python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")))
    assert (code, result.state, result.reason) == (137, "FAILED", "the trainer was killed by SIGKILL")


def test_a_trainer_that_lost_a_peer_ends_with_the_node_that_ray_gives_up_meanwhile(tmp_path: Path) -> None:
    with FakeRay() as ray:
        ray.has_cluster()
        ray.has_job("job1", "RUNNING")
        ray.answers["/api/jobs/"] = []
        for kind in ("actors", "placement_groups"):
            ray.has_rows(kind, [])
        summary = "/nodes?view=summary"

        def reports() -> object:  # each node has sent a new one at each question, worker-1 only at the first
            asked = ray.asked.count(summary)
            if asked > 1:
                ray.has_rows("nodes", [row | {"state": "DEAD"} if row["node_id"] == WORKER_1_ID else row for row in node_rows()])
            ray.has_reports(**{WORKER_0_ID: asked} | ({} if asked > 1 else {WORKER_1_ID: asked}))
            answer, ray.answers[summary] = ray.answers[summary], reports
            return answer

        ray.answers[summary] = reports
        lost = "RuntimeError: Read error [127.0.0.1]:59553: Connection reset by peer"
        folder = job(tmp_path, python(f"raise SystemExit({lost!r})"), address=ray.address)
        _, _, result = run(folder)
        assert result.state == "FAILED"
        (nodes,) = folder.debug.glob("*-failed/nodes.json")
        assert [row["node_id"] for row in json.loads(nodes.read_text()) if row["state"] == "DEAD"] == [WORKER_1_ID]


def test_a_program_that_is_not_there_fails_with_its_name(tmp_path: Path) -> None:
    code, _, result = run(job(tmp_path, ["/no/such/program"]))
    assert (code, result.state) == (127, "FAILED")
    assert "/no/such/program: No such file or directory" in result.reason


def test_steps_and_metrics_are_followed_while_the_trainer_runs(tmp_path: Path) -> None:
    lines = [json.dumps({"step": step, "data": {"loss": 1 / step}}) for step in (1, 2, 3)]
    folder = job(tmp_path, python(f"print({chr(10).join(lines)!r}, file=open('metrics.jsonl', 'w'))"))
    _, _, result = run(folder)
    assert (result.steps_done, result.last_metrics) == (3, {"loss": 1 / 3})


def test_a_stop_reaches_the_trainer_and_the_state_is_stopped(tmp_path: Path) -> None:
    on_stop = "lambda *_: (print('saved', flush=True), sys.exit(0))"
    code = f"import signal, sys, time; signal.signal(15, {on_stop}); print('up', flush=True); time.sleep(600)"
    folder = job(tmp_path, python(code))
    process = start(folder)
    wait_for(lambda: folder.driver_log.exists() and "up" in folder.driver_log.read_text(), "the trainer")
    process.send_signal(signal.SIGTERM)
    process.wait(120)
    result = job_folder.read(folder)
    assert (result.state, result.exit_code) == ("STOPPED", 0)
    assert "saved" in folder.driver_log.read_text(), "the trainer was not given the time to save"


def test_a_trainer_that_was_stopped_by_a_signal_takes_the_stop_at_once(tmp_path: Path) -> None:
    folder = job(tmp_path, python("import time; print('up', flush=True); time.sleep(600)"), stop_wait_s=600)
    process = start(folder)
    wait_for(lambda: folder.driver_log.exists() and "up" in folder.driver_log.read_text(), "the trainer")
    os.kill(int(job_folder.read(folder).trainer_pid or 0), signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    process.wait(120)
    assert (job_folder.read(folder).state, job_folder.read(folder).exit_code) == ("STOPPED", 128 + signal.SIGTERM)


def test_rays_stop_signal_to_every_process_and_a_second_one_reach_the_trainer_as_one_sigterm(tmp_path: Path) -> None:
    code = """if True:
        import os, signal, time
        signal.signal(15, lambda *_: print('SIGTERM', flush=True))
        print('up', flush=True)
        while not os.path.exists('end'): time.sleep(0.02)"""
    folder = job(tmp_path, python(code))
    process = start(folder)
    wait_for(lambda: folder.driver_log.exists() and "up" in folder.driver_log.read_text(), "the trainer")
    for pid, number in ((process.pid, 2), (job_folder.read(folder).trainer_pid, 2), (process.pid, 15)):
        os.kill(int(pid or 0), number)
        time.sleep(0.1)
    wait_for(lambda: "SIGTERM" in folder.driver_log.read_text(), "the signal")
    (folder.path / "end").touch()
    process.wait(120)
    assert folder.driver_log.read_text() == "up\nSIGTERM\n"
    assert (job_folder.read(folder).state, job_folder.read(folder).exit_code) == ("STOPPED", 0)


def test_a_job_whose_folder_is_moved_away_can_be_stopped_and_does_not_come_back(tmp_path: Path) -> None:
    folder = job(tmp_path, python("import time; print('trains', flush=True); time.sleep(60)"))
    process = start(folder)
    wait_for(lambda: folder.driver_log.exists() and "trains" in folder.driver_log.read_text(), "the trainer")
    wait_for(lambda: list(folder.debug.glob("2*-started")), "the first bundle")
    moved = folder.shared.jobs.rename(tmp_path / "moved")
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, out + errors
    assert "Traceback" not in out + errors
    assert not folder.path.exists() and (moved / folder.submission_id).is_dir()


def test_a_trainer_that_ignores_the_stop_is_killed_in_time(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    folder = job(tmp_path, python(code), stop_wait_s=1)
    process = start(folder)
    wait_for(lambda: folder.driver_log.exists() and "up" in folder.driver_log.read_text(), "the trainer")
    process.send_signal(signal.SIGTERM)
    process.wait(120)
    assert (job_folder.read(folder).state, job_folder.read(folder).exit_code) == ("STOPPED", 137)


def test_a_trainer_does_not_outlive_a_killed_runner(tmp_path: Path) -> None:
    folder = job(tmp_path, python("import time; time.sleep(600)"))
    process = start(folder)
    wait_for(lambda: job_folder.read(folder).trainer_pid, "the trainer")
    pid = job_folder.read(folder).trainer_pid
    assert pid and alive(pid)
    process.kill()
    process.wait()
    wait_for(lambda: not alive(pid), "the end of the trainer")


def test_a_grandchild_that_holds_the_output_open_does_not_keep_the_runner(tmp_path: Path) -> None:
    folder = job(tmp_path, ["sh", "-c", "setsid sleep 600 & echo $!"])
    process = start(folder)
    try:
        assert process.wait(120) == 0, "the runner waited for the grandchild"
        assert job_folder.read(folder).state == "SUCCEEDED"
    finally:
        os.kill(int(folder.driver_log.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("state", ["RUNNING", "STOPPED", "SUCCEEDED", "FAILED", "NOT_SUBMITTED"])
def test_a_folder_that_was_run_is_not_run_again(tmp_path: Path, state: str) -> None:
    folder = job(tmp_path, ["touch", "again"], state)
    before = folder.result.read_bytes()
    with pytest.raises(BadInput, match="was already run"):
        run_job.run(folder)
    assert folder.result.read_bytes() == before and not (folder.path / "again").exists()


def test_the_runner_waits_until_the_submitter_has_had_its_word(tmp_path: Path) -> None:
    folder = job(tmp_path, ["true"], "CLAIMED")

    def submitter() -> None:
        time.sleep(1)
        job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), state="SUBMITTED", submitted_at=now()))

    thread = threading.Thread(target=submitter)
    thread.start()
    _, _, result = run(folder)
    thread.join()
    assert result.state == "SUCCEEDED"
    assert result.submitted_at and result.submitted_at <= str(result.started_at)


def test_a_failed_precheck_blocks_and_the_trainer_never_starts(tmp_path: Path) -> None:
    folder = job(tmp_path, ["touch", "trained"], imports=["no_such_module"])
    code, _, result = run(folder)
    assert (code, result.state, result.exit_code) == (3, "BLOCKED", 3)
    assert "driver: cannot import no_such_module" in result.reason and "not part of a Ray job" in result.reason
    assert not (folder.path / "trained").exists()


def test_a_line_still_being_written_waits_for_the_next_look(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert metrics.tail(path) == (0, {})
    path.write_text('{"step": 1, "data": {"loss": 2}}\n{"step": 2, "da')
    assert metrics.tail(path) == (1, {"loss": 2})
    with path.open("a") as stream:
        stream.write('ta": {"loss": 1}}\nnot json\n')
    assert metrics.tail(path) == (2, {"loss": 1})


def test_a_trainer_that_can_save_is_asked_and_ends_by_itself(tmp_path: Path) -> None:
    """The trainer is a small program that answers as the hook in verl does; the checkpoints of its workload are not known."""
    code = """
import time
from pathlib import Path
from mvp_helpers.base.paths import JobFolder
from mvp_helpers.record import control
folder = JobFolder(Path.cwd())
control.set_trainer(folder, control.Trainer(supported=True, trainer='T', host='w', pid=1, written_at='2026'))
while not control.stop_request(folder):
    time.sleep(0.05)
control.set_saved(folder, control.Saved(step=19, path='/c', seconds=1, reason='stop', saved_at='2026'))
"""
    folder = job(tmp_path, python(code))
    process = start(folder)
    wait_for(lambda: control.trainer(folder), "the trainer")
    process.send_signal(signal.SIGTERM)
    process.wait(120)
    result = job_folder.read(folder)
    assert (result.state, result.reason, result.exit_code) == ("STOPPED", "stopped on request, saved at step 19", 0)


def test_a_trainer_that_does_not_save_in_its_time_gets_sigterm(tmp_path: Path) -> None:
    code = """
import time
from pathlib import Path
from mvp_helpers.base.paths import JobFolder
from mvp_helpers.record import control
folder = JobFolder(Path.cwd())
control.set_trainer(folder, control.Trainer(supported=True, trainer='T', host='w', pid=1, written_at='2026'))
time.sleep(600)
"""
    folder = job(tmp_path, python(code), stop_wait_s=3)
    process = start(folder)
    wait_for(lambda: control.trainer(folder), "the trainer")
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.wait(120)
    result = job_folder.read(folder)
    assert time.monotonic() - began >= 3 and (result.state, result.exit_code) == ("STOPPED", 128 + signal.SIGTERM)
    assert "not saved within 3 s (stop_wait_s)" in result.reason


@pytest.mark.parametrize(("variable", "warned"), [("4102444800", False), ("tomorrow", True)])
def test_a_deadline_is_left_for_the_trainer_and_a_wrong_one_is_said_in_the_log(
    tmp_path: Path, variable: str, warned: bool
) -> None:
    folder = job(tmp_path, python("print('trained')"))
    _, _, result = run(folder, MVP_DEADLINE=variable)
    assert result.state == "SUCCEEDED" and "trained" in folder.driver_log.read_text()
    found = control.deadline(folder)
    assert (found is None) == warned and (warned or (found and found.at == 4102444800.0))
    assert ("MVP_WARNING: the deadline is ignored: MVP_DEADLINE: 'tomorrow'" in folder.driver_log.read_text()) == warned


def test_a_python_without_pidfds_waits_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")  # as a build against old kernel headers, such as conda's
    child = subprocess.Popen([sys.executable, "-c", ""])
    run_job._waiting_for(child)(30)
    assert child.poll() == 0
