"""The job runner: the Ray job's entrypoint, on a worker. Proves the imports, runs the trainer as a child, keeps the evidence.

It stays light (no Ray, no torch) and writes everything into the job folder, so the evidence outlives the submitter, the head and
Ray's own logs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import IO, Any

import msgspec

from ..base import files, processes
from ..base.documents import Damaged, read_as, read_json
from ..base.errors import BadInput, MvpError
from ..base.mask import Mask
from ..base.paths import JobFolder
from ..base.times import now
from ..cluster import ray_api
from ..plan import deadline, environment, plan
from ..plan.plan import Plan
from ..record import (
    control,
    debug_bundle,
    error_lines,
    job_folder,
    log_times,
    lost_nodes,
    metrics,
    seal_request,
    wall_time,
)
from ..record.job_folder import Result
from ..trainers import verl_rollouts
from ..usage import sampler
from . import import_proof, job_secrets, stall_watch, stopping

HAND_OVER_S = 10.0
"""How long a CLAIMED job folder is the submitter's before the runner takes it over (the submitter must have died)."""
POLL_S = 0.5
ROOM_WAIT_S = 600.0
"""Time in which somebody makes room on a full disk for the last word; Ray's job runs meanwhile, without its trainer."""
PIPE_BYTES = 1 << 20
"""How much a trainer can print before it waits for us; the most that Linux grants to anybody."""
PIECE_BYTES = 1 << 16
"""Read at once: memory of this size is used again; larger pieces get new pages each time, at three times the cost of copying."""
RECORDS_VISIBLE_S = 60.0
"""How long a record of another host may take to appear on a network file system."""


class _Precheck(msgspec.Struct):
    """What we need of ``precheck.json``."""

    problems: list[str] = []
    steps_total: int | None = None


