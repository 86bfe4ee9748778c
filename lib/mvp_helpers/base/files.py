"""Write files that another host reads: to a temporary name in the same folder, fsynced, then renamed. Open what others wrote."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

MOST_LEVELS = 100
"""Folders within each other that are looked into."""


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it over ``path`` when the block succeeds, remove it when it fails."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_bytes(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace ``path`` atomically. Raises OSError and keeps the old content."""
    with replacing(path, mode) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace ``path`` atomically with UTF-8 text."""
    write_bytes(path, text.encode(), mode)


def write_json(path: Path, value: Any, mode: int = 0o644) -> None:
    """Replace ``path`` atomically with indented JSON (non-ASCII kept readable)."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", mode)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte to an open file, a pipe or a terminal. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


class PatientFile:
    """Append to an open file. What a full or lost disk refuses is kept, ``most`` bytes of it, and written with the next data."""

    def __init__(self, file: IO[bytes], most: int = 1 << 20) -> None:
        self._file, self._most = file, most
        self._waiting, self._lost, self._lock = b"", 0, threading.Lock()

    def write(self, data: bytes) -> bool:
        """Return whether everything is in the file now. Any thread may call it, also after the file was closed."""
        with self._lock:
            view = memoryview(self._waiting + data if self._waiting else data)
            try:
                if self._lost:
                    write_all(self._file.fileno(), b"\nMVP_WARNING: %d bytes were lost while the disk was full\n" % self._lost)
                    self._lost = 0
                while view:
                    view = view[os.write(self._file.fileno(), view) :]
            except (OSError, ValueError):  # ValueError: it was closed
                self._lost += max(0, len(view) - self._most)
                self._waiting = bytes(view[-self._most :])
                return False
            self._waiting = b""
            return True


def write_new(path: Path, data: bytes) -> None:
    """Write a new file, in the place of any that is there: what a link leads to, or another name of it, stays. Raises OSError."""
    path.unlink(missing_ok=True)
    with path.open("xb") as stream:
        stream.write(data)


def appended(path: Path) -> IO[bytes]:
    """Open a regular file, made if it is missing, to append to it unbuffered. Raises OSError, also for a link or a pipe."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    if os.fstat(_regular(descriptor, path)).st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EMLINK, "has another name, perhaps in another job's folder", str(path))
    return os.fdopen(descriptor, "ab", buffering=0)


def opened(path: Path) -> BinaryIO:
    """Open a regular file that anybody may have put there. Raises OSError, also for a pipe, which would block forever."""
    return os.fdopen(_descriptor(path), "rb")


def _descriptor(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:  # a name with a NUL byte
        raise OSError(errno.EINVAL, "not a file name", str(path)) from None
    return _regular(descriptor, path)


def _regular(descriptor: int, path: Path) -> int:
    """Return the descriptor of a regular file; close any other. Raises OSError."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


def read(path: Path, most: int) -> bytes:
    """Return a file's content. Raises OSError, also when it has more than ``most`` bytes."""
    with opened(path) as stream:
        if os.fstat(stream.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"has more than {most >> 20} MiB", str(path))
        return stream.read()


def tail(path: Path, size: int) -> bytes:
    """Return the last ``size`` bytes of a file. Raises OSError."""
    with opened(path) as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - size))
        return stream.read(size)


def below(folder: Path, on_error: Callable[[OSError], object] = lambda error: None) -> Iterator[Path]:
    """Yield everything in a folder, a folder before what is in it. Links are not followed.

    ``on_error`` gets why a folder cannot be listed, also ENAMETOOLONG for one that is nested too deeply.
    """
    waiting = [(os.fspath(folder), MOST_LEVELS)]
    while waiting:
        place, levels = waiting.pop()
        try:
            if not levels:
                raise OSError(errno.ENAMETOOLONG, "nested too deeply", place)
            with os.scandir(place) as entries:
                found = list(entries)
        except OSError as error:
            on_error(error)
            continue
        for entry in found:
            yield Path(entry.path)
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, levels - 1))


def lines(stream: BinaryIO, longest: int) -> Iterator[tuple[int, bytes]]:
    """Yield number (from 1) and bytes of each line, of one that is longer than ``longest`` in pieces; holes are skipped."""
    number = 1
    while piece := stream.readline(longest):
        if piece.endswith(b"\0") and skip_hole(stream):
            piece = piece.rstrip(b"\0")
        if piece:
            yield number, piece
        number += piece.endswith(b"\n")


def skip_hole(stream: BinaryIO) -> bool:
    """Move on to the next data of a sparse file, or to its end; return whether a hole was skipped.

    A hole reads as zeros and takes no room on the disk: a terabyte of them costs who makes it nothing, and who reads it an hour.
    """
    try:
        descriptor, at = stream.fileno(), stream.tell()
        before = os.lseek(descriptor, 0, os.SEEK_CUR)  # where the stream's own buffer ends
        try:
            data = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: no data follows; else this file system has no holes
                raise
            data = os.fstat(descriptor).st_size
        os.lseek(descriptor, before, os.SEEK_SET)
        if data > at:
            stream.seek(data)
    except (OSError, ValueError):
        return False
    return data > at


def has_hole(path: Path) -> bool:
    """Return whether a file is sparse. Raises OSError."""
    with opened(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            return os.lseek(stream.fileno(), 0, os.SEEK_HOLE) < size
        except OSError:  # an empty file, or a file system that has no holes
            return False


def sha256(path: Path, over: threading.Event | None = None) -> str:
    """Return the hex digest of a file's content, read in 1 MiB pieces; what is added meanwhile is left out.

    Raises OSError, also when ``over`` is set meanwhile.
    """
    digest, buffer = hashlib.sha256(), bytearray(1 << 20)
    view = memoryview(buffer)
    with io.FileIO(_descriptor(path)) as stream:
        left = os.fstat(stream.fileno()).st_size
        # Into the same memory: new pages for each piece cost a third of the time.
        while left > 0 and (size := stream.readinto(view[: min(left, len(view))])):
            digest.update(view[:size])
            left -= size
            if over and over.is_set():
                raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED), str(path))
    return digest.hexdigest()
