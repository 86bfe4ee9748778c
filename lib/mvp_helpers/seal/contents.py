"""What a folder contains: the SHA-256 of each file, hashed by several threads, and the target of each link."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ..base import files

THREADS = min(8, os.cpu_count() or 1)
UNFINISHED = "debug/."
"""The beginning of a bundle's name while it is written: it gets its own when it is whole, perhaps after the seal."""
CANNOT_READ = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
"""Other errors may be gone at the next try."""
VANISHED = (errno.ENOENT, errno.ENOTDIR)
Fact = TypeVar("Fact", str, int)


@dataclass(frozen=True)
class Contents:
    """Names are relative to the folder. Links are never followed: what they lead to is not in the folder."""

    files: dict[str, str] = field(default_factory=dict)
    """The SHA-256 of each file, by name."""
    links: dict[str, str] = field(default_factory=dict)
    """The target of each link, by name."""
    unread: dict[str, str] = field(default_factory=dict)
    """Why this user could not read a file or a folder, by name."""
    sizes: dict[str, int] = field(default_factory=dict)
    """The bytes of each file, by name, as far as known: another size shows a change without a look at the file."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.files.keys() | self.links.keys() | self.unread.keys())

    def __or__(self, other: Contents) -> Contents:
        return Contents(self.files | other.files, self.links | other.links, self.unread | other.unread, self.sizes | other.sizes)

    def less(self, names: Iterable[str]) -> Contents:
        """Return everything but these names."""
        gone = frozenset(names)

        def rest(facts: dict[str, Fact]) -> dict[str, Fact]:
            return {name: fact for name, fact in facts.items() if name not in gone}

        return Contents(rest(self.files), rest(self.links), rest(self.unread), rest(self.sizes))

    def facts(self) -> dict[str, str]:
        """Return what is known of each name, in a form that differs between files, links and what cannot be read."""
        links = {name: f"-> {target}" for name, target in self.links.items()}
        return self.files | links | {name: f"! {why}" for name, why in self.unread.items()}


@dataclass(frozen=True)
class Difference:
    """How a folder differs from what was sealed: names, sorted."""

    changed: list[str]
    missing: list[str]
    added: list[str]

    def __bool__(self) -> bool:
        return bool(self.changed or self.missing or self.added)


@dataclass
class _Listing:
    """The names in a folder before any file is read."""

    sizes: dict[str, int] = field(default_factory=dict)
    holes: int = 0
    """Bytes of all files that have no room on the disk."""
    links: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.sizes.keys() | self.links.keys() | self.unread.keys())

    def leave_out(self, names: Iterable[str]) -> None:
        for name in names:
            self.sizes.pop(name, None)
            self.links.pop(name, None)
            self.unread.pop(name, None)


def of(folder: Path, only: frozenset[str] | None = None) -> Contents:
    """Read a whole folder, or only these names in it. Raises OSError."""
    listing = _list(folder)
    if only is not None:
        listing.leave_out(listing.names - only)
    return _read(folder, listing)


def names(folder: Path) -> frozenset[str]:
    """Return the names of all files and links, and of what cannot be read. Raises OSError."""
    return _list(folder).names


def holes(folder: Path) -> int:
    """Return how many bytes of the files are holes, which have no room on the disk but are hashed. Raises OSError."""
    return _list(folder).holes


def compare(sealed: Contents, folder: Path, leave_out: frozenset[str]) -> Difference:
    """Return how a folder differs from what was sealed. A file that became a link, or a link a file, has changed.

    Neither what was added nor what has another size is read. Raises OSError.
    """
    listing = _list(folder)
    added = listing.names - sealed.names - leave_out
    resized = {name for name, size in listing.sizes.items() if sealed.sizes.get(name, size) != size} - leave_out
    listing.leave_out(added | leave_out | resized)
    before, after = sealed.facts(), _read(folder, listing).facts() | dict.fromkeys(resized, "another size")
    return Difference(
        changed=sorted(name for name in before.keys() & after.keys() if before[name] != after[name]),
        missing=sorted(before.keys() - after.keys()),
        added=sorted(added),
    )


def _list(folder: Path) -> _Listing:
    """Return what is in a folder; what vanishes meanwhile is not."""
    listing, start = _Listing(), len(os.path.join(folder, ""))

    def note(error: OSError) -> None:
        if error.filename == os.fspath(folder):
            raise error
        if error.errno in CANNOT_READ:
            listing.unread[os.fspath(error.filename)[start:]] = str(error.strerror)
        elif error.errno not in VANISHED:
            raise error

    for path in files.below(folder, note):
        name = str(path)[start:]
        if name.startswith(UNFINISHED):
            continue
        try:
            facts = os.lstat(path)
            if stat.S_ISLNK(facts.st_mode):
                listing.links[name] = os.readlink(path)
            elif stat.S_ISREG(facts.st_mode):
                listing.sizes[name] = facts.st_size
                listing.holes += max(0, facts.st_size - 512 * facts.st_blocks)
        except OSError as error:
            note(error)
    return listing


def _read(folder: Path, listing: _Listing) -> Contents:
    over = threading.Event()

    def digest(name: str) -> tuple[str, str, int, str]:
        """Return name, digest, size, and why the digest is missing; neither for a file that has vanished."""
        try:
            return name, files.sha256(folder / name, over), (folder / name).lstat().st_size, ""
        except OSError as error:
            if error.errno in CANNOT_READ:
                return name, "", 0, os.strerror(error.errno)
            if error.errno in VANISHED:
                return name, "", 0, ""
            raise

    with ThreadPoolExecutor(THREADS) as threads:
        try:
            # The largest first, so that no thread begins with that one last.
            found = list(threads.map(digest, sorted(listing.sizes, key=lambda name: (-listing.sizes[name], name))))
        except BaseException:
            over.set()  # the end of this process does not wait for the end of a file
            raise
    digests = {name: digest for name, digest, *_ in found if digest}
    unread = {name: why for name, *_, why in found if why}
    return Contents(
        digests, listing.links, listing.unread | unread, {name: size for name, _, size, _ in found if name in digests}
    )
