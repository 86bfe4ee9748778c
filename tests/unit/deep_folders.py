"""Folders within each other, beyond what a path can name."""

from __future__ import annotations

import os
from pathlib import Path


def nest(folder: Path, levels: int, name: str = "d") -> None:
    """Make ``levels`` folders in ``folder``, each in the one before, with a file in the last."""
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)
