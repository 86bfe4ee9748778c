"""A host's record of its Ray node: its process, and the node's paths under the state directory."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from ..base import files, processes
from ..base.documents import Damaged, read_as
from ..base.errors import Blocked
from ..base.shared_storage import point_to, writing
from .cluster_file import SAFE_PATH, Cluster

KEPT_SESSIONS = 3
"""Number of Ray's own log folders kept for each node, including the current one."""
SOCKET_PATH_BYTES = 107
"""A unix socket's longest path on Linux."""
LONGEST_SOCKET = len("/session_2026-01-01_00-00-00_000000_0000000/sockets/plasma_store")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """``node.json``: the node on a host. ``pid_start_time`` is in clock ticks since boot; ``pid`` is 0 before the start."""

    pid: int = 0
    pid_start_time: int = 0
    boot_id: str
    instance: str
    role: Literal["head", "worker"]
    ip: str
    ray_version: str
    python_version: str
    started_at: str
    stopping: bool = False
    """Whether ``stop`` was called (see ``stay``)."""

    def runs(self) -> bool:
        """Return whether the recorded process still runs."""
        return bool(self.pid) and self.boot_id == processes.boot_id() and processes.start_time(self.pid) == self.pid_start_time


class NodePaths:
    """Paths of a node under the cluster's state directory."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.folder = cluster.state / name
        self.record = self.folder / "node.json"
        self.log = self.folder / "ray_start.log"
        self.lock = self.folder / "lock"
        name = f"mvp-{os.getuid()}-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:8]}"
        bases = [os.environ.get("TMPDIR") or "/tmp", "/tmp"]
        fits = [base for base in bases if len(os.fsencode(f"{base}/{name}/ray")) + LONGEST_SOCKET <= SOCKET_PATH_BYTES]
        self._short = Path(fits[0] if fits else "/tmp", name)
        # Sockets may not work on storage shared with other hosts: then keep Ray's files on the host itself.
        self._on_shared_storage = cluster.state_dir is None
        self.private = self._short if self._on_shared_storage else self.folder
        """The folder around ``ray_files`` that only its owner can enter: Ray opens its own folders and sockets to everybody."""
        self.ray_files = self.private / "ray"
        self.temp_dir = self.ray_files if self._on_shared_storage else self._short
        """A path of ``ray_files`` that is short enough for Ray's sockets, however deep the checkout."""

    def read(self) -> Record | None:
        """Return the record, or None when the node was never started, was stopped, or its record is damaged."""
        try:
            return read_as(self.record, Record)
        except (FileNotFoundError, Damaged):
            return None

    def write(self, record: Record) -> None:
        """Replace the record. Raises Blocked when it cannot be written."""
        with writing(self.record):
            files.write_json(self.record, msgspec.to_builtins(record))

    def make_temp_dir(self) -> None:
        """Create the folder for Ray's files, closed to other users. Raises Blocked when something else has its short path."""
        with contextlib.suppress(FileExistsError):
            if self._on_shared_storage:
                self._short.mkdir(mode=0o700)
            else:
                self._short.symlink_to(self.ray_files)
        self._check_ours(self._short, stat.S_ISDIR if self._on_shared_storage else stat.S_ISLNK)
        self.private.chmod(0o700)
        self.ray_files.mkdir(exist_ok=True)
        if self._on_shared_storage:
            self._check_ours(self.ray_files, stat.S_ISDIR)  # others could reach the folder that an earlier version made
        else:
            point_to(self._short, str(self.ray_files))  # a link of ours may lead to where the folder was before
        for old in self.sessions()[KEPT_SESSIONS - 1 :]:
            shutil.rmtree(old, ignore_errors=True)

    def interpreter(self) -> str:
        """Return this Python by a path without spaces; call ``make_temp_dir`` before.

        Ray starts each worker with ``bash -c "exec PYTHON …"``, where it quotes the arguments, but not PYTHON. Source:
        ``exec_worker`` in ray/_private/runtime_env/context.py.
        """
        own = Path(sys.executable)
        if SAFE_PATH.fullmatch(str(own)) or not own.is_relative_to(sys.prefix):
            return str(own)
        point_to(self.ray_files / "python", sys.prefix)
        return str(self.temp_dir / "python" / own.relative_to(sys.prefix))

    def _check_ours(self, path: Path, has_type: Callable[[int], bool]) -> None:
        facts = path.lstat()
        if facts.st_uid != os.getuid():
            problem = f"belongs to user {_user(facts.st_uid)}"
        elif not has_type(facts.st_mode):
            problem = "was not made by this cluster"
        else:
            return
        raise Blocked(
            f"{path}, the place for Ray's sockets, {problem}",
            hint=f"ls -ld {path}; remove it, or set TMPDIR to another short folder of yours",
        )

    def remove_temp_link(self) -> None:
        """Remove the link to Ray's files, if it is ours; files on shared storage stay."""
        with contextlib.suppress(OSError):
            if not self._on_shared_storage and os.readlink(self._short) == str(self.ray_files):
                self._short.unlink()

    def sessions(self) -> list[Path]:
        """Return Ray's own folders (logs and sockets), newest first; they remain after the node was stopped."""
        return sorted(self.ray_files.glob("session_2*"), reverse=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let one start of the node run at a time; the lock ends with its process."""
        with writing(self.lock):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.lock.touch()
        with self.lock.open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def log_tail(self, offset: int = 0, lines: int = 15) -> str:
        """Return the last lines that ``ray start`` wrote after byte ``offset``."""
        with contextlib.suppress(OSError), self.log.open(errors="replace") as log:
            log.seek(offset)
            return "".join(f"\n    {line}" for line in log.read().splitlines()[-lines:]) + f"\n    ({self.log})"
        return ""


def _user(uid: int) -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)
