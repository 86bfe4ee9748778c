"""Removes records of ended jobs from Ray (``ray.keep_job_records: false``), so that a head that lives long does not slow down.

Ray lists, and keeps in memory, every job it ever ran. Ours are told by their folders, so a record goes when the folder says how
the job ended and holds a debug bundle of that end. Nothing is noted anywhere: what is still on Ray's list is what is left to do,
and a removal that was lost, or a setting that was changed late, is made up for at the next look.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from ..base.errors import MvpError
from ..base.paths import JobFolder, SharedRoot
from ..cluster.cluster_file import Cluster
from ..cluster.ray_api import ENDED, RayApi
from ..record import debug_bundle, job_folder, reconcile
from ..record.job_folder import Result

AT_ONCE = 50
"""Removals in one call (some 20 ms each): thousands of old records must not hold up a person."""


def sweep(cluster: Cluster, api: RayApi) -> list[str]:
    """Remove the records that may go, and return their ids. What fails raises nothing: the next call tries again."""
    removed: list[str] = []
    if cluster.ray.keep_job_records:
        return removed
    with contextlib.suppress(MvpError, OSError):
        shared = SharedRoot(Path(cluster.shared_root))
        for record in api.jobs():
            name = record.get("submission_id")
            if len(removed) == AT_ONCE or not name or record["status"] not in ENDED:
                continue
            with contextlib.suppress(MvpError, OSError):
                if _evidence_is_whole(shared.job(name), api):
                    api.delete_job(name)
                    removed.append(name)
    return removed


def _evidence_is_whole(folder: JobFolder, api: RayApi) -> bool:
    """Whether Ray's record tells nothing that the folder lacks; what it lacks is written now. Raises BadInput: not our job."""
    result: Result = job_folder.read(folder)
    if reconcile.submitted_to(folder) != api.address:
        return False
    result = reconcile.settle(folder, result, api)
    if not result.ended:
        return False
    event = result.state.lower()
    if not any(folder.debug.glob(f"*-{event}")):  # the runner was gone before it could
        debug_bundle.take(folder, api, event)
    return True
