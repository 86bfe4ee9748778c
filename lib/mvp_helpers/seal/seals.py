"""Seal the folder of a job that has ended, add files to its seal later, and read a seal back.

``seal.intoto.jsonl`` in the job folder has one signed statement a line; each names the digest of the one before. Beside the key
is a journal, ``seals/<id>``, with the digest of each line: a seal that was removed, or cut, shows.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..base import files
from ..base.documents import MOST_BYTES, Damaged, from_json
from ..base.errors import Blocked, Failed
from ..base.paths import JobFolder
from ..base.shared_storage import held, remove_whole
from ..base.times import now
from ..cluster.cluster_file import Cluster
from ..record import job_folder, seal_request
from . import contents
from .contents import Contents, Difference
from .key import TRUSTED, Key, Trust
from .statement import Kind, Malformed, Statement, parse, read, write

MOST_PROVENANCE = 8 << 20
"""Bytes; ours have about 10,000. The seal has a copy."""


class NotSealed(Exception):
    """The job has no seal; the text says why."""


class Forged(Failed):
    """The seal is not one that the cluster's key made for this job; the text says why."""


class Seal:
    """A seal whose signatures were checked: its statements, oldest first."""

    def __init__(self, statements: list[Statement]) -> None:
        self.statements = statements

    @property
    def first(self) -> dict[str, Any]:
        """The first statement's predicate."""
        return self.statements[0].predicate

    @property
    def contents(self) -> Contents:
        """Everything that is sealed and was not removed on request. What an earlier statement says of a name stays."""
        whole = Contents()
        for statement in self.statements:
            fresh = statement.contents.less(whole.names)
            whole = (whole | fresh).less(statement.removed)
        return whole


