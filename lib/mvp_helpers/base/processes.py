"""Processes of this host, read from /proc: identify our own, end exactly those, and name the holder of a port."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import importlib.metadata
import os
import platform
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path

PROC = Path("/proc")
PR_SET_PDEATHSIG = 1
RUNNER_PID = "MVP_RUNNER_PID"
"""Names the job runner in the environment of the trainer that it starts: the job's driver is the child of that process."""
LIMIT_LOCKS = 10
"""RLIMIT_LOCKS: a limit that children inherit, programs leave alone, and Linux ignores since 2.4.25. Source: getrlimit(2)."""
ENDED = "ZX"
"""States in /proc of a process that has ended, although it may still wait to be reaped."""
LISTENING = "0A"
"""State of a listening socket in /proc/net/tcp."""


def versions() -> dict[str, str]:
    """Return the versions of Python, and of Ray and torch if this process can import them; nothing is imported."""
    found = {"python": platform.python_version()}
    for name in ("ray", "torch"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def die_with_parent() -> None:
    """Call in a child before it starts: the kernel sends it SIGKILL when its parent ends. Source: prctl(2)."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def boot_id() -> str:
    """Return an id that changes with every boot: process ids and start times are valid only within one boot."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Return the start time of a process in clock ticks after boot; None when it has ended, even if not yet reaped."""
    try:
        fields = _stat_fields(pid)
    except OSError:
        return None
    return None if fields[0] in ENDED else int(fields[19])


def _stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat from the third on. Raises OSError when the process has ended."""
    # The command name in field 2 may contain spaces and brackets: count fields after the last bracket.
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def command(pid: int) -> str:
    """Return the command line, for messages; empty when it cannot be read."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def environment(pid: int) -> dict[str, str]:
    """Return the variables a process was started with. Raises OSError when it has ended or belongs to another user."""
    raw = (PROC / str(pid) / "environ").read_bytes().decode(errors="surrogateescape")
    return dict(item.split("=", 1) for item in raw.split("\0") if "=" in item)


def pids() -> list[int]:
    """Return the ids of all processes visible in /proc."""
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def holding(variable: str, value: str) -> list[int]:
    """Return the ids of processes started with ``variable=value`` in their environment, except this process."""
    wanted = f"\0{variable}={value}\0".encode()
    holders = []
    for pid in pids():
        with contextlib.suppress(OSError):
            if wanted in b"\0" + (PROC / str(pid) / "environ").read_bytes() and pid != os.getpid():
                holders.append(pid)
    return holders


def mark(text: str, *, node: bool = False) -> None:
    """Mark this process and whatever it starts from now on, also with an emptied environment, another session or parent.

    The mark of a Ray node is the hard limit, that of a job the soft one: a job's processes have both.
    """
    number = _mark_number(text, node)
    with contextlib.suppress(OSError, ValueError):  # a limit that was lowered before cannot be raised
        resource.setrlimit(LIMIT_LOCKS, (number, number if node else resource.getrlimit(LIMIT_LOCKS)[1]))


def _mark_number(text: str, node: bool) -> int:
    # A soft limit cannot exceed its hard limit: every node's number is greater than every job's.
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") | 1 << (62 if node else 61)


def marked(text: str, *, node: bool = False) -> list[int]:
    """Return the ids of processes that inherited the mark ``text`` of a job or a node, except this process."""
    wanted = str(_mark_number(text, node))
    holders = [pid for pid in pids() if _marks(pid)[node] == wanted and pid != os.getpid()]
    return [pid for pid in holders if start_time(pid) is not None]  # one that waits to be reaped still has its limits


def of_job(folder: str, variable: str, instance: str = "") -> list[int]:
    """Return the ids of a job's processes except this one, by the mark of its folder, or by ``variable`` where they have none.

    With ``instance`` only those of that Ray node, as nodes can share a machine; without it, only marked ones.
    """
    job, node = str(_mark_number(folder, False)), str(_mark_number(instance, True)) if instance else ""
    own = []
    for pid in pids():
        of_this_job, of_this_node = _marks(pid)
        if of_this_job == job and node in ("", of_this_node):
            own.append(pid)
        elif node and node == of_this_node:
            with contextlib.suppress(OSError):
                if f"\0{variable}={folder}\0".encode() in b"\0" + (PROC / str(pid) / "environ").read_bytes():
                    own.append(pid)
    return [pid for pid in own if pid != os.getpid()]


def marked_by_job(pid: int) -> bool:
    """Return whether a process inherited the mark of any job."""
    job, _ = _marks(pid)
    return job.isdigit() and int(job) >> 61 == 1


def _marks(pid: int) -> tuple[str, str]:
    """Return the marks of the job and of the node that a process inherited; other text where it has none."""
    with contextlib.suppress(OSError):
        # Every process of the host is read every few seconds: without Path and regular expression that takes half as long.
        with open(f"{PROC}/{pid}/limits", "rb") as limits:
            _, found, rest = limits.read().partition(b"\nMax file locks")
        if found:
            soft, hard = rest.split(None, 2)[:2]
            return soft.decode(), hard.decode()
    return "", ""


def with_descendants(ancestors: Iterable[int]) -> set[int]:
    """Return these processes and all their children, grandchildren and so on, as far as their parents still run."""
    children: dict[int, list[int]] = {}
    for pid in pids():
        with contextlib.suppress(OSError):
            if (fields := _stat_fields(pid))[0] not in ENDED:
                children.setdefault(int(fields[1]), []).append(pid)
    family: set[int] = set()
    waiting = list(ancestors)
    while waiting:
        if (pid := waiting.pop()) not in family:
            family.add(pid)
            waiting += children.get(pid, [])
    return family


def renamed_by_ray(folder: Path) -> list[int]:
    """Return the ids of Ray's processes that hold files open under ``folder``.

    Some rename themselves to ``ray::…``, which overwrites their environment: their open log files identify them instead.
    """
    writers = []
    for pid in pids():
        if command(pid).startswith("ray::"):
            with contextlib.suppress(OSError):
                held = (os.readlink(link) for link in (PROC / str(pid) / "fd").iterdir())
                if any(Path(target).is_relative_to(folder) for target in held):
                    writers.append(pid)
    return writers


def send(pid: int, number: int) -> None:
    """Signal a process, or with ``-pid`` its group, and let it go on: one that was halted takes a signal only then.

    Raises ProcessLookupError or PermissionError.
    """
    os.kill(pid, number)
    os.kill(pid, signal.SIGCONT)


def end(find: Callable[[], Iterable[int]], term_s: float, kill_s: float = 5.0) -> list[int]:
    """End all processes that ``find`` returns, also those it returns later: SIGTERM, and after ``term_s`` seconds SIGKILL.

    Returns the processes that still run ``kill_s`` seconds after that (normally none).
    """
    for number, patience in ((signal.SIGTERM, term_s), (signal.SIGKILL, kill_s)):
        signalled: set[int] = set()
        deadline = time.monotonic() + patience
        while left := set(find()):
            for pid in left - signalled:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    send(pid, number)
            signalled |= left
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        else:
            return []
    return sorted(find())


def can_listen(ip: str, port: int) -> bool:
    """Return whether ``ip:port`` is free to listen on (``ip`` "" means all addresses). Raises OSError if ``ip`` is not local."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ip, port))
            probe.listen()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def holder(ip: str, port: int) -> str:
    """Describe who holds ``ip:port``, as far as this user can see it in /proc."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                address, hex_port = fields[1].split(":")
                bound = _address(address)
                if fields[3] == LISTENING and int(hex_port, 16) == port and (ip in ("", bound) or bound in ("0.0.0.0", "::")):
                    inodes.add(f"socket:[{fields[9]}]")
    for pid in pids() if inodes else []:
        with contextlib.suppress(OSError):
            for handle in (PROC / str(pid) / "fd").iterdir():
                if os.readlink(handle) in inodes:
                    return f"by pid {pid} ({command(pid)[:100]})"
    return "by another user's process" if inodes else "by a short-lived connection: choose a port below 32768"


def _address(text: str) -> str:
    """Convert an address of /proc/net/tcp{,6} (hex words in host byte order); an IPv4-mapped IPv6 address becomes IPv4."""
    raw = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    if len(raw) == 16 and raw[:12] == b"\0" * 10 + b"\xff\xff":
        raw = raw[12:]
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
