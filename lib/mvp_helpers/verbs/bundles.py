"""The evidence of a job, gathered into one archive. ID is a submission_id, BUNDLE the folder of a debug bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..base import shared_storage
from ..base.errors import Blocked, MvpError
from . import job, say

if TYPE_CHECKING:
    from ..base.paths import JobFolder
    from ..cluster.cluster_file import Cluster


@click.command("debug-bundle")
@click.argument("submission_id", metavar="ID")
@click.option("--event", default="manual", metavar="WORD", help="The word in the bundle's name (default: manual).")
def debug_bundle(submission_id: str, event: str) -> None:
    """Write snapshots of Ray's state into the job folder; print the bundle's path."""
    from ..cluster import ray_api
    from ..record import debug_bundle

    loaded, folder = job(submission_id)
    with shared_storage.writing(folder.debug):
        bundle = debug_bundle.take(folder, ray_api.of(loaded), event)
    _seal_added(loaded, folder, bundle)
    print(bundle)
    failed, collected = debug_bundle.outcome(bundle)
    for item, error in failed.items():
        say(f"{item}: {error}")
    if not collected:
        raise Blocked("Ray did not answer; the bundle contains only the errors", hint="./scripts/50_status.sh")


@click.command("host-report")
@click.argument("host")
@click.argument("submission_id", metavar="ID")
@click.argument("bundle")
@click.option("--py-spy", is_flag=True, help="Also add the stacks of the job's Python processes.")
def host_report(host: str, submission_id: str, bundle: str, py_spy: bool) -> None:
    """Add this host's part to a debug bundle; HOST is its name."""
    from ..proof import host_report

    loaded, folder = job(submission_id)
    with shared_storage.writing(Path(bundle)):
        for line in host_report.take(loaded, host, folder, Path(bundle), py_spy=py_spy):
            say(f"{host}: {line}")


@click.command("pack-bundle")
@click.argument("submission_id", metavar="ID")
@click.argument("bundle")
def pack_bundle(submission_id: str, bundle: str) -> None:
    """Make one archive of a debug bundle and the job's evidence; print its path."""
    from ..proof import archive

    loaded, folder = job(submission_id)
    with shared_storage.writing(Path(bundle)):
        packed, missing = archive.pack(loaded, folder, Path(bundle))
    _seal_added(loaded, folder, Path(bundle), packed)
    print(packed)
    size = packed.stat().st_size
    say(f"{size / 1e6:.1f} MB" + (f"; {len(missing)} items are missing: missing.txt in it names them" if missing else ""))


def _seal_added(loaded: Cluster, folder: JobFolder, *places: Path) -> None:
    """Add the files that a command has just written to the seal of a sealed job."""
    from ..seal.seals import Seals

    try:
        Seals.of(loaded).add(folder, *places)
    except (MvpError, OSError) as error:
        say(f"not added to the job's seal: {error.what if isinstance(error, MvpError) else error}")
