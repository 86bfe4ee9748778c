"""A process of the toolkit that stays on a host: one of each kind, in a session of its own, with a log beside its node's."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..base import files, processes
from ..base.errors import Failed
from ..base.shared_storage import writing
from ..base.times import now
from . import ray_node
from .cluster_file import Cluster
from .node_record import NodePaths

LOOK_S = 2.0
"""Seconds between two looks of a daemon at its own pid file."""
END_S = 30.0
"""Time for a daemon to end, including what it has begun."""


@dataclass(frozen=True)
class Daemon:
    """One kind of daemon on one host: ``<name>.pid``, ``.lock`` and ``.log`` in the node's folder."""

    name: str
    host: str
    folder: Path

    @classmethod
    def of(cls, cluster: Cluster, host: str, name: str) -> Daemon:
        """Return the daemon ``name`` of a host of the cluster. Raises BadInput for another host."""
        cluster.host(host)
        return cls(name, host, NodePaths(cluster, host).folder)

    def _file(self, suffix: str) -> Path:
        return self.folder / f"{self.name}.{suffix}"

    def _running(self) -> list[int]:
        """Return its pid, or nothing when none runs on this host."""
        with contextlib.suppress(OSError, ValueError):
            pid, started, boot = self._file("pid").read_text().split()
            if boot == processes.boot_id() and processes.start_time(int(pid)) == int(started):
                return [int(pid)]
        return []

    def start(self, *verb: str) -> None:
        """Start the helper's ``verb`` in the background; it exits at once if one runs already."""
        with writing(self._file("log")), self._file("log").open("a") as log:
            subprocess.Popen(
                [sys.executable, "-m", "mvp_helpers", *verb],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={key: value for key, value in os.environ.items() if key != ray_node.PASSING_MARK},
                start_new_session=True,
            )

    def stop(self) -> None:
        """End it, also in the middle of its work. Raises Failed when it does not end."""
        if left := processes.end(self._running, END_S):
            raise Failed(f"{self.host}: its {self.name} (pid {left[0]}) did not end after SIGKILL")
        self._file("pid").unlink(missing_ok=True)

    def run(self, work: Callable[[], None]) -> None:
        """Be this daemon: do ``work`` until SIGTERM; return at once when another one runs. Logs to stdout."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        with self._file("lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            pid = os.getpid()
            mine = f"{pid} {processes.start_time(pid)} {processes.boot_id()}\n"
            files.write_text(self._file("pid"), mine)
            threading.Thread(target=self._end_when_lost, args=(mine,), daemon=True).start()
            log(f"{self.name} of {self.host} started")
            try:
                work()
            except KeyboardInterrupt:
                log("interrupted: ending")

    def _end_when_lost(self, mine: str) -> None:
        """End this process when its pid file is gone: then nobody can find it to stop it."""
        while True:
            time.sleep(LOOK_S)
            with contextlib.suppress(OSError):
                if not self._file("pid").exists() or self._file("pid").read_text() != mine:
                    log(f"{self._file('pid')} is gone: ending")
                    os.kill(os.getpid(), signal.SIGTERM)
                    return


def log(text: str) -> None:
    """Write one line of a daemon's log."""
    print(f"{now()} {text}", flush=True)
