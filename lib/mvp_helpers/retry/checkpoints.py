"""Which checkpoints a chain keeps: the newest of all its attempts together, as verl would if it trained in one folder.

verl's limit (``trainer.max_actor_ckpt_to_keep``, SFT: ``max_ckpt_to_keep``) counts only what the running process has saved, so
after a resume it would keep the earlier attempts' checkpoints forever. A job that only ``resume_from`` names is outside
the chain: other jobs may start from it, so its checkpoints are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base.documents import read_json
from ..base.paths import JobFolder
from ..base.shared_storage import remove_whole
from ..plan import plan
from ..record import chain as chains
from ..record import removals
from ..trainers import verl_checkpoints
from ..trainers.checkpoint import Checkpoint


def remove_older(folder: JobFolder) -> list[Path]:
    """Remove from the earlier attempts what the chain no longer keeps now that the job ``folder`` has saved; return the paths.

    Raises:
        BadInput: the plan or the record of the chain is damaged.
        OSError: something cannot be removed.
    """
    attempt = _attempt(folder)
    if attempt.get("number", 1) == 1 or not (keep := verl_checkpoints.kept(plan.read(folder).given)):
        return []
    removed = surplus(verl_checkpoints.every(folder.checkpoints), _of(earlier(folder)), keep)
    for path in removed:
        JobFolder(path.parents[1]).check_own(path)
        remove_whole(path)
    return removed


def surplus(own: Sequence[Checkpoint], earlier: Sequence[Checkpoint], keep: int) -> list[Path]:
    """Return which of the ``earlier`` checkpoints to remove: all but those among the newest ``keep`` whole ones.

    None while the attempt itself has saved no whole one. A checkpoint that is not whole is of no use to any later attempt.
    """
    whole = [checkpoint for checkpoint in [*own, *earlier] if not checkpoint.problem]
    if not any(checkpoint in whole for checkpoint in own):
        return []
    kept = sorted(whole, key=lambda checkpoint: checkpoint.step, reverse=True)[:keep]
    return [checkpoint.path for checkpoint in earlier if checkpoint not in kept]


def earlier(folder: JobFolder) -> list[JobFolder]:
    """Return the folders of the chain's attempts before this job, the newest first."""
    ids = _attempts(folder)
    return [folder.shared.job(each) for each in reversed(ids[: ids.index(folder.submission_id)])] if ids else []


def saved_later(folder: JobFolder) -> set[int]:
    """Return the steps of which attempts of the chain after this job have, or had until a request, a whole checkpoint."""
    ids = _attempts(folder)
    later = [folder.shared.job(each) for each in ids[ids.index(folder.submission_id) + 1 :]] if ids else []
    removed = {step for each in later for step in removals.of(each)}
    return removed | {checkpoint.step for checkpoint in _of(later) if not checkpoint.problem}


def _attempts(folder: JobFolder) -> list[str]:
    """Return the ids of the chain's attempts up to this job's latest; empty when it belongs to no chain.

    An attempt that just began may not be in the record yet: its provenance names the chain.
    """
    attempt = _attempt(folder)
    chain = chains.find(folder.shared, attempt["chain"]) if attempt else None
    ids = [each.id for each in chain.attempts] if chain else []
    return ids if not ids or folder.submission_id in ids else [*ids, folder.submission_id]


def _attempt(folder: JobFolder) -> dict[str, Any]:
    """Return what the provenance says about the job as an attempt; empty for a job of no chain. Raises OSError and Damaged."""
    match read_json(folder.provenance):
        case {"attempt": dict(attempt)}:
            return attempt
    return {}


def _of(folders: Sequence[JobFolder]) -> list[Checkpoint]:
    return [checkpoint for folder in folders for checkpoint in verl_checkpoints.every(folder.checkpoints)]