class Runner:
    """One run of one job folder."""

    def __init__(self, folder: JobFolder) -> None:
        self.folder = folder
        self.plan: Plan = plan.read(folder)
        self.result: Result = self._take_over()
        self.api = ray_api.inherited(self.plan.address)
        self.child: subprocess.Popen[bytes] | None = None
        self.stopping = stopping.Stopping(folder, self.plan.stop_wait_s)
        self.stall_watch: stall_watch.StallWatch | None = None
        self.last_error_line = ""
        self._mid_line = False
        self._records_imports = import_proof.by_the_trainer(self.plan)
        self._imports_proven = False
        self._trains_since: float | None = None
        self._metrics_size = 0
        self._account: wall_time.Account | None = None
        self._environment = _of_trainer(self.plan)
        self.secrets = job_secrets.read(folder.secrets)
        self._mask = Mask(self.secrets.values())
        self._signalled = False
        """Ray's stop, or the end of its node, has reached this process."""

    def _take_over(self) -> Result:
        """Wait until the submitter has had its word, then refuse a folder that was run before."""
        deadline = time.monotonic() + HAND_OVER_S
        while (result := job_folder.read(self.folder)).state == "CLAIMED" and time.monotonic() < deadline:
            time.sleep(0.05)
        if result.state not in ("CLAIMED", "SUBMITTED"):
            raise BadInput(
                f"the job folder {self.folder.path} was already run (state {result.state}); a job folder is never reused",
                hint="submit the JobSpec again under a new id",
            )
        return result

    def run(self) -> int:
        """Run the job to its end; returns the trainer's exit code (3 when the precheck blocks it, 128+n for a signal)."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        processes.mark(str(self.folder.path))
        self.result.state, self.result.started_at = "RUNNING", now()
        self.result.driver_host = os.environ.get("MVP_HOST") or socket.gethostname()
        self._locate()
        self._begin_account()
        self._save()
        samples = sampler.start(self.folder, self.result.driver_node_id)
        start = threading.Thread(target=self._bundle, args=("started",))
        start.start()
        with self.folder.driver_log.open("ab", buffering=0) as log:
            self.log = files.PatientFile(log)
            # A daemon: a disk that hangs must not hold up the last word.
            ended = threading.Event()
            times = threading.Thread(target=log_times.keep, args=(self.folder.log_times, log, ended), daemon=True)
            times.start()
            try:
                code = self._precheck_and_train()
            except Exception as error:  # whatever it is: the last word is written
                what = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
                self.result.state, self.result.reason, code = "FAILED", f"the job runner: {what}", 1
            sampler.stop(samples)
            verl_rollouts.prune(self.folder.rollouts, self.plan.keep_rollouts)
            self._wait_for_room(lambda: self.log.write(b""))
            ended.set()
            times.join(timeout=5)
        start.join()
        self._wait_for_lost_nodes()
        # Before the last word: who waits for the end finds all evidence in place.
        self._bundle(self.result.state.lower())
        self.result.exit_code, self.result.ended_at = code, now()
        self._note_time()
        self._wait_for_room(self._save)
        with contextlib.suppress(OSError):  # The head seals the folder: neither the end nor Ray's job waits for that.
            seal_request.make(self.folder, self.plan.cluster)
        self._wait_for_ray()
        return code

    def _precheck_and_train(self) -> int:
        code = 128 + signal.SIGTERM  # what it stays when the stop comes before anything was started
        if missing := [name for name in self.plan.secrets if name not in self.secrets]:
            self.result.state = "BLOCKED"
            self.result.reason = f"the values of the secrets {', '.join(missing)} are not in {self.folder.secrets} on this host"
            return 3
        if self.plan.imports:
            code = self._spawn([sys.executable, "-m", "mvp_helpers.job.precheck", str(self.folder.path)])
            if not self.stopping.requested and code:
                self.result.state, self.result.reason = "BLOCKED", self._precheck_reason(code)
                return 3
        if not self.stopping.requested:
            self._set_deadline()
            if self.plan.tracking:
                with contextlib.suppress(OSError):  # W&B would write to /tmp if it did not exist
                    self.folder.tracking.mkdir(exist_ok=True)
            if self._account:
                self._account.trainer_started = time.time()
                self._note_time()
            self.result.steps_total = self._steps_total()
            self.stall_watch = stall_watch.StallWatch(self.folder, self.plan, self.result, self.stopping, self._note)
            code = self._spawn(self.plan.argv)
            self._watch_for_stalls(self.stall_watch.end)
        self._note_metrics()
        if self._records_imports and (wrong := self._write_imports(import_proof.records(self.folder))):
            self.result.state, self.result.reason = "BLOCKED", "; ".join(wrong)
            return 3
        if why_stopped := stopping.reason(self.folder, self.plan, self.stopping, code):
            self.result.state, self.result.reason = "STOPPED", why_stopped
        elif code == 0:
            self.result.state = "SUCCEEDED"
        else:
            how = f"was killed by {signal.Signals(code - 128).name}" if code > 128 else f"ended with exit code {code}"
            self.result.state = "FAILED"
            self.result.reason = f"the trainer {how}" + (f": {self.last_error_line}" if self.last_error_line else "")
        return code

    def _spawn(self, argv: list[str]) -> int:
        """Run ``argv`` in the job folder, its output to driver log and stdout; returns its exit code, 128+n for a signal."""
        try:
            self.child = subprocess.Popen(
                argv,
                cwd=self.folder.path,
                env=self._environment | self.secrets | {processes.RUNNER_PID: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_before_trainer,
            )
        except OSError as error:
            self.last_error_line = f"{argv[0]}: {error.strerror}"
            return 127
        self.result.trainer_pid = self.child.pid
        self._save()
        assert self.child.stdout
        with contextlib.suppress(OSError):  # Without it a fast trainer only waits more often.
            fcntl.fcntl(self.child.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        # A daemon: what a grandchild still holds open must not keep the runner alive.
        pump = threading.Thread(target=self._pump, args=(self.child.stdout,), daemon=True)
        pump.start()
        ended = _waiting_for(self.child)
        while self.child.poll() is None:
            self._note_metrics()
            self._check_imports()
            if self.stall_watch:
                self._watch_for_stalls(self.stall_watch.look)
            self._enforce_stop()
            ended(POLL_S)
        # Grandchildren may hold the pipe open forever: read the written part, and do not wait for the rest.
        pump.join(timeout=5)
        code = self.child.returncode
        self.child = None
        return code if code >= 0 else 128 - code

    def _pump(self, stream: IO[bytes]) -> None:
        """Copy the child's output; a full disk loses lines, not the trainer."""
        tail = b""
        for chunk in self._mask.stream(iter(lambda: os.read(stream.fileno(), PIECE_BYTES), b"")):
            self.log.write(chunk)
            with contextlib.suppress(OSError, ValueError):  # ValueError: a grandchild prints after the end
                files.write_all(sys.stdout.fileno(), chunk)
            self._mid_line = not chunk.endswith(b"\n")
            lines, newline, rest = (tail + chunk).rpartition(b"\n")
            tail = rest[-4096:]
            if newline:
                self.last_error_line = error_lines.last(lines) or self.last_error_line

    def _on_stop(self, number: int, _frame: Any) -> None:
        self._signalled = True
        self.stopping.request()

    def _enforce_stop(self) -> None:
        """Signal a trainer that must stop; it is killed before Ray kills us, so that the last word can still be written."""
        if not self.stopping.requested and self._stopped_by_user():
            self.stopping.request()
        if number := self.stopping.next_signal():
            self._signal_child(number)

    def _stopped_by_user(self) -> bool:
        request = control.stop_request(self.folder)
        return request is not None and request.by_user

    def _wait_for_ray(self) -> None:
        """Let Ray record the stop that ``52`` asked the trainer for: it asks Ray when it sees the job's end, and Ray then us."""
        end = time.monotonic() + HAND_OVER_S
        while self.result.state == "STOPPED" and self._stopped_by_user() and not self._signalled and time.monotonic() < end:
            time.sleep(POLL_S)

    def _signal_child(self, number: signal.Signals) -> None:
        if child := self.child:
            with contextlib.suppress(ProcessLookupError):
                processes.send(-child.pid, number)

    def _locate(self) -> None:
        """Which Ray node we are on, from Ray's own record of this job (our addresses can mislead where nodes share a machine)."""
        try:
            record = self.api.job(self.folder.submission_id) or {}
            self.result.driver_node_id = record.get("driver_node_id")
            ips = {node.node_id: node.ip for node in self.api.nodes()}
            self.result.driver_node_ip = ips.get(self.result.driver_node_id or "")
        except MvpError as error:
            self.result.reason = f"driver node unknown: {error.what}"

    def _note_metrics(self) -> None:
        try:
            size = self.folder.metrics.stat().st_size
        except OSError:
            return
        if size == self._metrics_size:
            return
        self._metrics_size = size
        step, data = metrics.tail(self.folder.metrics)
        if data and (step, data) != (self.result.steps_done, self.result.last_metrics):
            self.result.steps_done, self.result.last_metrics = step, data
            if self._account and step:
                self._account.step(step, data, time.time())
                self._note_time()
            self._save()
            # The newest file may still be written.
            verl_rollouts.prune(self.folder.rollouts, self.plan.keep_rollouts, spare_newest=True)

    def _begin_account(self) -> None:
        """Go on from the account of the attempt before this one, if there is one."""
        resume = self.plan.resume
        earlier, in_chain = wall_time.attempt_before(self.folder, resume.submission_id if resume else None)
        before: tuple[str | None, wall_time.WallTime | None] = (None, None)
        with contextlib.suppress(BadInput):
            if earlier:
                result = job_folder.read(earlier)
                before = result.ended_at, result.wall_time
        self._account = wall_time.start(self.result.claimed_at, before, in_chain=in_chain)
        self._note_time()

    def _note_time(self) -> None:
        if self._account:
            self.result.wall_time = self._account.so_far(time.time(), self.result.stalls, control.trainer(self.folder))

    def _watch_for_stalls(self, look: Callable[[], bool]) -> None:
        if look():
            self._save()

    def _note(self, line: str) -> None:
        """Add a line of ours to the driver log; a progress bar leaves its last line open."""
        self.log.write(self._mask.data(f"{chr(10) * self._mid_line}{line}\n".encode()))

    def _save(self) -> bool:
        """Return whether the result could be written: a full or lost shared root must not end a running trainer."""
        try:
            job_folder.write(self.folder, self.result)
        except OSError:
            return False
        return True

    def _wait_for_room(self, write: Callable[[], bool]) -> None:
        """Repeat until it is written: what ended on a full disk is explained by its last lines."""
        deadline = time.monotonic() + ROOM_WAIT_S
        while not write() and time.monotonic() < deadline and not self.stopping.requested:
            time.sleep(POLL_S)

    def _wait_for_lost_nodes(self) -> None:
        """Let Ray give up a node whose death can have ended the trainer: the bundle at the end then names the node."""
        from ..diagnosis import job_evidence

        with contextlib.suppress(Exception):  # only a better explanation: the result is written without it
            if self.result.state == "FAILED" and job_evidence.may_have_lost_a_node(self.folder, self.result):
                lost_nodes.wait(self.api, lambda: self.stopping.requested)

    def _bundle(self, event: str) -> None:
        with contextlib.suppress(OSError):
            debug_bundle.take(self.folder, self.api, event)

    def _set_deadline(self) -> None:
        """Write the deadline where the trainer looks for it. A problem with it is logged and does not end the training."""
        try:
            if nearest := deadline.nearest(self.plan.save_by, self._environment):
                control.set_deadline(self.folder, nearest)
        except (BadInput, OSError) as error:
            self._note(f"MVP_WARNING: the deadline is ignored: {error}")

    def _precheck_reason(self, code: int) -> str:
        try:
            return "; ".join(read_as(self.folder.precheck, _Precheck).problems) or f"precheck exit code {code}"
        except (OSError, Damaged):
            return f"the precheck ended with exit code {code}: {self.last_error_line or 'see logs/driver.log'}"

    def _check_imports(self) -> None:
        """Once training has begun: end a trainer whose processes did not prove what they imported."""
        if not self._records_imports or self._imports_proven or not self.result.steps_done:
            return
        self._trains_since = self._trains_since or time.monotonic()
        rows = import_proof.records(self.folder)
        if import_proof.missing(rows, self.plan) and time.monotonic() - self._trains_since < RECORDS_VISIBLE_S:
            return
        self._imports_proven = True
        if self._write_imports(rows):
            self._signal_child(signal.SIGKILL)

    def _write_imports(self, rows: list[dict[str, Any]]) -> list[str]:
        """Complete ``precheck.json`` with the imports that the job's processes recorded; return their problems."""
        wrong = import_proof.problems(rows)
        if self.result.steps_done and not wrong:
            wrong = import_proof.missing(rows, self.plan)
        with contextlib.suppress(OSError, Damaged):
            read_as(self.folder.precheck, _Precheck)
            report = read_json(self.folder.precheck) | import_proof.report(rows, wrong)
            files.write_json(self.folder.precheck, self._mask.value(report))
        return wrong

    def _steps_total(self) -> int | None:
        try:
            return read_as(self.folder.precheck, _Precheck).steps_total
        except (OSError, Damaged):
            return None


