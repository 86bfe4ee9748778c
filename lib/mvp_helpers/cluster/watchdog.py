"""A process beside a Ray node that starts it again when it has died: its link was cut for too long, or the head came back.

One for each host, in a session of its own; ``stop-node`` ends it first.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ..base import files, processes
from ..base.errors import Failed, MvpError
from . import ray_node
from .cluster_file import Cluster

LOOK_S = 2.0
"""Seconds between two looks at the processes of the node."""
ASK_S = 20.0
"""Seconds between two questions to the head whether it still knows the node."""
FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 60.0
"""After a start that failed: twice as long after every further one, up to this."""
END_S = 30.0
"""For a watchdog that is just starting its node: it ends what it has begun."""


def _folder(cluster: Cluster, name: str) -> Path:
    return ray_node.NodePaths(cluster, name).folder


def _running(cluster: Cluster, name: str) -> list[int]:
    """Its pid, when one runs on this host."""
    with contextlib.suppress(OSError, ValueError):
        pid, started, boot = (_folder(cluster, name) / "watchdog.pid").read_text().split()
        if boot == processes.boot_id() and processes.start_time(int(pid)) == int(started):
            return [int(pid)]
    return []


def start(cluster: Cluster, name: str) -> None:
    """Leave a watchdog behind for host ``name``; where one runs already it stays the only one."""
    with (_folder(cluster, name) / "watchdog.log").open("a") as log:
        subprocess.Popen(
            [sys.executable, "-m", "mvp_helpers", "watchdog", name],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=_folder(cluster, name),
            env={key: value for key, value in os.environ.items() if key != ray_node.PASSING_MARK},
            start_new_session=True,
        )


def stop(cluster: Cluster, name: str) -> None:
    """End host ``name``'s watchdog, and a start it is at. Raises Failed when it does not end."""
    if left := processes.end(lambda: _running(cluster, name), END_S):
        raise Failed(f"{name}: its watchdog (pid {left[0]}) does not end")
    (_folder(cluster, name) / "watchdog.pid").unlink(missing_ok=True)


def watch(cluster: Cluster, name: str) -> None:
    """Keep host ``name``'s node joined until SIGTERM; returns at once where another watchdog does so. Logs on stdout."""
    cluster.host(name)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with (_folder(cluster, name) / "watchdog.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        pid = os.getpid()
        files.write_text(_folder(cluster, name) / "watchdog.pid", f"{pid} {processes.start_time(pid)} {processes.boot_id()}\n")
        _log(f"watching {name}")
        try:
            _keep_joined(cluster, name)
        except KeyboardInterrupt:
            _log("told to end")


def _keep_joined(cluster: Cluster, name: str) -> None:
    wait, asked = FIRST_WAIT_S, time.monotonic()
    while True:
        time.sleep(LOOK_S)
        ask = time.monotonic() - asked > ASK_S
        asked = time.monotonic() if ask else asked
        if not (why := ray_node.lost(cluster, name, ask_head=ask)):
            continue
        _log(f"{why}: starting it again")
        try:
            _log(ray_node.start(cluster, name))
            wait = FIRST_WAIT_S
        except (MvpError, OSError) as error:
            _log(f"{error.show() if isinstance(error, MvpError) else error}; again after {wait:.0f} s")
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_S)


def _log(text: str) -> None:
    print(f"{dt.datetime.now(dt.timezone.utc).isoformat(timespec='seconds')} {text}", flush=True)
