"""The files of this project that are deployed to other hosts, and a version that identifies their contents."""

from __future__ import annotations

from pathlib import Path

from .. import __version__

PROJECT = Path(__file__).resolve().parents[3]
LOCKS = ("requirements.lock", "requirements-helper.lock", "requirements-cpu.lock", "requirements-cuda.lock")
PARTS = ("lib", "scripts", "templates", "README.md", "pyproject.toml", *LOCKS, "Makefile", "shared-layout.md")


def files() -> list[Path]:
    """Return the deployed files, relative to the project, sorted; without bytecode and hidden files."""
    paths: list[Path] = []
    for part in PARTS:
        path = PROJECT / part
        paths += [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    relative = sorted(file.relative_to(PROJECT) for file in paths if file.exists())
    return [file for file in relative if file.suffix != ".pyc" and not any(part.startswith(".") for part in file.parts)]


def version() -> str:
    """Return the package version and a hash of all deployed files: equal for equal files on every machine."""
    import hashlib  # 6 ms that only this function needs

    digest = hashlib.sha256()
    for file in files():
        data = (PROJECT / file).read_bytes()
        digest.update(f"{file}\0{len(data)}\0".encode() + data)
    return f"{__version__}-{digest.hexdigest()[:10]}"
