"""The helper's verbs, a module for each subject: every verb parses its arguments and calls one action of a room below.

``group`` says which verb is in which module. Results go to stdout, messages to stderr.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..base.errors import BadInput
from ..base.terminal import shown, wants_colour

if TYPE_CHECKING:
    from ..base.paths import JobFolder
    from ..cluster.cluster_file import Cluster


def say(text: str) -> None:
    """Print one line for the person watching."""
    line = shown(text)
    if wants_colour(sys.stderr.isatty()):
        from ..base.verdict import painted

        line = painted(line, True)
    print(line, file=sys.stderr, flush=True)


def columns() -> int:
    """Return the width of the terminal; 160 where there is none."""
    import shutil

    return shutil.get_terminal_size((160, 24)).columns


def coloured() -> bool:
    """Return whether stdout is a terminal that wants colour."""
    return wants_colour(sys.stdout.isatty())


def job(submission_id: str, *, maybe_gone: bool = False) -> tuple[Cluster, JobFolder]:
    """Return the cluster of ``MVP_CLUSTER_JSON`` and the folder of one of its jobs.

    Raises BadInput when the folder does not exist, unless it is ``maybe_gone``, or its ``result.json`` cannot be read.
    """
    from pathlib import Path

    from ..base import paths
    from ..cluster import cluster_file
    from ..record import job_folder

    if "/" in submission_id or submission_id.startswith("."):
        raise BadInput(f"{submission_id!r} is not a submission_id", hint="./scripts/50_status.sh lists the jobs")
    loaded = cluster_file.from_environment()
    folder = paths.SharedRoot(Path(loaded.shared_root)).job(submission_id)
    if not (maybe_gone and folder.is_gone):
        job_folder.read(folder)
    return loaded, folder
