"""The chain watcher: a daemon on the head that starts the next attempt of a job with ``retry`` when the last one has ended.

It remembers nothing: everything is in ``jobs/.chains`` and in the attempts' job folders. So a watcher that comes back, alone or
with a restarted head, goes on where the last one was.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ..base import files
from ..base.documents import MOST_YAML_BYTES, parse
from ..base.errors import BadInput, Blocked, MvpError, TimedOut
from ..base.paths import JobFolder, SharedRoot
from ..base.times import now
from ..cluster import daemon, ray_api, ray_node
from ..cluster.cluster_file import Cluster
from ..cluster.daemon import Daemon
from ..job import job_secrets, submit
from ..plan import feasibility, plan, workloads
from ..record import chain as chains
from ..record import job_folder, metrics, reconcile
from ..record.chain import Attempt, Chain
from ..trainers import verl_checkpoints
from . import cause

LOOK_S = 2.0
"""Seconds between two looks at the chains."""


def of(cluster: Cluster) -> Daemon:
    """Return the chain watcher of the cluster; it runs on the head's host."""
    return Daemon.of(cluster, cluster.head.name, "chain-watcher")


def start(cluster: Cluster) -> None:
    """Leave a chain watcher behind on this host, the head's, unless one is there."""
    of(cluster).start("watch-chains")


def stop(cluster: Cluster) -> list[str]:
    """End the watcher, then every chain of the cluster, which is being stopped; return their ids. Raises Failed, OSError."""
    of(cluster).stop()
    shared = SharedRoot(Path(cluster.shared_root))
    ended = []
    for chain in chains.active(shared, cluster.name):
        chains.end(shared, chain, "the cluster was stopped (02_down)")
        ended.append(chain.id)
    return ended


def watch(cluster: Cluster) -> None:
    """Look after the cluster's chains until SIGTERM."""
    of(cluster).run(lambda: _watch(cluster))


def _watch(cluster: Cluster) -> None:
    shared = SharedRoot(Path(cluster.shared_root))
    while True:
        for chain in chains.active(shared, cluster.name):
            before = (len(chain.attempts), chain.note)
            try:
                with chains.locked(shared):
                    # Read again: a stop may have ended it meanwhile.
                    if (current := chains.find(shared, chain.id)) and not current.ended_at:
                        advance(current, shared, cluster)
                        if (len(current.attempts), current.note) != before:
                            daemon.log(f"{current.latest.id}: {current.note or 'submitted'}")
            except Exception as error:  # whatever a job left in its folder: the other chains go on
                daemon.log(f"{chain.id}: {error.what if isinstance(error, MvpError) else f'{type(error).__name__}: {error}'}")
        time.sleep(LOOK_S)


def advance(chain: Chain, shared: SharedRoot, cluster: Cluster) -> None:
    """Take ``chain`` one step further if its latest attempt has ended: end it, or start the next attempt.

    Raises:
        MvpError: an attempt's folder cannot be read, or Ray's answer is unclear: the next look decides.
        OSError: the shared root cannot be written.
    """
    folder, latest = shared.job(chain.latest.id), chain.latest
    os.environ[workloads.FOLDERS] = chain.workloads
    if not latest.state:
        result = reconcile.settle(folder, job_folder.read(folder), ray_api.of(cluster))
        if not result.ended:
            return
        ending = cause.of(folder, result)
        latest.state, latest.cause, latest.rule, latest.why = result.state, ending.cause, ending.rule, ending.why
        latest.step, latest.ended_at = max(result.steps_done, metrics.tail(folder.metrics)[0]), result.ended_at or now()
    if over := chains.decide(chain):
        chains.end(shared, chain, over)
        return
    if not chain.note:
        chain.note = f"attempt {len(chain.attempts) + 1} follows: {latest.cause}: {latest.why}"
        chains.write(shared, chain)
    _start_next(chain, shared, cluster)


def _start_next(chain: Chain, shared: SharedRoot, cluster: Cluster) -> None:
    following = shared.job(chain.next_id)
    if not following.path.exists():  # else an earlier watcher was killed after it had claimed the folder
        lineage = {
            "chain": chain.id,
            "number": len(chain.attempts) + 1,
            "previous": chain.latest.id,
            "cause": chain.latest.cause,
            "why": chain.latest.why,
        }
        try:
            _check_complete(cluster)
            secrets = job_secrets.read(chains.secrets(shared, chain.id))
            submit.submit(next_spec(chain, shared), f"{chain.id}.json", cluster, daemon.log, secrets, lineage=lineage)
        except (Blocked, TimedOut, feasibility.DoesNotFit) as error:
            if not following.path.exists():
                chain.note = f"attempt {len(chain.attempts) + 1} waits: {error.what}"
                chains.write(shared, chain)
                return
        except BadInput as error:
            chains.end(shared, chain, f"attempt {len(chain.attempts) + 1} cannot be submitted: {error.what}")
            return
    chain.attempts.append(Attempt(id=following.submission_id))
    chain.note = ""
    chains.write(shared, chain)


def _check_complete(cluster: Cluster) -> None:
    """Raise Blocked while a node of the cluster is missing: fewer nodes may have room for the job, but it would train on less."""
    if problems := ray_node.missing(cluster, ray_api.of(cluster).nodes()):
        raise Blocked("; ".join(problems))


def next_spec(chain: Chain, shared: SharedRoot) -> bytes:
    """Return the JobSpec of the next attempt, as JSON: the user's, with its own id and the chain's newest whole checkpoint."""
    spec = _first_spec(shared.job(chain.id))
    if source := newest_checkpoint(chain, shared):
        spec["resume_from"] = source
    return json.dumps({**spec, "submission_id": chain.next_id}, indent=2).encode() + b"\n"


def _first_spec(folder: JobFolder) -> dict[str, Any]:
    for suffix in (".json", ".yaml"):
        if (path := folder.job_spec(suffix)).is_file():
            return parse(files.read(path, MOST_YAML_BYTES), str(path))
    raise BadInput(f"{folder.config} has no job_spec.json or job_spec.yaml")


def newest_checkpoint(chain: Chain, shared: SharedRoot) -> str:
    """Return the attempt with the whole checkpoint of the highest step, the later of two; "" when none has one."""
    best, source = 0, ""
    for attempt in reversed(chain.attempts):
        folder = shared.job(attempt.id)
        layout = workloads.load(plan.read(folder).workload).checkpoint
        try:
            step = verl_checkpoints.last_whole(folder, layout).step if layout else 0
        except BadInput:  # none is whole
            continue
        if step > best:
            best, source = step, attempt.id
    return source
