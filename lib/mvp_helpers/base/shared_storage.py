"""Storage that several hosts write: locks that record their holder, atomic symlinks, errors that name the path."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from . import files
from .errors import BadInput, Blocked, TimedOut


@contextlib.contextmanager
def writing(place: Path) -> Iterator[None]:
    """Turn an OSError of the block into Blocked: full, read-only or missing storage is not the user's mistake."""
    try:
        yield
    except OSError as error:
        raise Blocked(
            f"cannot write {place}: {error.strerror or error}",
            hint="./scripts/00_prereq_check.sh checks that the shared root is writable and has space",
        ) from error


def make_folders(modes: Mapping[Path, int]) -> None:
    """Make the folders that are missing, each with its mode; one that exists keeps its own. Raises Blocked."""
    for path, mode in modes.items():
        with writing(path):
            if not path.is_dir():
                path.mkdir(parents=True)
                path.chmod(mode)


def point_to(link: Path, target: str) -> None:
    """Make ``link`` a symlink to ``target``, atomically. Raises OSError."""
    with contextlib.suppress(OSError):
        if os.readlink(link) == target:
            return
    temporary = link.with_name(f".{link.name}.{os.urandom(16).hex()}")
    temporary.symlink_to(target)
    try:
        temporary.replace(link)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_secret(path: Path) -> str | None:
    """Return the text in a secret's file without its line end; None when the file does not exist.

    Raises BadInput when others may read the file, or it is not text. No message contains the value.
    """
    try:
        mode = path.stat().st_mode & 0o777
        if mode & 0o077:
            raise BadInput(f"{path} is open to others (mode {mode:04o}): a secret needs mode 0600", hint=f"chmod 600 {path}")
        return path.read_text().removesuffix("\n").removesuffix("\r")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"cannot read the secret {path}: {error.strerror}", hint=f"ls -l {path}") from None
    except UnicodeDecodeError:
        raise BadInput(f"the secret {path} is not UTF-8 text", hint="write it again: one line") from None


