"""The code snapshots of a shared root: list them, with the jobs that used them, and remove the unused ones.

A snapshot is evidence of every job that ran with it, ended or not: it is unused only when no job folder names it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ..base.documents import Damaged, read_as
from ..base.errors import BadInput
from ..base.paths import JobFolder, SharedRoot
from ..base.terminal import columns
from . import snapshot

Say = Callable[[str], None]

GONE = ".gone-"
"""Prefix of a snapshot's name while it is being removed."""
SHOWN = 3
"""Job ids in a row of the table."""


@dataclass(frozen=True)
class Stored:
    """A snapshot, its size in bytes, and the jobs whose provenance names it (newest first)."""

    code_id: str
    path: Path
    made_at: str
    size: int
    origin: str
    current: bool
    jobs: list[str]


class _Code(msgspec.Struct):
    code_id: str


class _Provenance(msgspec.Struct):
    code: _Code | None = None


def uses(shared: SharedRoot) -> dict[str, list[str]]:
    """Return the ids of the jobs that name each ``code_id``, newest first (by the time of their provenance)."""
    named: list[tuple[int, str, str]] = []
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(shared.jobs):
            # A job that was just claimed has none yet: its submission checks the snapshot again after writing it.
            with contextlib.suppress(OSError, Damaged):
                path = JobFolder(Path(entry.path)).provenance
                if code := read_as(path, _Provenance).code:
                    named.append((path.stat().st_mtime_ns, code.code_id, entry.name))
    by_code: dict[str, list[str]] = {}
    for _, code_id, job in sorted(named, reverse=True):
        by_code.setdefault(code_id, []).append(job)
    return by_code


def stored(shared: SharedRoot) -> list[Stored]:
    """Return all snapshots, the oldest first. A damaged one has the error as its origin."""
    used = uses(shared)
    current = _current(shared)
    rows = []
    for manifest in shared.verl_code.glob(f"[!.]*/{snapshot.MANIFEST}"):
        path = manifest.parent
        if path.is_symlink():
            continue
        try:
            about = snapshot.read_manifest(path)
            size, origin = sum(facts["size"] for facts in about["files"].values()), _origin(about["source"])
        except (BadInput, KeyError, TypeError) as error:
            about, size, origin = {}, 0, f"damaged: {error}"
        row = Stored(
            path.name,
            path,
            str(about.get("made_at", "")),
            size,
            origin,
            path.name == current,
            used.get(path.name, []),
        )
        rows.append(row)
    return sorted(rows, key=lambda row: (row.made_at, row.code_id))


def _current(shared: SharedRoot) -> str:
    return Path(os.path.realpath(shared.verl_code / snapshot.CURRENT)).name


def _origin(source: dict[str, Any]) -> str:
    about = [str(source["kind"])]
    if git := source.get("git"):
        about.append(str(git.get("commit", ""))[:12] + (" (changed)" if git.get("dirty") else ""))
    return " ".join([*about, f"{source.get('host', '')}:{source['path']}"])


def table(rows: list[Stored], width: int) -> str:
    """Return the list for people, in lines of at most ``width`` columns."""
    cells = [
        [
            row.code_id + (" (current)" if row.current else ""),
            row.made_at[:16].replace("T", " "),
            f"{row.size / 1e6:.1f} MB",
            _jobs(row.jobs),
            row.origin,
        ]
        for row in rows
    ]
    return "\n".join(columns(["CODE_ID", "MADE", "SIZE", "JOBS", "ORIGIN"], cells, width, colour=False))


def _jobs(jobs: list[str]) -> str:
    named = ", ".join(jobs[:SHOWN])
    return "-" if not jobs else f"{len(jobs)}: {named}" + (", …" if len(jobs) > SHOWN else "")


def prune(shared: SharedRoot, say: Say, *, dry_run: bool = False) -> list[str]:
    """Remove the snapshots that no job folder names, except ``current``; return their ids.

    A submission that chose one meanwhile wins: it names the snapshot in its job folder and then checks that it still exists,
    while the removal renames the snapshot first and then looks for new names. Snapshots that an interrupted removal renamed are
    restored or removed.

    Raises:
        Blocked: the shared root cannot be written.
    """
    from ..base.shared_storage import remove_tree, writing

    if not shared.verl_code.is_dir():
        return []
    unused = [row.path for row in stored(shared) if not row.jobs and not row.current]
    if dry_run:
        return [path.name for path in unused]
    with writing(shared.verl_code), snapshot.alone(shared, "removing snapshots", say):
        for path in unused:
            path.rename(path.with_name(GONE + path.name))
        used, removed = uses(shared), []
        for aside in sorted(shared.verl_code.glob(f"{GONE}*")):
            name = aside.name.removeprefix(GONE)
            chosen = f"job {used[name][0]}" if name in used else "31" if name == _current(shared) else ""
            if chosen and not os.path.lexists(aside.with_name(name)):
                aside.rename(aside.with_name(name))
                say(f"kept {name}: {chosen} has just chosen it")
            else:
                remove_tree(aside)
                removed.append(name)
    return removed
