"""``57 --keep N``: remove old checkpoints of a job or of a whole chain, on request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..base.errors import BadInput
from ..base.paths import SharedRoot
from ..record import removals
from ..record.removals import Gone
from ..seal.seals import Seals
from .listing import Row
from .resumers import Resumer


def surplus(rows: Sequence[Row], keep: int, resumers: Sequence[Resumer], running: frozenset[str]) -> list[Row]:
    """Return which of a chain's checkpoints to remove: all but the newest ``keep`` whole ones, ``keep`` being at least 1.

    Not one that a running job resumes from, and of a ``running`` job none that is not whole: it may be writing it. None at all
    where no checkpoint is whole.
    """
    in_use = {(each.source, each.step) for each in resumers if each.running}
    # Of the same step in two attempts the later one counts: the rows are in the order of the attempts.
    whole = sorted((row for row in reversed(rows) if row.whole), key=lambda row: -row.step)
    kept = whole[:keep]
    if not kept:
        return []
    return [row for row in rows if row not in kept and (row.id, row.step) not in in_use and (row.whole or row.id not in running)]


def remove(named: Sequence[str], rows: Sequence[Row], shared: SharedRoot, seals: Seals, request: str) -> list[Row]:
    """Remove the checkpoints ``named`` as ``ID:STEP``, which must be among ``rows``; return them.

    The job folder records what goes, then its seal states it, then it goes.

    Raises:
        BadInput: a name that is not among them; nothing is removed.
        Forged: the seal of a job is not its own; nothing is removed.
        Blocked: this host cannot sign.
        OSError: something cannot be written or removed.
    """
    by_name = {row.name: row for row in rows}
    if unknown := [name for name in named if name not in by_name]:
        raise BadInput(
            f"{', '.join(unknown)}: not a checkpoint that '{request}' may remove now",
            hint="./scripts/57_checkpoints.sh ID lists them",
        )
    chosen = [by_name[name] for name in dict.fromkeys(named)]
    folders = [shared.job(submission_id) for submission_id in dict.fromkeys(row.id for row in chosen)]
    for folder in folders:
        seals.check(folder)
    for folder in folders:
        own = [row for row in chosen if row.id == folder.submission_id]
        gone = [Gone(step=row.step, bytes=row.bytes, problem=row.problem) for row in own]
        seals.remove(folder, removals.record(folder, request, gone), [Path(row.path) for row in own])
    return chosen
