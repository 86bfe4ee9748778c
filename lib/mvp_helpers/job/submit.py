"""Submits one JobSpec from the head: plan, feasibility, job folder, then ``ray job submit`` or Ray's Python SDK.

A failure at any point leaves the truth in the job folder.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..base import files
from ..base.errors import BadInput, Blocked, MvpError, TimedOut
from ..base.paths import JobFolder, SharedRoot
from ..base.project import PROJECT
from ..base.times import now
from ..cluster import ray_api
from ..cluster.cluster_file import Cluster
from ..cluster.ray_api import RayApi
from ..plan import feasibility, jobspec, plan, snapshot
from ..plan.plan import Plan, Via
from ..record import debug_bundle, job_folder
from ..record.job_folder import ID_HINT, Result
from . import job_secrets, provenance, retention

SUBMIT_TIMEOUT_S = 60
LOOKUP_S = 4.0
"""How long after an unclear answer Ray is asked whether it has the job all the same."""

Say = Callable[[str], None]


def prepare(
    data: bytes, source: str, cluster: Cluster, environment: Mapping[str, str] = os.environ, *, remember: bool = False
) -> tuple[Plan, dict[str, str]]:
    """The plan for the bytes of a JobSpec, and the values of its secrets, from the submitter's ``environment`` first.

    Raises BadInput (see ``jobspec.load``, ``plan.make`` and ``job_secrets.collect``).
    """
    the_plan = plan.make(jobspec.load(data, source), cluster, source, remember=remember)
    return the_plan, job_secrets.collect(the_plan, environment, data)


def submit(
    data: bytes,
    source: str,
    cluster: Cluster,
    say: Say,
    environment: Mapping[str, str] = os.environ,
    *,
    via: Via = "cli",
) -> tuple[Plan, RayApi]:
    """Submit a JobSpec, with its secrets from the submitter's ``environment``; returns when Ray has accepted the job.

    Raises:
        BadInput: the spec, or its id is taken, or it can never fit on the cluster.
        Blocked: the cluster is not up, has no worker, or Ray refused; the job folder (if claimed) says NOT_SUBMITTED and why.
        TimedOut: the command gave no answer in 60 s and Ray does not know the job.
    """
    the_plan, secrets = prepare(data, source, cluster, environment, remember=True)
    if the_plan.folder.path.exists():
        raise BadInput(f"submission_id '{the_plan.submission_id}' is already used: {the_plan.folder.path}", hint=ID_HINT)
    api = RayApi(the_plan.address, ray_api.read_token(cluster))
    nodes = api.nodes()
    feasibility.check(the_plan, nodes)
    if api.job(the_plan.submission_id) is not None:
        raise BadInput(f"Ray already has a job '{the_plan.submission_id}'", hint=ID_HINT)
    facts = provenance.collect(the_plan, cluster, nodes, api.version())

    result = Result(submission_id=the_plan.submission_id, workload=the_plan.workload, state="CLAIMED")
    with _interruptible():
        folder = job_folder.claim(SharedRoot(Path(the_plan.shared_root)), result)
        try:
            _write_config(the_plan, data, source, cluster, via)
            provenance.write(the_plan, facts)
            if the_plan.code_path:  # named in the job folder it cannot be removed any more: is it still there?
                snapshot.check(Path(the_plan.code_path))
            job_secrets.keep(folder, secrets)
            # Ray's command spends its time importing: the snapshot of the cluster is taken meanwhile, and old records go.
            beside = threading.Thread(target=_beside_the_command, args=(cluster, api, folder))
            beside.start()
            _ask_ray_to_run(the_plan, the_plan.submit_argv(via), cluster, api)
            beside.join()
        except BaseException as error:
            _tell_failure(folder, result, error)
            raise
        _hand_over(folder, result)
    if resume := the_plan.resume:
        for skipped in resume.skipped:
            say(f"{resume.submission_id}: skipped: {skipped}")
        say(f"{the_plan.submission_id} goes on from step {resume.step} of {resume.submission_id}")
    say(f"submitted {the_plan.submission_id}: {folder.path}")
    return the_plan, api


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP end a submission the way Ctrl-C does: with the truth in the job folder."""

    def interrupt(number: int, _frame: Any) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    earlier = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _write_config(the_plan: Plan, data: bytes, source: str, cluster: Cluster, via: Via) -> None:
    folder = the_plan.folder
    files.write_bytes(folder.job_spec(".json" if source.endswith(".json") else ".yaml"), data)
    files.write_text(folder.resolved, plan.to_yaml(the_plan))
    files.write_json(folder.runtime_env, the_plan.runtime_env())
    needed = ray_api.environment(cluster) | ({"PYTHONPATH": str(PROJECT / "lib")} if via == "sdk" else {})
    exports = [f"export {name}={shlex.quote(value)}" for name, value in needed.items()]
    files.write_text(folder.submit_cmd, "\n".join([*exports, shlex.join(the_plan.submit_argv(via))]) + "\n")


