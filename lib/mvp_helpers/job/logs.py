"""Show a job's log from its folder, independent of Ray, the head and the cluster."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ..base import files
from ..base.errors import BadInput
from ..base.paths import JobFolder
from ..base.terminal import LogText
from ..cluster.ray_api import RayApi
from ..record import job_folder, log_times
from ..record.job_folder import Result
from .follow import Say, Watch

CHUNK = 1 << 16
ROUND = 1000 * CHUNK
"""The most bytes copied before the job is checked again."""
POLL_S = 0.1
LINE_START_SEARCH = LONGEST_HELD = 1 << 16


def show(folder: JobFolder, since: float | None, say: Say, *, raw: bool = False) -> None:
    """Copy the log so far (from ``since``, Unix time) to stdout; ``raw``: byte for byte. Raises BadInput like ``start_of``."""
    log = _Log(folder.driver_log, start_of(folder, since), raw)
    while log.copy():
        pass
    log.finish()
    if not folder.driver_log.exists():
        result = job_folder.read(folder)
        say(
            f"job '{folder.submission_id}' has not logged anything: {result.state}"
            + (f", {result.reason}" if result.reason else "")
        )


def follow(folder: JobFolder, api: RayApi | None, since: float | None, say: Say, *, raw: bool = False) -> Result:
    """Copy the log to stdout as it grows, with a progress line on a terminal's stderr, until the job has ended;
    return its result.

    Raises:
        BadInput: see ``start_of``, or the job folder is gone.
        Blocked: the job's state is unknown (see ``follow.Watch.look``).
        KeyboardInterrupt: Ctrl-C, after a message that the job continues.
    """
    log = _Log(folder.driver_log, start_of(folder, since), raw)
    with Watch(folder, api, say) as watch:
        while True:
            result = watch.look()
            more = log.copy(before=watch.line.clear)
            if result.ended and not more:
                break
            if not more:
                time.sleep(POLL_S)
        log.finish()
        watch.sum_up(result)
    return result


def start_of(folder: JobFolder, since: float | None) -> int:
    """Return the offset of the line that was being written at ``since`` (Unix time), or 0.

    Raises BadInput when the log exists but its times were not recorded.
    """
    if since is None or not folder.driver_log.exists():
        return 0
    try:
        offset = log_times.offset_at(folder.log_times, since)
    except OSError as error:
        raise BadInput(
            f"the times of {folder.driver_log} were not recorded ({folder.log_times.name}: {error.strerror})",
            hint=f"./scripts/51_logs.sh {folder.submission_id}",
        ) from None
    with _opened(folder.driver_log) as stream:
        offset = min(offset, os.fstat(stream.fileno()).st_size)
        begin = max(0, offset - LINE_START_SEARCH)
        stream.seek(begin)
        return begin + stream.read(offset - begin).rfind(b"\n") + 1


def _opened(path: Path) -> BinaryIO:
    """Open a log. Raises BadInput for what cannot be read, FileNotFoundError where there is none."""
    try:
        return files.opened(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None


class _Log:
    """Copies a growing file to stdout: byte for byte when ``raw``, else without what a terminal acts on.

    On a terminal that also shows the live line, hold back an unfinished line: the live line would overwrite it.
    """

    def __init__(self, path: Path, offset: int, raw: bool) -> None:
        self._path, self._offset = path, offset
        self._shown = LogText() if not raw else None
        self._out = sys.stdout.fileno()
        self._whole_lines = os.isatty(self._out) and sys.stderr.isatty()
        self._held = b""

    def copy(self, before: Callable[[], None] = lambda: None) -> bool:
        """Copy new bytes, after calling ``before``; return False when there were none."""
        try:
            # Reopen the file every time: only that makes a network file system check its size.
            with _opened(self._path) as stream:
                stream.seek(self._offset)
                copied = 0
                while copied < ROUND and (chunk := stream.read(CHUNK)):
                    if not copied:
                        before()
                    copied += len(chunk)
                    if self._shown and chunk.endswith(b"\0") and files.skip_hole(stream):
                        chunk = chunk.rstrip(b"\0") + b"\0"  # a mark of the zeros that nobody wrote, and nobody wants to see
                    self._write(chunk)
                self._offset = stream.tell()
        except FileNotFoundError:
            return False
        return copied > 0

    def _write(self, chunk: bytes) -> None:
        if self._shown:
            chunk = self._shown.take(chunk)
        if self._whole_lines:
            chunk = self._held + chunk
            # A progress bar ends its lines with a carriage return.
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"), len(chunk) - LONGEST_HELD) + 1
            chunk, self._held = chunk[:end], chunk[end:]
        files.write_all(self._out, chunk)

    def finish(self) -> None:
        """Write the unfinished line that was held back."""
        files.write_all(self._out, self._held + (self._shown.take(b"", last=True) if self._shown else b""))
        self._held = b""
