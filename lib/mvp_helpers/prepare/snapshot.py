"""Code snapshots: verl's code under the shared root, made once per content, read-only, chosen per job by PYTHONPATH.

A snapshot ``common/code/verl/<code_id>/`` has ``verl/``, ``mvp_marker.py`` (``MARKER = "<code_id>"``) and ``mvp_manifest.json``
(where the code came from, SHA-256, size and time of every file). ``common/code/verl/current`` links to the newest request.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base import files
from ..base.documents import Damaged, read_json
from ..base.errors import BadInput, Blocked, did_you_mean
from ..base.paths import SharedRoot

MARKER = "mvp_marker.py"
MANIFEST = "mvp_manifest.json"
CURRENT = "current"
_CODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_METADATA = ("pyproject.toml", "setup.py", "setup.cfg", "MANIFEST.in", "requirements.txt", "LICENSE")
_SCRIPT = "./scripts/31_snapshot_verl_code.sh"
_RACY_NS = 2_000_000_000  # the coarsest timestamps of a file system in use are two seconds
_NEW = ".new-"

Say = Callable[[str], None]
Signature = list[int]
"""Size (bytes), mtime (ns), ctime (ns) and inode of a source file; while they are unchanged its content is not read again."""


@dataclass(frozen=True)
class Source:
    """Where verl's code comes from: the installed package (``path`` is None) or a folder with ``verl/__init__.py``.

    A missing or empty folder is cloned from ``clone_from`` at ``revision`` (a tag, a branch or a commit), when that is set.
    """

    path: Path | None = None
    clone_from: str = ""
    revision: str = ""
    clone_timeout_s: float = 900
    about: dict[str, Any] = field(default_factory=dict)
    """Origin of a tree that was made for this snapshot only: recorded in place of ``path``; ``current`` is not changed."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot on disk. ``created`` is False when it existed; ``content`` is the SHA-256 over all paths and file hashes."""

    code_id: str
    path: Path
    created: bool
    content: str
    source: dict[str, Any] = field(default_factory=dict)


def snapshot(
    source: Source, shared: SharedRoot, code_id: str | None = None, *, dry_run: bool = False, say: Say = lambda _: None
) -> Snapshot:
    """Make the snapshot of ``source``, or find the existing one: the same content is never stored or read twice under one id.

    Without ``code_id`` the id is ``verl-<version>-<8 hex of content>``. With ``dry_run`` nothing is written: ``created`` then
    means "would be", and ``content`` is empty for a checkout that would have to be cloned first.

    Raises:
        BadInput: no verl in ``source``, no such revision, an invalid id, a symlink out of the tree, or the id exists with other
            or edited code.
        Blocked: the shared root cannot be written, or upstream cannot be cloned.
    """
    if code_id is not None and (not _CODE_ID.fullmatch(code_id) or code_id == CURRENT):
        raise BadInput(f"code_id '{code_id}' is not allowed", hint="letters, digits, '.', '_' and '-', at most 63, not 'current'")
    root = _locate(source, dry_run, say)
    if root is None:
        return Snapshot(code_id or "", shared.verl_code / (code_id or "<code_id>"), True, "")
    index = _Index.read(root, shared)
    content = index.refresh(package_only=source.path is None)
    code_id = code_id or f"verl-{_version(root)}-{content[:8]}".replace("--", "-")
    target = shared.verl_code / code_id
    made = Snapshot(code_id, target, True, content)
    existing = _existing(target, made, index.hashes)
    if dry_run:
        say(f"skip: exists {target}" if existing else f"would copy {len(index.files)} files from {root} to {target}")
        return existing or made
    from ..base.shared_storage import point_to, writing

    with writing(shared.verl_code):
        if existing is None or _leftovers(shared):
            with alone(shared, f"making {target}", say):
                began = time.monotonic()
                existing = existing or _existing(target, made, index.hashes)
                if existing is None:
                    _create(made, root, source, index, shared)
                    say(f"made {target} ({len(index.files)} files) in {time.monotonic() - began:.1f} s")
        if existing is not None:
            say(f"skip: exists {target} ({len(index.files)} files)")
        if not source.about:
            index.write()
            point_to(shared.verl_code / CURRENT, code_id)
    return existing or load(target, created=True)


