"""Folders of runs: made once under ``.mvp/e2e`` (or --runs-dir), found again by name or path, held by one process at a time."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ..base import files
from ..base.errors import BadInput, Blocked
from ..base.paths import E2eRun
from ..base.project import PROJECT
from ..base.times import stamped
from .requests.request import Request

DEFAULT = PROJECT / ".mvp" / "e2e"


def new(runs: Path, request: Request) -> E2eRun:
    """Make a new run's folder, with its request. Raises Blocked when it cannot be written."""
    folder = E2eRun(runs.expanduser().resolve() / stamped(Path(request.description).stem))
    try:
        folder.path.mkdir(parents=True)
        # Logs contain whatever the trainer prints.
        folder.path.chmod(0o700)
        files.write_bytes(folder.request, msgspec.json.format(msgspec.json.encode(request), indent=2) + b"\n", mode=0o600)
    except OSError as error:
        raise Blocked(f"cannot write the run's folder {folder.path}: {error.strerror}", hint="--runs-dir FOLDER") from error
    return folder


def find(runs: Path, name: str) -> tuple[E2eRun, Request]:
    """Return an earlier run, by the name or the path of its folder. Raises BadInput."""
    for path in (Path(name).expanduser(), runs.expanduser() / name):
        folder = E2eRun(path.resolve())
        if folder.request.is_file():
            try:
                return folder, msgspec.json.decode(folder.request.read_bytes(), type=Request)
            except msgspec.MsgspecError as error:
                raise BadInput(f"{folder.request} is damaged: {error}") from None
    raise BadInput(f"{runs} has no run '{name}'", hint="--resume FOLDER, or --runs-dir")


def lock(folder: E2eRun) -> int:
    """Hold a run's folder for this process; returns an open file that holds it. Raises BadInput when another process does."""
    import fcntl

    handle = os.open(folder.path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise BadInput(f"another process runs {folder.path}", hint="wait for it, or start a new run") from None
    return handle
