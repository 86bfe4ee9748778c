"""Script 57: the checkpoints of a job or of its chain, each with what is known about it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..base.errors import BadInput
from ..base.paths import JobFolder
from ..base.terminal import columns
from ..base.times import moment_of
from ..plan import plan, workloads
from ..record import chain as chains
from ..trainers import verl_checkpoints
from ..trainers.checkpoint import CheckpointLayout
from .resumers import Resumer
from .sizes import age, measured, shown_size


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint."""

    id: str
    step: int
    path: str
    whole: bool
    problem: str
    """Why it is not whole; "" when it is."""
    bytes: int
    saved_at: str
    resumed_by: list[str]

    @property
    def name(self) -> str:
        return f"{self.id}:{self.step}"


def attempts(folder: JobFolder) -> list[JobFolder]:
    """Return the folders of the job's chain that are still there, oldest first; the job alone when it belongs to none."""
    chain = chains.find(folder.shared, folder.submission_id)
    folders = [folder.shared.job(attempt.id) for attempt in chain.attempts] if chain else [folder]
    return [each for each in folders if each.path.is_dir()]


def rows(folders: Sequence[JobFolder], resumers: Sequence[Resumer]) -> list[Row]:
    """Return the checkpoints of these jobs: a job after the other, the oldest first."""
    found = []
    for folder in folders:
        for checkpoint in reversed(verl_checkpoints.every(folder.checkpoints, _layout(folder))):
            size, saved_at = measured(checkpoint.path)
            origin = (folder.submission_id, checkpoint.step)
            found.append(
                Row(
                    id=folder.submission_id,
                    step=checkpoint.step,
                    path=str(checkpoint.path),
                    whole=not checkpoint.problem,
                    problem=checkpoint.problem,
                    bytes=size,
                    saved_at=moment_of(saved_at),
                    resumed_by=[each.id for each in resumers if (each.source, each.step) == origin],
                )
            )
    return found


def _layout(folder: JobFolder) -> CheckpointLayout | None:
    try:
        return workloads.load(plan.read(folder).workload).checkpoint
    except BadInput:  # a workload of the user's own that this host does not know, or a damaged plan
        return None


def table(listed: Sequence[Row], width: int) -> str:
    """Return the checkpoints for people, in lines of at most ``width`` columns."""
    cells = [
        [row.name, shown_size(row.bytes), age(row.saved_at), ", ".join(row.resumed_by) or "-", row.problem or "yes"]
        for row in listed
    ]
    return "\n".join(columns(["CHECKPOINT", "SIZE", "AGE", "RESUMED BY", "WHOLE"], cells, width, colour=False))
