"""Kill a process at each change that it makes to files, one after the other: what it leaves must be repairable."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod")


def killed_at(number: int, root: Path, action: Callable[[], object]) -> bool:
    """Run ``action`` in a child that kills itself before its change ``number`` below ``root``; return whether it got so far."""
    child = os.fork()
    if not child:
        try:
            _kill_at(number, root)
            action()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def _kill_at(number: int, root: Path) -> None:
    left = number

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in CHANGES or (event == "open" and _writes(root, *arguments)):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def _writes(root: Path, path: Any, mode: Any, flags: int) -> bool:
    return bool(flags & (os.O_WRONLY | os.O_RDWR)) and str(path).startswith(str(root))