def remove_tree(path: Path) -> None:
    """Remove a file, a symlink, a pipe or a folder, also a read-only one; do nothing when it does not exist."""
    if path.is_symlink() or not path.is_dir():  # rmtree would wait at a pipe for ever
        path.unlink(missing_ok=True)
        return
    for place in itertools.chain([path], files.below(path)):
        with contextlib.suppress(OSError):
            if place.is_dir() and not place.is_symlink():
                place.chmod(0o700)
    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if path.exists():  # nested deeper than Python follows
        subprocess.run(["rm", "-rf", "--", path], stdin=subprocess.DEVNULL, capture_output=True)


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of a file on this host, made if it is missing; it ends with this process. Raises OSError.

    Whatever else a job has put there, a link, a second name of another file, a pipe or a folder, is removed.
    """
    try:
        handle = files.appended(path)
    except OSError:
        remove_tree(path)
        handle = files.appended(path)
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def remove_whole(path: Path) -> None:
    """Remove it as ``remove_tree`` does. Raises OSError when something of it is left."""
    remove_tree(path)
    if os.path.lexists(path):
        raise OSError(errno.ENOTEMPTY, "files are left in it", str(path))


@contextlib.contextmanager
def locked(
    path: Path, reason: str, say: Callable[[str], None], *, stale_after_s: float = 120, wait_s: float = 7200, poll_s: float = 0.2
) -> Iterator[None]:
    """Hold the lock folder ``path`` during the block; its ``holder.json`` records holder, start time and reason.

    Replace a holder at once when its process has provably ended (same boot, same PID namespace), any other holder when its
    heartbeat has not changed for ``stale_after_s`` seconds by this process's clock: clocks of two hosts are never compared.

    Raises:
        TimedOut: another process still holds the lock after ``wait_s`` seconds.
        Blocked: the lock cannot be written.
    """
    from .times import now as utc_now  # imported here: finding an unchanged snapshot needs no lock

    me = {**_identity(), "reason": reason, "since": utc_now(), "token": os.urandom(16).hex()}
    with writing(path):
        _wait_for(path, me, say, stale_after_s, wait_s, poll_s)
    done = threading.Event()
    heartbeat = threading.Thread(target=_beat, args=(path / "holder.json", stale_after_s / 8, done), daemon=True)
    heartbeat.start()
    try:
        yield
    finally:
        done.set()
        heartbeat.join()
        if _holder(path)[0] == me:
            # Rename before removing: no reader sees the lock without its holder.
            trash = path.with_name(f"{path.name}.{me['token']}")
            with contextlib.suppress(OSError):
                path.rename(trash)
            remove_tree(trash)


def _wait_for(
    path: Path, me: dict[str, Any], say: Callable[[str], None], stale_after_s: float, wait_s: float, poll_s: float
) -> None:
    began = since = time.monotonic()
    seen: tuple[dict[str, Any], int] | None = None
    while not _acquire(path, me):
        now, (holder, beat) = time.monotonic(), _holder(path)
        if seen != (holder, beat):
            if seen is None or seen[0] != holder:
                say(f"waiting for {path}: held by {_describe(holder)}")
            seen, since = (holder, beat), now
        if (_is_gone(holder) or now - since > stale_after_s) and _take_over(
            path, holder, me, force=now - since > 2 * stale_after_s
        ):
            say(f"took over {path}: its holder is gone ({_describe(holder)})")
            return
        if now - began > wait_s:
            raise TimedOut(f"{path} is held by {_describe(holder)}", hint="wait for it, or end that process")
        time.sleep(poll_s)


def _acquire(path: Path, me: dict[str, Any]) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError:
        return False
    try:
        files.write_json(path / "holder.json", me)
    except OSError:
        remove_tree(path)
        raise
    return True


def _take_over(path: Path, dead: dict[str, Any], me: dict[str, Any], *, force: bool) -> bool:
    """Replace the holder ``dead`` by ``me``; False when another process was faster. ``force`` removes a dead taker's claim."""
    claim = path / "takeover"
    try:
        claim.mkdir()
    except FileExistsError:
        if force:
            with contextlib.suppress(OSError):
                claim.rmdir()
        return False
    except FileNotFoundError:
        return False
    try:
        # Another process may have taken over between the check and this claim: then the holder is not the dead one.
        if _holder(path)[0] != dead:
            return False
        files.write_json(path / "holder.json", me)
        return True
    finally:
        with contextlib.suppress(OSError):
            claim.rmdir()


def _holder(path: Path) -> tuple[dict[str, Any], int]:
    """Return ``holder.json`` and its modification time (ns); an empty holder when it is missing or half-written."""
    try:
        with (path / "holder.json").open() as stream:
            return dict(json.load(stream)), os.fstat(stream.fileno()).st_mtime_ns
    except (OSError, ValueError):
        return {}, 0


def _beat(holder: Path, every_s: float, done: threading.Event) -> None:
    while not done.wait(min(every_s, 15)):
        with contextlib.suppress(OSError):
            os.utime(holder)


def _identity() -> dict[str, Any]:
    return {"host": os.uname().nodename, "pid": os.getpid(), "started": _start_ticks(os.getpid()), "pid_space": _pid_space()}


def _pid_space() -> str:
    """Return an id of the boot and the PID namespace, within which a PID is one process. Host names are not unique enough."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + " " + os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _start_ticks(pid: int) -> str:
    """Return a process's start time in clock ticks since boot (field 22 of its stat file); empty without such a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _is_gone(holder: dict[str, Any]) -> bool:
    space = _pid_space()
    return bool(space) and holder.get("pid_space") == space and _start_ticks(holder["pid"]) != holder["started"]


def _describe(holder: dict[str, Any]) -> str:
    if not holder:
        return "an unknown process"
    return f"{holder.get('host')} pid {holder.get('pid')} since {holder.get('since')}: {holder.get('reason')}"
