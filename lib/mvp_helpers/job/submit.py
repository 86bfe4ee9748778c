"""Submit one JobSpec from the head: plan, feasibility, job folder, then ``ray job submit`` or Ray's Python SDK.

Wherever a submission fails, the job folder says what happened.
"""

from __future__ import annotations

import contextlib
import os
import shlex
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
from ..cluster import ray_api, ray_command
from ..cluster.cluster_file import Cluster
from ..cluster.ray_api import RayApi
from ..plan import disk, feasibility, plan, planning, workloads
from ..plan.inputs import Missing
from ..plan.plan import Plan, Via
from ..prepare import snapshot
from ..record import chain as chains
from ..record import debug_bundle, job_folder, removals, retention
from ..record.chain import Attempt, Chain, Retry
from ..record.job_folder import ID_HINT, Result
from . import job_secrets, provenance

SUBMIT_TIMEOUT_S = 60
LOOKUP_S = 4.0
"""After an unclear answer: for how long Ray is asked whether it has the job nevertheless."""

Say = Callable[[str], None]


def prepare(
    data: bytes, source: str, cluster: Cluster, environment: Mapping[str, str] = os.environ, *, remember: bool = False
) -> tuple[Plan, dict[str, str]]:
    """Return the plan for the bytes of a JobSpec, and the values of its secrets, from the submitter's ``environment`` first.

    Raises BadInput (see ``planning.make`` and ``job_secrets.collect``).
    """
    the_plan = planning.make(data, source, cluster, remember=remember)
    return the_plan, job_secrets.collect(the_plan, environment, data)


def preview(data: bytes, source: str, cluster: Cluster, environment: Mapping[str, str]) -> tuple[Plan, list[str]]:
    """Return the plan for the bytes of a JobSpec, and a text for each missing input. Changes nothing.

    Raises BadInput and Blocked as ``planning.make``, and BadInput for a secret whose value is found nowhere.
    """
    missing: list[Missing] = []
    the_plan = planning.make(data, source, cluster, missing=missing)
    if Path(the_plan.shared_root).is_dir():
        job_secrets.collect(the_plan, environment, data)
    return the_plan, [error.what.removeprefix(f"{source}: ") + (f" ({error.hint})" if error.hint else "") for error in missing]


def submit(
    data: bytes,
    source: str,
    cluster: Cluster,
    say: Say,
    environment: Mapping[str, str] = os.environ,
    *,
    via: Via = "cli",
    lineage: Mapping[str, Any] | None = None,
) -> tuple[Plan, RayApi]:
    """Submit a JobSpec, with its secrets from the submitter's ``environment``; returns when Ray has accepted the job.

    ``lineage`` describes a later attempt of a chain, for its provenance; a job with ``retry`` and without it begins a chain.

    Raises:
        BadInput: the JobSpec is wrong, its id is taken, or the job can never fit on the cluster.
        Blocked: the cluster is down, has no worker, or Ray refused; the job folder (if claimed) says NOT_SUBMITTED and why.
        TimedOut: the command did not answer within 60 s and Ray does not know the job.
    """
    the_plan, secrets = prepare(data, source, cluster, environment, remember=True)
    api = RayApi(the_plan.address, ray_api.read_token(cluster))
    facts = _examine(the_plan, cluster, api)
    with _interruptible():
        result = Result(submission_id=the_plan.submission_id, workload=the_plan.workload, state="CLAIMED")
        folder = job_folder.claim(SharedRoot(Path(the_plan.shared_root)), result)
        try:
            _write_config(the_plan, data, cluster, via)
            provenance.write(the_plan, facts | {"attempt": dict(lineage) if lineage else _first_attempt(the_plan)})
            if the_plan.code_path:  # now that the job folder names it, it cannot be removed any more: does it still exist?
                snapshot.check(Path(the_plan.code_path))
            if resume := the_plan.resume:
                removals.check_kept(folder.shared, f"{resume.submission_id}:{resume.step}", Path(resume.path))
            job_secrets.keep(folder.shared, folder.secrets, secrets)
            if the_plan.retry and not lineage:
                _begin_chain(the_plan, the_plan.retry, secrets)
            _hand_over(the_plan, cluster, api, via)
        except BaseException as error:
            _record_failure(folder, result, error)
            raise
        _record_submitted(folder, result)
    _report(the_plan, say)
    return the_plan, api


def _examine(the_plan: Plan, cluster: Cluster, api: RayApi) -> dict[str, Any]:
    """Check that the id is free and that the job fits on the disk and the live cluster; return the job's provenance."""
    job_folder.check_unused(the_plan.folder)
    disk.check(the_plan.checkpoints, disk.free(the_plan.shared_root), the_plan.shared_root)
    nodes = api.nodes()
    feasibility.check(the_plan, nodes)
    if api.job(the_plan.submission_id) is not None:
        raise BadInput(f"Ray already has a job '{the_plan.submission_id}'", hint=ID_HINT)
    return provenance.collect(the_plan, cluster, nodes, api.version())


def _first_attempt(the_plan: Plan) -> dict[str, Any] | None:
    if not the_plan.retry:
        return None
    return {"chain": the_plan.submission_id, "number": 1, "previous": None, "cause": None, "why": ""}


