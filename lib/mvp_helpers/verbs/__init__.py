"""The helper's verbs, a module for each concern: ``add`` makes the parsers, and every verb parses its arguments and calls one
action. Results on stdout, talk on stderr. ``cli`` knows which verb is where."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ..base.errors import BadInput

if TYPE_CHECKING:
    from ..base.paths import JobFolder
    from ..cluster.cluster_file import Cluster

    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]


def say(text: str) -> None:
    """One line for the person watching."""
    print(text, file=sys.stderr, flush=True)


def job(submission_id: str) -> tuple[Cluster, JobFolder]:
    """The loaded cluster and the folder of one of its jobs. Raises BadInput when there is no such job."""
    from pathlib import Path

    from ..base import paths
    from ..cluster import cluster_file
    from ..record import job_folder

    if "/" in submission_id or submission_id.startswith("."):
        raise BadInput(f"'{submission_id}' is not a submission_id", hint="./scripts/50_status.sh lists the jobs")
    loaded = cluster_file.from_environment()
    folder = paths.SharedRoot(Path(loaded.shared_root)).job(submission_id)
    job_folder.read(folder)
    return loaded, folder