def plan(source: Source, shared: SharedRoot, code_id: str | None, say: Say) -> Path:
    """Print what ``snapshot`` would do on a head that does not answer; return the snapshot's path. Reads nothing."""
    if source.path is None:
        say("would take the verl that is installed on the head")
    elif source.clone_from:
        from ..base.git import without_user

        say(f"would take {source.path}; if it is missing: cloned from {without_user(source.clone_from)} at {source.revision}")
    else:
        say(f"would take {source.path}")
    return shared.verl_code / (code_id or "<code_id>")


def load(path: Path, *, created: bool = False) -> Snapshot:
    """Read the snapshot in ``path`` from its manifest. Raises BadInput when there is none or it is damaged."""
    about = read_manifest(path)
    return Snapshot(about["code_id"], path, created, about["content"], about["source"])


def check(code_path: Path) -> Snapshot:
    """Return the snapshot that a job would import. ``code_path`` is resolved, so that ``current`` becomes a fixed snapshot.

    Reads only the marker and the manifest: cheap enough for every submission.

    Raises:
        BadInput: the folder is missing, empty or not a snapshot, or its marker, manifest and name disagree.
    """
    real = Path(os.path.realpath(code_path))
    hint = f"{_SCRIPT} makes a snapshot and prints its path"
    if not real.is_dir():
        near = did_you_mean(real.name, os.listdir(real.parent)) if real.parent.is_dir() else ""
        raise BadInput(f"code_path {code_path} is not a folder{near}", hint=hint)
    if not any(real.iterdir()):
        raise BadInput(f"code_path {code_path} is empty", hint=hint)
    try:
        marker = (real / MARKER).read_text()
    except OSError:
        raise BadInput(f"code_path {code_path} has no {MARKER}, so it is not a code snapshot", hint=hint) from None
    made = load(real)
    if marker != _marker(real.name) or made.code_id != real.name or not (real / "verl" / "__init__.py").is_file():
        raise BadInput(
            f"code_path {code_path} is not an unchanged snapshot: {MARKER} says {marker.strip()!r}, {MANIFEST} "
            f"'{made.code_id}', the folder's name is '{real.name}'",
            hint=f"a renamed, copied or edited snapshot cannot be used; {hint}",
        )
    return made


def damage(path: Path, *, thorough: bool = True) -> list[str]:
    """Return the files of the snapshot that are missing, added or changed, sorted.

    Without ``thorough``, a file with unchanged size and modification time counts as unchanged and is not read.
    """
    recorded = dict(read_manifest(path)["files"])
    damaged = []
    for name, place, info in _walk(path, path):
        if name in (MARKER, MANIFEST):
            continue
        facts = recorded.pop(name, None)
        unchanged = facts is not None and [info.st_size, info.st_mtime_ns] == [facts["size"], facts["mtime_ns"]]
        if facts is None or not ((unchanged and not thorough) or files.sha256(Path(place)) == facts["sha256"]):
            damaged.append(name)
    return sorted([*damaged, *recorded])


def _existing(target: Path, wanted: Snapshot, hashes: dict[str, str]) -> Snapshot | None:
    """Return the snapshot that already exists in ``target``, or None. Raises BadInput when its code differs from ``wanted``."""
    if not os.path.lexists(target):
        return None
    existing = load(target)
    hint = "choose another CODE_ID, or leave it out to have one derived from the content"
    if existing.content != wanted.content:
        stored = {name: facts["sha256"] for name, facts in read_manifest(target)["files"].items()}
        names = sorted({name for name, _ in stored.items() ^ hashes.items()})
        example = (names or ["?"])[0]
        raise BadInput(
            f"code_id '{wanted.code_id}' already contains different code ({len(names)} files, such as {example}): {target}",
            hint=hint,
        )
    if changed := damage(target, thorough=False):
        raise BadInput(f"snapshot {target} was edited after it was made ({len(changed)} files, such as {changed[0]})", hint=hint)
    return existing


@contextlib.contextmanager
def alone(shared: SharedRoot, reason: str, say: Say) -> Iterator[None]:
    """Be the only one who makes snapshots during the block; before it remove what killed processes left half made."""
    from ..base.shared_storage import locked, remove_tree

    with locked(shared.verl_code / ".lock", reason, say):
        for leftover in _leftovers(shared):
            remove_tree(leftover)
        yield


def _leftovers(shared: SharedRoot) -> list[Path]:
    return list(shared.verl_code.glob(f"{_NEW}*"))


