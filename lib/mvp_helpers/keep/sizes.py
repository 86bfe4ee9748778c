"""How large a folder is, when it was written, and how both are shown."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ..base import files
from ..base.times import clock, seconds_of

LATEST = 253_370_764_800.0
"""The beginning of the year 9999, for times that no calendar has."""


def measured(folder: str | Path) -> tuple[int, float]:
    """Return the bytes that a folder's files free when they go, and the Unix time at which the newest of them was written."""
    try:
        size, newest = _measured(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW), files.MOST_LEVELS)
    except OSError:  # removed meanwhile
        return 0, 0.0
    return size, min(newest, LATEST)


def _measured(folder: int, levels: int) -> tuple[int, float]:
    """Measure an open folder and close it. Entries are found by their names alone: whole paths would take twice as long."""
    total, newest = 0, 0.0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    if not entry.is_dir(follow_symlinks=False):
                        facts = entry.stat(follow_symlinks=False)
                        size, written = _room(facts), facts.st_mtime
                    elif levels:
                        inner = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                        size, written = _measured(inner, levels - 1)
                    else:
                        continue
                except OSError:  # removed meanwhile
                    continue
                total += size
                if written > newest:
                    newest = written
    finally:
        os.close(folder)
    return total, newest


def _room(facts: os.stat_result) -> int:
    """Return the bytes that a file frees: holes have none, and a file with another name elsewhere stays."""
    return min(facts.st_size, 512 * facts.st_blocks) if facts.st_nlink == 1 else 0


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
