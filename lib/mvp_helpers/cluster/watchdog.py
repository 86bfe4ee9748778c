"""A process that restarts a host's Ray node after it died, because its link was cut for too long or the head was restarted.

Each host has one, in a session of its own; ``stop-node`` ends it first.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ..base import files, processes
from ..base.errors import Failed, MvpError
from ..base.times import now
from . import ray_node
from .cluster_file import Cluster

LOOK_S = 2.0
"""Seconds between two checks of the node's processes."""
ASK_S = 20.0
"""Seconds between two queries whether the head still lists the node as alive."""
FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 60.0
"""The wait after a failed start doubles with every further failure, up to this."""
END_S = 30.0
"""Time for a watchdog to end, including a node start it has begun."""


def _folder(cluster: Cluster, name: str) -> Path:
    return ray_node.NodePaths(cluster, name).folder


def _running(cluster: Cluster, name: str) -> list[int]:
    """Return the watchdog's pid, or nothing when none runs on this host."""
    with contextlib.suppress(OSError, ValueError):
        pid, started, boot = (_folder(cluster, name) / "watchdog.pid").read_text().split()
        if boot == processes.boot_id() and processes.start_time(int(pid)) == int(started):
            return [int(pid)]
    return []


def start(cluster: Cluster, name: str) -> None:
    """Start a watchdog for host ``name`` in the background; it exits at once if one runs already."""
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
    """End host ``name``'s watchdog, also during a node start. Raises Failed when it does not end."""
    if left := processes.end(lambda: _running(cluster, name), END_S):
        raise Failed(f"{name}: its watchdog (pid {left[0]}) does not end after SIGKILL")
    (_folder(cluster, name) / "watchdog.pid").unlink(missing_ok=True)


def watch(cluster: Cluster, name: str) -> None:
    """Keep host ``name``'s node joined until SIGTERM; return at once when another watchdog runs. Logs to stdout."""
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
            _log("interrupted: ending")


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
    print(f"{now()} {text}", flush=True)