def _begin_chain(the_plan: Plan, retry: Retry, secrets: Mapping[str, str]) -> None:
    """Record the chain before Ray has the job: a submitter that is killed in between leaves nothing without a watcher."""
    shared, attempt = SharedRoot(Path(the_plan.shared_root)), Attempt(id=the_plan.submission_id)
    job_secrets.keep(shared, chains.secrets(shared, attempt.id), secrets)
    own = os.environ.get(workloads.FOLDERS, "")
    chains.write(shared, Chain(cluster=the_plan.cluster, retry=retry, attempts=[attempt], workloads=own))


def _report(the_plan: Plan, say: Say) -> None:
    for text in the_plan.warnings:
        say(f"warning: {text}")
    if resume := the_plan.resume:
        for skipped in resume.skipped:
            say(f"{resume.submission_id}: skipped: {skipped}")
        say(f"{the_plan.submission_id} resumes from step {resume.step} of {resume.submission_id}")
    if the_plan.device == "cuda" and the_plan.shape:
        say(f"{the_plan.submission_id} trains on {the_plan.shape}")
    say(f"submitted {the_plan.submission_id}: {the_plan.folder.path}")


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a submission as Ctrl-C does, so that the job folder records it."""

    def interrupt(number: int, _frame: Any) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    earlier = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _write_config(the_plan: Plan, data: bytes, cluster: Cluster, via: Via) -> None:
    folder = the_plan.folder
    files.write_bytes(folder.job_spec(".json" if the_plan.source.endswith(".json") else ".yaml"), data)
    files.write_text(folder.resolved, plan.to_yaml(the_plan))
    files.write_json(folder.runtime_env, the_plan.runtime_env())
    needed = ray_api.command_environment(cluster) | ({"PYTHONPATH": str(PROJECT / "lib")} if via == "sdk" else {})
    exports = [f"export {name}={shlex.quote(value)}" for name, value in needed.items()]
    files.write_text(folder.submit_cmd, "\n".join([*exports, shlex.join(the_plan.submit_argv(via))]) + "\n")


def _hand_over(the_plan: Plan, cluster: Cluster, api: RayApi, via: Via) -> None:
    """Run Ray's command. It spends its time importing: meanwhile the cluster's state is recorded and old records are removed."""
    beside = threading.Thread(target=_beside_the_command, args=(cluster, api, the_plan.folder))
    beside.start()
    _ask_ray_to_run(the_plan, the_plan.submit_argv(via), cluster, api)
    beside.join()


def _beside_the_command(cluster: Cluster, api: RayApi, folder: JobFolder) -> None:
    with contextlib.suppress(MvpError, OSError):  # a full disk shows in the job folder's own files first
        retention.sweep(cluster, api)
        debug_bundle.take(folder, api, "submitted")


class Accepted(KeyboardInterrupt):
    """Interrupted, but Ray has the job."""


def _ask_ray_to_run(the_plan: Plan, argv: list[str], cluster: Cluster, api: RayApi) -> None:
    """Run the exact command. After an unclear answer, ask Ray itself whether it has the job.

    Raises Blocked when Ray refused, TimedOut without an answer, Accepted when interrupted after Ray took the job.
    """
    name = " ".join(argv[:3])
    try:
        run = _run(ray_command.argv(argv[1:]) if argv[0] == "ray" else argv, cluster)
    except subprocess.TimeoutExpired:
        if not _ray_has_it(the_plan, api):
            raise TimedOut(f"'{name}' did not answer within {SUBMIT_TIMEOUT_S} s", hint="./scripts/50_status.sh") from None
        return
    except KeyboardInterrupt:
        if _ray_has_it(the_plan, api):
            raise Accepted(the_plan.submission_id) from None
        raise
    if run.returncode and not _ray_has_it(the_plan, api):
        raise Blocked(f"'{name}' failed: {_last_error(run)}", hint="./scripts/50_status.sh")


def _run(argv: list[str], cluster: Cluster) -> subprocess.CompletedProcess[str]:
    # RAY_ADDRESS of the caller's shell would win over --address in some versions.
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    return subprocess.run(
        argv,
        env=environment | ray_api.command_environment(cluster),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SUBMIT_TIMEOUT_S,
        # A session of its own: Ctrl-C on our terminal reaches only us, and we ask Ray whether it has the job.
        start_new_session=True,
    )


def _last_error(run: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (run.stderr + run.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line] or lines
    return errors[-1][:500] if errors else f"exit code {run.returncode}"


def _ray_has_it(the_plan: Plan, api: RayApi) -> bool:
    deadline = time.monotonic() + LOOKUP_S
    while True:
        with contextlib.suppress(MvpError):
            if api.job(the_plan.submission_id) is not None:
                return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)


def _record_failure(folder: JobFolder, result: Result, error: BaseException) -> None:
    """Write the outcome of a submission that failed or was interrupted. Raises Blocked for an error of the file system."""
    if isinstance(error, Accepted):
        _record_submitted(folder, result)
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


def _record_submitted(folder: JobFolder, result: Result) -> None:
    """Change CLAIMED to SUBMITTED, unless the job runner was faster: from its start on, only it writes ``result.json``."""
    if job_folder.read(folder).state == "CLAIMED":
        result.state, result.submitted_at = "SUBMITTED", now()
        job_folder.write(folder, result)