def _ask_ray_to_run(the_plan: Plan, argv: list[str], cluster: Cluster, api: RayApi) -> None:
    """Run the exact command; when its answer is unclear, Ray itself is asked before anything is said."""
    if not shutil.which(argv[0]):
        raise Blocked(f"the command '{argv[0]}' is not on the PATH of the head", hint="./scripts/12_install_py_deps.sh")
    name = " ".join(argv[:3])
    # RAY_ADDRESS of the caller's shell would win over --address in some versions.
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | ray_api.environment(cluster)
    try:
        # Its own session: a Ctrl-C on our terminal reaches us alone, and we ask Ray what became of the job.
        run = subprocess.run(
            argv,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SUBMIT_TIMEOUT_S,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        if not _ray_has_it(the_plan, api):
            raise TimedOut(f"'{name}' gave no answer in {SUBMIT_TIMEOUT_S} s", hint="./scripts/50_status.sh") from None
        return
    except KeyboardInterrupt:
        if _ray_has_it(the_plan, api):
            raise Accepted(the_plan.submission_id) from None
        raise
    if run.returncode and not _ray_has_it(the_plan, api):
        lines = [line for line in (run.stderr + run.stdout).splitlines() if line.strip()]
        errors = [line.strip() for line in lines if "Error" in line] or lines
        raise Blocked(f"'{name}' failed: {errors[-1].strip()[:500] if errors else f'exit code {run.returncode}'}")


def _beside_the_command(cluster: Cluster, api: RayApi, folder: JobFolder) -> None:
    with contextlib.suppress(MvpError, OSError):  # a full disk shows in the job folder's own files first
        retention.sweep(cluster, api)
        debug_bundle.take(folder, api, "submitted")


class Accepted(KeyboardInterrupt):
    """Interrupted, but Ray has the job."""


def _ray_has_it(the_plan: Plan, api: RayApi) -> bool:
    deadline = time.monotonic() + LOOKUP_S
    while True:
        with contextlib.suppress(MvpError):
            if api.job(the_plan.submission_id) is not None:
                return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)


def _tell_failure(folder: JobFolder, result: Result, error: BaseException) -> None:
    """The last word of a submission that did not end well."""
    if isinstance(error, Accepted):
        _hand_over(folder, result)
        return
    if isinstance(error, KeyboardInterrupt):
        reason = "interrupted before Ray accepted the job"
    elif isinstance(error, OSError):
        reason = f"cannot write the job folder: {error.strerror}"
    else:
        reason = error.what if isinstance(error, MvpError) else repr(error)
    result.state, result.reason, result.ended_at = "NOT_SUBMITTED", reason, now()
    with contextlib.suppress(OSError):
        job_folder.write(folder, result)
    if isinstance(error, OSError):
        raise Blocked(f"{reason}: {folder.path}", hint="./scripts/00_prereq_check.sh") from error


def _hand_over(folder: JobFolder, result: Result) -> None:
    """CLAIMED becomes SUBMITTED, unless the job runner was quicker: from its start on, ``result.json`` is the runner's."""
    if job_folder.read(folder).state == "CLAIMED":
        result.state, result.submitted_at = "SUBMITTED", now()
        job_folder.write(folder, result)
