"""How large a folder is, when it was written, and how both are shown."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ..base.times import clock, seconds_of


def measured(folder: str | Path) -> tuple[int, float]:
    """Return the bytes of all files in a folder, and the Unix time at which the newest of them was written."""
    total, newest, left = 0, 0.0, [os.fspath(folder)]
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                        continue
                    facts = entry.stat(follow_symlinks=False)
                    total += facts.st_size
                    newest = max(newest, facts.st_mtime)
        except OSError:  # removed meanwhile
            continue
    return total, newest


def shown_size(size: int) -> str:
    """Return ``12 kB``, ``1.2 GB``."""
    number, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 999.5 or unit == "TB":
            break
        number /= 1000
    return f"{number:.1f} {unit}" if number < 9.95 and unit != "B" else f"{number:.0f} {unit}"


def age(moment: str) -> str:
    """Return how long ago that was: ``42s``, ``2h05m``, ``12 days``."""
    seconds = max(0.0, time.time() - seconds_of(moment))
    return clock(seconds) if seconds < 2 * 86_400 else f"{seconds / 86_400:.0f} days"
