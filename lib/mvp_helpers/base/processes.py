"""Processes of this host as /proc tells them: proving that one is ours, ending exactly those, and naming who holds a port."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path

PROC = Path("/proc")
PR_SET_PDEATHSIG = 1
LISTENING = "0A"
"""State of a listening socket in /proc/net/tcp."""


def die_with_parent() -> None:
    """In a child before it starts: SIGKILL when its parent ends, so that it does not work on unseen. Source: prctl(2)."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def boot_id() -> str:
    """Changes with every boot of the machine: process ids and start times mean nothing across it."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Clock ticks after boot at which a process started; None when it is gone, or only waits to be reaped."""
    try:
        # The command name in field 2 may hold spaces and brackets: count from the last bracket on.
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def command(pid: int) -> str:
    """The command line, for messages; empty when it cannot be read."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def environment(pid: int) -> dict[str, str]:
    """The variables a process was started with. Raises OSError when it is gone, or another user's."""
    raw = (PROC / str(pid) / "environ").read_bytes().decode(errors="surrogateescape")
    return dict(item.split("=", 1) for item in raw.split("\0") if "=" in item)


def pids() -> list[int]:
    """Every process this host shows us."""
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def holding(variable: str, value: str) -> list[int]:
    """Processes that were started with ``variable=value`` in their environment, this one excepted."""
    wanted = f"\0{variable}={value}\0".encode()
    found = []
    for pid in pids():
        with contextlib.suppress(OSError):
            if wanted in b"\0" + (PROC / str(pid) / "environ").read_bytes() and pid != os.getpid():
                found.append(pid)
    return found


def renamed_by_ray(folder: Path) -> list[int]:
    """Ray's processes that write under ``folder``. Some rename themselves to ``ray::…`` over their own environment, so that no
    variable in it proves anything any more; the log files they hold open do."""
    found = []
    for pid in pids():
        if command(pid).startswith("ray::"):
            with contextlib.suppress(OSError):
                held = (os.readlink(link) for link in (PROC / str(pid) / "fd").iterdir())
                if any(Path(target).is_relative_to(folder) for target in held):
                    found.append(pid)
    return found


def end(find: Callable[[], Iterable[int]], term_s: float, kill_s: float = 5.0) -> list[int]:
    """End all processes that ``find`` names, and those it names meanwhile: TERM, after ``term_s`` seconds KILL.

    Returns what is still there ``kill_s`` seconds after that (normally nothing).
    """
    for number, patience in ((signal.SIGTERM, term_s), (signal.SIGKILL, kill_s)):
        told: set[int] = set()
        deadline = time.monotonic() + patience
        while left := set(find()):
            for pid in left - told:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            told |= left
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        else:
            return []
    return sorted(find())


def can_listen(ip: str, port: int) -> bool:
    """Whether ``ip:port`` is free to listen on (``ip`` "" means all addresses). Raises OSError when that can never be."""
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
    """Who holds ``ip:port``, in words, as far as /proc shows it to this user."""
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
    return "by another user's process" if inodes else "by a passing connection: choose a port below 32768"


def _address(text: str) -> str:
    """An address of /proc/net/tcp{,6}: hex words in host byte order; an IPv4 address inside IPv6 is shown as IPv4."""
    raw = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    if len(raw) == 16 and raw[:12] == b"\0" * 10 + b"\xff\xff":
        raw = raw[12:]
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