def _of_trainer(the_plan: Plan) -> dict[str, str]:
    """Return the trainer's environment: ours, the job's variables, and for ``ray.init()`` the runtime_env of its Ray workers."""
    variables = environment.as_ray_sets(the_plan.env_vars, os.environ)
    if given := os.environ.get(environment.JOB_CONFIG):
        variables[environment.JOB_CONFIG] = the_plan.job_config(given)
    return variables


def _waiting_for(child: subprocess.Popen[bytes]) -> Callable[[float], None]:
    """Return a function that waits for the child's end, at most this many seconds."""

    def wait(seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)

    try:
        # Popen.wait looks 20 times a second, which is most of what the runner does while a trainer trains.
        descriptor = os.pidfd_open(child.pid)
    except (OSError, AttributeError):  # an old kernel, a container that forbids it, or conda's Python, which was built without it
        return wait
    end = select.poll()
    end.register(descriptor, select.POLLIN)
    weakref.finalize(child, os.close, descriptor)

    def look(seconds: float) -> None:
        end.poll(seconds * 1000)

    return look


def _before_trainer() -> None:
    """In the child: it ends with us, and Ray's own stop signal is for us alone (see ``plan``); ours is SIGTERM."""
    processes.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run(folder: JobFolder) -> int:
    """Entry point of ``run-job``. Raises BadInput when the folder is not a job folder, or was run before."""
    return Runner(folder).run()
