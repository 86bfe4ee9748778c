"""What a folder contains: the SHA-256 of each file, hashed by several threads, and the target of each link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ..base import files

THREADS = min(8, os.cpu_count() or 1)
UNFINISHED = "debug/."
"""The beginning of a bundle's name while it is written: it gets its own when it is whole, perhaps after the seal."""


@dataclass(frozen=True)
class Contents:
    """Names are relative to the folder. Links are never followed: what they lead to is not in the folder."""

    files: dict[str, str] = field(default_factory=dict)
    """The SHA-256 of each file, by name."""
    links: dict[str, str] = field(default_factory=dict)
    """The target of each link, by name."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.files.keys() | self.links.keys())

    def less(self, names: Iterable[str]) -> Contents:
        """Return everything but these names."""
        gone = frozenset(names)
        return Contents(
            {name: digest for name, digest in self.files.items() if name not in gone},
            {name: target for name, target in self.links.items() if name not in gone},
        )


@dataclass(frozen=True)
class Difference:
    """How a folder differs from what was sealed: names, sorted."""

    changed: list[str]
    missing: list[str]
    added: list[str]

    def __bool__(self) -> bool:
        return bool(self.changed or self.missing or self.added)


def of(folder: Path, leave_out: frozenset[str] = frozenset()) -> Contents:
    """Read a whole folder, without the files named in ``leave_out``. Raises OSError."""
    names, links = _names(folder, leave_out)
    with ThreadPoolExecutor(THREADS) as threads:
        digests = threads.map(lambda name: files.sha256(folder / name), names)
        return Contents(dict(zip(names, digests, strict=True)), links)


def _names(folder: Path, leave_out: frozenset[str]) -> tuple[list[str], dict[str, str]]:
    """Return the names of the files, largest first, so that no thread begins the largest one last, and the links."""
    sizes: dict[str, int] = {}
    links: dict[str, str] = {}

    def refuse(error: OSError) -> None:
        raise error

    for place, folders, names in os.walk(folder, onerror=refuse):
        for entry in (*folders, *names):
            path = os.path.join(place, entry)
            name, facts = os.path.relpath(path, folder), os.lstat(path)
            if name in leave_out or name.startswith(UNFINISHED):
                continue
            if stat.S_ISLNK(facts.st_mode):
                links[name] = os.readlink(path)
            elif stat.S_ISREG(facts.st_mode):
                sizes[name] = facts.st_size
    return sorted(sizes, key=lambda name: (-sizes[name], name)), links


def compare(sealed: Contents, present: Contents) -> Difference:
    """Return how ``present`` differs from ``sealed``. A file that became a link, or a link a file, has changed."""
    before = sealed.files | {name: f"-> {target}" for name, target in sealed.links.items()}
    after = present.files | {name: f"-> {target}" for name, target in present.links.items()}
    return Difference(
        changed=sorted(name for name in before.keys() & after.keys() if before[name] != after[name]),
        missing=sorted(before.keys() - after.keys()),
        added=sorted(after.keys() - before.keys()),
    )
