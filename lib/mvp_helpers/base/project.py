"""This project as it is put on hosts that do not see our disk: which files, and one name for exactly these contents."""

from __future__ import annotations

import hashlib
from pathlib import Path

from .. import __version__

PROJECT = Path(__file__).resolve().parents[3]
PARTS = ("lib", "scripts", "templates", "README.md", "pyproject.toml", "requirements.lock", "Makefile", "shared-layout.md")


def files() -> list[Path]:
    """What is deployed, relative to the project, in a fixed order; nothing that running it leaves behind."""
    found: list[Path] = []
    for part in PARTS:
        path = PROJECT / part
        found += [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    relative = sorted(file.relative_to(PROJECT) for file in found if file.exists())
    return [file for file in relative if file.suffix != ".pyc" and not any(part.startswith(".") for part in file.parts)]


def version() -> str:
    """The same for the same files, on every machine: a deployed copy knows its own name."""
    seen = hashlib.sha256()
    for file in files():
        data = (PROJECT / file).read_bytes()
        seen.update(f"{file}\0{len(data)}\0".encode() + data)
    return f"{__version__}-{seen.hexdigest()[:10]}"
