"""Remove records of ended jobs from Ray (``ray.keep_job_records: false``), so that a head does not slow down over months.

Ray keeps every job that it ran in memory and in its list. The job folders have the same facts, so a record is removed when the
folder says how the job ended and contains a debug bundle of that end. No state is kept: each call looks at
Ray's whole list, so it also makes up for a lost removal or a setting that was changed late.
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
"""Removals in one call (about 20 ms each): nobody should wait for thousands of old records."""


def sweep(cluster: Cluster, api: RayApi) -> list[str]:
    """Remove the records that are not needed and return their ids. A failure raises nothing: the next call tries again."""
    removed: list[str] = []
    if cluster.ray.keep_job_records:
        return removed
    with contextlib.suppress(MvpError, OSError):
        shared = SharedRoot(Path(cluster.shared_root))
        for record in api.jobs():
            name = record.get("submission_id")
            if len(removed) == AT_ONCE or not isinstance(name, str) or record.get("status") not in ENDED:
                continue
            with contextlib.suppress(MvpError, OSError):
                if _evidence_is_whole(shared.job(name), api):
                    api.delete_job(name)
                    removed.append(name)
    return removed


def _evidence_is_whole(folder: JobFolder, api: RayApi) -> bool:
    """Write the missing parts of Ray's record; return whether the folder is now complete. Raises BadInput for another's job."""
    result: Result = job_folder.read(folder)
    if reconcile.submitted_to(folder) != api.address:
        return False
    result = reconcile.settle(folder, result, api)
    if not result.ended:
        return False
    event = result.state.lower()
    if not any(folder.debug.glob(f"*-{event}")):  # the runner ended before it could write one
        debug_bundle.take(folder, api, event)
    return True