class Seals:
    """The seals of one cluster's jobs; ``folder`` has the key and the journal."""

    def __init__(self, folder: Path, cluster: str) -> None:
        self.folder, self.cluster = folder, cluster

    @classmethod
    def of(cls, cluster: Cluster) -> Seals:
        return cls(cluster.seals, cluster.name)

    def seal_requested(self, job: JobFolder) -> bool:
        """Seal the job if it has ended and its runner asked for that; return whether this call did.

        Raises:
            BadInput: the job folder's ``result.json`` cannot be read.
            Blocked: the key cannot be read, or this Python cannot sign.
            OSError: the job folder, or the key's folder, cannot be read or written.
        """
        if not seal_request.is_there(job, self.cluster) or not job_folder.read(job).ended:
            return False
        sealed = not job.seal.exists() and bool(self._add(job, "end", None))
        seal_request.remove(job, self.cluster)
        return sealed

    def seal_now(self, job: JobFolder) -> list[str]:
        """Seal on request the files of an ended job's folder that no statement has yet; return their names.

        What was sealed before stays as it was sealed. Raises as ``seal_requested`` does, and Forged.
        """
        return self._add(job, "later", None)

    def add(self, job: JobFolder, *places: Path) -> list[str]:
        """Seal new files at ``places``, made by a command of the toolkit; return their names.

        A job without a seal stays without: these files will be in its seal. Raises as ``seal_now`` does.
        """
        return self._add(job, "added", places)

    def _add(self, job: JobFolder, kind: Kind, places: tuple[Path, ...] | None) -> list[str]:
        """State what no statement has yet. It is read outside of the lock: the files of one job may take hours."""
        read = Contents()
        for last in (False, False, False, True):
            with self._locked(job):
                sealed = job.seal.exists()
                if (kind == "end" and sealed) or (kind == "added" and not sealed):
                    return []
                known = _OWN | (self._read(job).contents.names if sealed else frozenset())
                names = contents.names(job.path)
                waiting = (names if places is None else _below(names, job, places)) - known - read.names
                if last or not waiting:  # what comes meanwhile is read, too, unless there is no end of it
                    fresh = read.less(known)
                    if fresh.names:
                        self._append(job, kind, fresh)
                    break
            read |= contents.of(job.path, waiting)
        return sorted(fresh.names)

    def check(self, job: JobFolder) -> None:
        """Raise Forged, Blocked or OSError as ``read`` does; a job that was never sealed is as good as a sealed one."""
        with contextlib.suppress(NotSealed):
            self.read(job)

    def remove(self, job: JobFolder, record: Path, places: Sequence[Path]) -> None:
        """Remove folders from the job folder. A seal that exists states that first, with the ``record`` of the request.

        After an interruption the files that are left are reported as added; another removal goes on. Raises as ``seal_now`` does;
        OSError also when a link leads to a place outside of the job folder: then nothing is removed.
        """
        for place in places:
            job.check_own(place)
        with self._locked(job):
            if job.seal.exists():
                known = self._read(job).contents
                for earlier in set(record.parent.iterdir()) - {record}:
                    if str(earlier.relative_to(job.path)) not in known.names and earlier.is_file():  # of an interrupted request
                        earlier.unlink()
                stated = Contents({str(record.relative_to(job.path)): files.sha256(record)})
                self._append(job, "removed", stated, removed=sorted(_below(known.names, job, places)))
            for place in places:
                remove_whole(place)

    def read(self, job: JobFolder) -> Seal:
        """Return the job's seal, its signatures checked.

        Raises:
            NotSealed: there is none.
            Forged: it was not made by this cluster, was made for another job, or a part of it is missing.
            Blocked: a public key cannot be read, or this Python cannot check signatures.
            OSError: the seal cannot be read.
        """
        if job.seal.exists():
            return self._read(job)
        if recorded := self._journal(job):
            raise Forged(f"{job.seal.name} is missing, but the journal has {len(recorded)} of its lines: {self._journal_of(job)}")
        raise NotSealed("never sealed")

    def _read(self, job: JobFolder) -> Seal:
        data, trust, recorded = files.read(job.seal, MOST_BYTES), Trust(self.folder), self._journal(job)
        statements: list[Statement] = []
        digests: list[str] = []
        for number, line in enumerate(io.BytesIO(data), 1):  # one by one: of somebody else's lines none is kept
            place = f"{job.seal.name}:{number}"
            try:
                envelope = read(line)
                if envelope.keyid not in trust:
                    raise Malformed(f"its key {envelope.keyid[:12]}… is not among {self.folder}/{TRUSTED}")
                if not trust.verifies(envelope.keyid, envelope.signature, envelope.signed):
                    raise Malformed(f"its signature is not that of key {envelope.keyid[:12]}…")
                statement = parse(envelope.payload)
            except Malformed as why:
                raise Forged(f"{place}: {why}") from None
            predicate, before = statement.predicate, digests[-1] if digests else None
            if predicate.get("submission_id") != job.submission_id:
                raise Forged(f"{place}: it is the seal of job '{predicate.get('submission_id')}'")
            if predicate.get("previous") != before:
                raise Forged(f"{place}: it does not follow the line before it")
            statements.append(statement)
            digests.append(_digest(line))
        if not statements:
            raise Forged(f"{job.seal.name} is empty")
        if digests[: len(recorded)] != recorded:
            raise Forged(f"{job.seal.name} is not the seal that was recorded when it was made: {self._journal_of(job)}")
        return Seal(statements)

    def compare(self, seal: Seal, job: JobFolder) -> Difference:
        """Return how the job folder differs from its seal. Reads every file. Raises OSError."""
        return contents.compare(seal.contents, job.path, _OWN)

    def _append(self, job: JobFolder, kind: Kind, fresh: Contents, removed: Sequence[str] = ()) -> None:
        """Add a statement about ``fresh`` to the job's seal, then to the journal; the caller holds the lock."""
        key, result = Key(self.folder), job_folder.read(job)
        earlier = files.read(job.seal, MOST_BYTES) if job.seal.exists() else b""
        lines = earlier.splitlines(keepends=True)
        predicate = {
            "submission_id": job.submission_id,
            "cluster": self.cluster,
            "kind": kind,
            "sealed_at": now(),
            "toolkit": __version__,
            "job": {
                name: getattr(result, name) for name in ("state", "reason", "exit_code", "claimed_at", "started_at", "ended_at")
            },
            "provenance": _provenance(job),
            "previous": _digest(lines[-1]) if lines else None,
            **({"removed": list(removed)} if kind == "removed" else {}),
        }
        lines.append(write(fresh, predicate, key.keyid, key.sign))
        if sum(map(len, lines)) > MOST_BYTES:
            raise Blocked(f"{job.seal} would have more than {MOST_BYTES >> 20} MiB: {len(fresh.names)} names in {job.path}")
        files.write_bytes(job.seal, b"".join(lines))
        journal = self._journal_of(job)
        journal.parent.mkdir(exist_ok=True)
        files.write_text(journal, "".join(f"{_digest(line)}\n" for line in lines))

    def _journal_of(self, job: JobFolder) -> Path:
        return self.folder / "seals" / job.submission_id

    def _journal(self, job: JobFolder) -> list[str]:
        try:
            return self._journal_of(job).read_text().split()
        except FileNotFoundError:
            return []

    @contextlib.contextmanager
    def _locked(self, job: JobFolder) -> Iterator[None]:
        """Let one process of the head seal at a time; the lock ends with its process. Remove what one left that was killed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with held(self.folder / "seals.lock"):
            for draft in job.path.glob(f".{job.seal.name}.*"):
                draft.unlink()
            yield


_OWN = frozenset({JobFolder(Path()).seal.name})


def _below(names: Iterable[str], job: JobFolder, places: Sequence[Path]) -> frozenset[str]:
    """Return the names that are one of the ``places`` or inside of it."""
    inside = [str(place.relative_to(job.path)) for place in places]
    return frozenset(name for name in names if any(name == place or name.startswith(f"{place}/") for place in inside))


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _provenance(job: JobFolder) -> Any:
    """Return the job's provenance; None where that is missing, damaged or not ours, which other checks report."""
    try:
        return from_json(files.read(job.provenance, MOST_PROVENANCE))
    except (OSError, Damaged):
        return None
