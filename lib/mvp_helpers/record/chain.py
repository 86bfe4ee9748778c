"""A chain: the attempts of one JobSpec with ``retry``, and whether another one follows.

``jobs/.chains/<id of the first attempt>.json`` while the chain goes on, ``jobs/.chains/ended/`` afterwards. It is written on the
head: by the submission of the first attempt, then by the chain watcher or a stop. Attempt n has the id ``<id of the first>.n``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ..base import documents, files
from ..base.documents import Damaged
from ..base.errors import BadInput
from ..base.paths import SharedRoot
from ..base.shared_storage import held
from ..base.times import now

Cause = Literal["host", "ray", "cluster", "preempted"]
CAUSES: tuple[Cause, ...] = ("host", "ray", "cluster", "preempted")
OUT_OF_MEMORY = frozenset({"no-memory", "kernel-oom", "node-memory"})
"""Rules of ``templates/signatures/`` whose cause can be the job itself: the same one at the same step is."""
LONGEST_ID = 60
"""Leaves room for ``.99``: an id has at most 63 characters."""

Described = msgspec.Meta


class Retry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``retry`` of a JobSpec: for which causes outside of the job another attempt follows, from the last whole checkpoint."""

    on: Annotated[
        list[Cause], Described(min_length=1, description="Causes that start another attempt: host, ray, cluster, preempted.")
    ]
    max: Annotated[int, Described(ge=1, le=98, description="How many attempts may follow the first one; default 3.")] = 3
    no_progress_max: Annotated[
        int, Described(ge=1, description="The chain ends after this many attempts in a row without a new step; default 2.")
    ] = 2


class Attempt(msgspec.Struct, kw_only=True):
    """One job of a chain. ``state`` is empty until it has ended; ``cause`` is None when it is the job itself, or unknown."""

    id: str
    state: str = ""
    cause: Cause | None = None
    rule: str = ""
    why: str = ""
    step: int = 0
    """The last step that it trained, counted from the very first; 0 for none."""
    ended_at: str | None = None


class Chain(msgspec.Struct, kw_only=True):
    """One chain. ``note`` says what it waits for, and at last why it ended."""

    cluster: str
    retry: Retry
    attempts: Annotated[list[Attempt], Described(min_length=1)]
    workloads: str = ""
    """``MVP_WORKLOADS`` of the submitter, by which every attempt finds its workload."""
    note: str = ""
    ended_at: str | None = None

    @property
    def id(self) -> str:
        return self.attempts[0].id

    @property
    def latest(self) -> Attempt:
        return self.attempts[-1]

    @property
    def next_id(self) -> str:
        return f"{self.id}.{len(self.attempts) + 1}"


def decide(chain: Chain) -> str:
    """Return why the chain ends with its latest attempt, which has ended; "" when another attempt follows."""
    latest, retry = chain.latest, chain.retry
    if latest.state == "SUCCEEDED":
        return "succeeded"
    if latest.cause is None:
        return f"not a cause for another attempt: {latest.why}"
    if latest.cause not in retry.on:
        return f"its cause is '{latest.cause}', and retry.on names {', '.join(retry.on)}: {latest.why}"
    if len(chain.attempts) > 1 and latest.rule in OUT_OF_MEMORY:
        before = chain.attempts[-2]
        if (before.rule, before.step) == (latest.rule, latest.step):
            return f"out of memory at step {latest.step} again: {latest.why}"
    if (idle := _attempts_without_progress(chain)) >= retry.no_progress_max:
        return f"{idle} attempts without a new step (retry.no_progress_max {retry.no_progress_max}); the last: {latest.why}"
    if len(chain.attempts) > retry.max:
        return f"{len(chain.attempts)} attempts, {retry.max} after the first (retry.max); the last: {latest.why}"
    return ""


def _attempts_without_progress(chain: Chain) -> int:
    """Count the last attempts that trained no step beyond all earlier ones."""
    best, idle = 0, 0
    for attempt in chain.attempts:
        idle = 0 if attempt.step > best else idle + 1
        best = max(best, attempt.step)
    return idle


def check(retry: Retry | None, submission_id: str | None, source: str) -> None:
    """Raise BadInput for a chain's first attempt whose id leaves no room for the ids of the others."""
    if retry and submission_id and len(submission_id) > LONGEST_ID:
        raise BadInput(
            f"{source}: submission_id '{submission_id}' has {len(submission_id)} characters; with retry {LONGEST_ID} at most",
            hint="a shorter id: attempts are named <id>.2, <id>.3, …",
        )


def any_in(shared: SharedRoot) -> bool:
    """Return whether there is, or was, any chain."""
    return _folder(shared).is_dir()


def find(shared: SharedRoot, submission_id: str) -> Chain | None:
    """Return the chain that this job is an attempt of; None when it is of none. Raises BadInput for a damaged record."""
    for first in dict.fromkeys((submission_id, re.sub(r"\.\d+$", "", submission_id))):
        for path in (_path(shared, first), _path(shared, first, ended=True)):
            chain = _read(path)
            if chain and any(attempt.id == submission_id for attempt in chain.attempts):
                return chain
    return None


def active(shared: SharedRoot, cluster: str) -> list[Chain]:
    """Return the chains of this cluster that continue. A damaged record is left out: no attempt can follow it."""
    chains = []
    for path in sorted(_folder(shared).glob("*.json")):
        with contextlib.suppress(BadInput):
            if (chain := _read(path)) and chain.cluster == cluster:
                chains.append(chain)
    return chains


def write(shared: SharedRoot, chain: Chain) -> None:
    """Replace the record. Raises OSError."""
    path = _path(shared, chain.id, ended=chain.ended_at is not None)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(path, msgspec.json.format(msgspec.json.encode(chain)) + b"\n")
    if chain.ended_at:
        _path(shared, chain.id).unlink(missing_ok=True)


def end(shared: SharedRoot, chain: Chain, note: str) -> None:
    """End the chain: no attempt follows, and no secret of it is kept. Raises OSError."""
    chain.note, chain.ended_at = note, now()
    write(shared, chain)
    secrets(shared, chain.id).unlink(missing_ok=True)


def forget(shared: SharedRoot, chain: Chain) -> None:
    """Remove the record of a chain that has ended. Raises OSError."""
    _path(shared, chain.id, ended=True).unlink(missing_ok=True)


def secrets(shared: SharedRoot, chain_id: str) -> Path:
    """The values of the attempts' secrets while the chain goes on, as ``JobFolder.secrets`` while a job runs."""
    return shared.user_secrets / ".jobs" / f"{chain_id}.chain"


@contextlib.contextmanager
def locked(shared: SharedRoot) -> Iterator[None]:
    """Let one process of this host, the head's, change chains at a time; the lock ends with its process."""
    _folder(shared).mkdir(parents=True, exist_ok=True)
    with held(_folder(shared) / ".lock"):
        yield


def _folder(shared: SharedRoot) -> Path:
    return shared.jobs / ".chains"


def _path(shared: SharedRoot, first: str, *, ended: bool = False) -> Path:
    return (_folder(shared) / "ended" if ended else _folder(shared)) / f"{first}.json"


def _read(path: Path) -> Chain | None:
    try:
        return documents.read_as(path, Chain)
    except FileNotFoundError:
        return None
    except (OSError, Damaged) as error:
        raise BadInput(f"cannot read {path}: {error}") from None