def _create(made: Snapshot, root: Path, source: Source, index: _Index, shared: SharedRoot) -> None:
    """Copy into a hidden folder, then rename that."""
    from ..base.shared_storage import remove_tree
    from ..base.times import now

    work = Path(tempfile.mkdtemp(prefix=f"{_NEW}{made.code_id}-", dir=shared.verl_code))
    try:
        stored = _stored(shared)
        facts = {}
        for name, (*_, digest) in index.files.items():
            place = work / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if not _link(stored.get(digest), place, digest):
                _copy(root / name, place, digest)
            info = place.stat()
            facts[name] = {"sha256": digest, "size": info.st_size, "mtime_ns": info.st_mtime_ns}
        files.write_text(work / MARKER, _marker(made.code_id), mode=0o444)
        manifest = {
            "code_id": made.code_id,
            "content": made.content,
            "made_at": now(),
            "source": _describe(source, root),
            "files": facts,
        }
        files.write_json(work / MANIFEST, manifest, mode=0o444)
        for folder, _, _ in os.walk(work, topdown=False):
            os.chmod(folder, 0o555)
        work.rename(made.path)
    finally:
        remove_tree(work)


def _stored(shared: SharedRoot) -> dict[str, str]:
    """Return one stored file for every SHA-256 in the existing snapshots."""
    stored: dict[str, str] = {}
    for manifest in shared.verl_code.glob(f"[!.]*/{MANIFEST}"):
        if manifest.parent.name != CURRENT:
            try:
                stored |= {
                    facts["sha256"]: str(manifest.parent / name)
                    for name, facts in read_manifest(manifest.parent)["files"].items()
                }
            except BadInput:
                continue
    return stored


def _link(stored: str | None, place: Path, digest: str) -> bool:
    """Hard-link a stored file after checking its content. Returns False where that is impossible."""
    if stored is None:
        return False
    try:
        if files.sha256(Path(stored)) != digest:
            return False
        os.link(stored, place)
    except OSError:
        return False
    return True


def _copy(origin: Path, place: Path, digest: str) -> None:
    import shutil

    if not origin.exists() or files.sha256(Path(shutil.copyfile(origin, place))) != digest:
        raise Blocked(f"{origin} changed while it was copied", hint=f"{_SCRIPT} again, when nothing writes there")
    place.chmod(0o444)


class _Index:
    """Hash of every source file, kept per host and source folder, so that an unchanged file is not read again (as in git).

    A file counts as unchanged when size, mtime, ctime and inode are: an edit that keeps size and mtime still moves ctime. A
    file that changed less than two seconds before it was hashed is read again: a later edit might not move its coarse time.
    """

    def __init__(self, root: Path, place: Path, taken_ns: int, entries: dict[str, list[Any]]) -> None:
        self.root, self.place, self.taken_ns, self.files = root, place, taken_ns, entries
        self._changed = False

    @classmethod
    def read(cls, root: Path, shared: SharedRoot) -> _Index:
        name = hashlib.sha256(f"{os.uname().nodename}:{root}".encode()).hexdigest()[:16]
        place = shared.verl_code / ".sources" / f"{name}.json"
        try:
            value = read_json(place)
            return cls(root, place, value["taken_ns"], value["files"])
        except (OSError, Damaged, KeyError, TypeError):
            return cls(root, place, 0, {})

    @property
    def hashes(self) -> dict[str, str]:
        return {name: entry[-1] for name, entry in self.files.items()}

    def refresh(self, *, package_only: bool) -> str:
        """Update ``files`` from the source; return the digest over all paths and hashes."""
        before, now, trusted_before = self.files, time.time_ns(), self.taken_ns - _RACY_NS
        after: dict[str, list[Any]] = {}
        for name, place, info in _source_files(self.root, package_only):
            signature = [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]
            known = before.get(name)
            if known is not None and known[:4] == signature and max(info.st_ctime_ns, info.st_mtime_ns) < trusted_before:
                after[name] = known
            else:
                after[name] = [*signature, files.sha256(Path(place))]
                self._changed = True
        self.files = dict(sorted(after.items()))
        if self._changed or len(after) != len(before):
            self._changed, self.taken_ns = True, now
        digest = hashlib.sha256()
        for name, entry in self.files.items():
            digest.update(f"{entry[-1]} {name}\n".encode())
        return digest.hexdigest()

    def write(self) -> None:
        if self._changed:
            self.place.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(self.place, json.dumps({"source": str(self.root), "taken_ns": self.taken_ns, "files": self.files}))


