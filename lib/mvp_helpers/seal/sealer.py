"""The sealer: a daemon on the head that seals the folders of jobs whose runners have asked for it at their end.

No process of a job waits for it. It remembers nothing: the requests stay until they are done, also while the cluster is down.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ..base.errors import MvpError
from ..base.paths import JobFolder, SharedRoot
from ..cluster import daemon
from ..cluster.cluster_file import Cluster
from ..cluster.daemon import Daemon
from ..record import seal_request
from . import contents
from .seals import Seals

LOOK_S = 2.0
"""Seconds between two looks at the requests."""
MOST_HOLES = 64 << 30
"""Bytes that take a job no room on the disk, but the sealer some minutes: a job with more does not hold up the others."""

Say = Callable[[str], None]


def of(cluster: Cluster) -> Daemon:
    """Return the sealer of the cluster; it runs on the head's host."""
    return Daemon.of(cluster, cluster.head.name, "sealer")


def start(cluster: Cluster) -> None:
    """Leave a sealer behind on this host, the head's, unless one is there."""
    of(cluster).start("seal-jobs")


def stop(cluster: Cluster, say: Say) -> None:
    """End the sealer, then seal the jobs that have ended with the cluster. Raises Failed when the sealer does not end."""
    of(cluster).stop()
    _seal_all(cluster, {}, say, aside=None)


def watch(cluster: Cluster) -> None:
    """Seal jobs until SIGTERM."""
    of(cluster).run(lambda: _watch(cluster))


def _watch(cluster: Cluster) -> None:
    os.nice(10)  # the head's own processes come first
    problems: dict[str, str] = {}
    aside: list[threading.Thread] = []
    while True:
        _seal_all(cluster, problems, daemon.log, aside)
        time.sleep(LOOK_S)


def _seal_all(cluster: Cluster, problems: dict[str, str], say: Say, aside: list[threading.Thread] | None) -> None:
    """Seal every job that can be sealed; report a problem once, not at every look.

    Those with large holes are sealed one at a time in a thread ``aside``; without one they wait.
    """
    shared, seals = SharedRoot(Path(cluster.shared_root)), Seals.of(cluster)

    def seal(job: JobFolder, large: bool) -> None:
        name = job.submission_id
        try:
            if not job.path.is_dir():
                seal_request.remove(job, cluster.name)
            elif not large and contents.holes(job.path) > MOST_HOLES:
                if aside is None:
                    say(f"{name}: not sealed, its files have large holes: ./scripts/54_verify.sh {name} seals it")
                elif not any(thread.is_alive() for thread in aside):
                    aside[:] = [threading.Thread(target=seal, args=(job, True), daemon=True)]
                    aside[0].start()
            elif seals.seal_requested(job):
                say(f"{name}: sealed")
        except Exception as error:  # whatever a job left in its folder: the other jobs are sealed
            what = error.what if isinstance(error, MvpError) else f"{type(error).__name__}: {error}"
            if problems.get(name) != what:
                problems[name] = what
                say(f"{name}: cannot be sealed: {what}")

    for name in seal_request.ids(shared, cluster.name):
        seal(shared.job(name), large=False)