def _source_files(root: Path, package_only: bool) -> Iterator[tuple[str, str, os.stat_result]]:
    limit = root / "verl" if package_only else root
    try:
        yield from _walk(root / "verl", limit, "verl/")
        for name in () if package_only else _METADATA:
            if (root / name).is_file():
                yield name, str(root / name), (root / name).stat()
    except OSError as error:
        raise BadInput(f"cannot read the code in {root}: {error.strerror}: {error.filename}") from error


def _walk(folder: Path | str, limit: Path, prefix: str = "") -> Iterator[tuple[str, str, os.stat_result]]:
    """Yield relative name, path and stat of every file below ``folder`` except bytecode. Symlinks are followed inside ``limit``.

    Raises:
        BadInput: a symlink leads out of ``limit`` or to a folder that contains it, or an entry is neither file nor folder.
    """
    for entry in os.scandir(folder):
        if entry.name in ("__pycache__", ".git"):
            continue
        if entry.is_symlink():
            real, top = os.path.realpath(entry.path), os.path.realpath(limit)
            if not real.startswith(top + os.sep) or (os.path.realpath(folder) + os.sep).startswith(real + os.sep):
                raise BadInput(f"symlink {entry.path} leads to {real}, but only links to places inside {limit} can be copied")
        if entry.is_dir():
            yield from _walk(entry.path, limit, f"{prefix}{entry.name}/")
        elif entry.is_file():
            yield prefix + entry.name, entry.path, entry.stat()
        else:
            raise BadInput(f"{entry.path} is neither a file nor a folder and cannot be copied")


def _locate(source: Source, dry_run: bool, say: Say) -> Path | None:
    """Return the folder that contains ``verl/``; None when a dry run would have to clone it."""
    if source.path is None:
        from importlib.util import find_spec

        spec = find_spec("verl")
        if spec is None or not spec.origin:
            hint = "./scripts/00_prereq_check.sh shows how to add it; or name a checkout with --source"
            raise Blocked(f"verl is not installed for {sys.executable}", hint=hint)
        return Path(os.path.realpath(spec.origin)).parent.parent
    root = Path(os.path.realpath(source.path))
    if source.clone_from:
        from ..base import git

        if not root.exists() or (root.is_dir() and not any(root.iterdir())):
            if dry_run:
                say(f"would clone {git.without_user(source.clone_from)} at {source.revision} into {root}")
                return None
            git.clone(source.clone_from, source.revision, root, source.clone_timeout_s, say)
        elif git.is_at(root, source.revision) is False:
            say(f"{root} is not at {source.revision} (code.revision in the cluster file): used as it is")
    if not (root / "verl" / "__init__.py").is_file():
        raise BadInput(
            f"{source.path} does not contain verl: it has no verl/__init__.py",
            hint="name the folder that contains verl/, such as a checkout",
        )
    return root


def _version(root: Path) -> str:
    """Return verl's version, from a file that is part of the content: the derived id depends on nothing else."""
    try:
        return re.sub(r"[^A-Za-z0-9._]+", "_", (root / "verl" / "version" / "version").read_text().strip())[:32]
    except OSError:
        return ""


def _describe(source: Source, root: Path) -> dict[str, Any]:
    from ..base.git import facts

    kind = "package" if source.path is None else "git" if (root / ".git").exists() else "directory"
    about: dict[str, Any] = {"kind": kind, "path": str(root), "host": os.uname().nodename, "version": _version(root)}
    return about | source.about | ({"git": facts(root, ("verl", *_METADATA))} if kind == "git" else {})


def _marker(code_id: str) -> str:
    return f'MARKER = "{code_id}"\n'


def read_manifest(path: Path) -> dict[str, Any]:
    """Read ``mvp_manifest.json`` of a snapshot. Raises BadInput when it is missing or damaged."""
    try:
        value = read_json(path / MANIFEST)
        if isinstance(value, dict) and all(key in value for key in ("code_id", "content", "source", "files")):
            return value
        problem = "not a manifest"
    except FileNotFoundError:
        problem = "missing"
    except (OSError, Damaged) as error:
        problem = str(error)
    raise BadInput(
        f"{path} is not a complete code snapshot: cannot read {MANIFEST}: {problem}",
        hint=f"remove that folder and run {_SCRIPT} again",
    )
