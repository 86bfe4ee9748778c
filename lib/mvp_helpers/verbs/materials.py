"""What jobs are made of: data, models, code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..base.errors import BadInput
from . import columns, say

if TYPE_CHECKING:
    from ..cluster.cluster_file import Cluster


@click.command("prepare")
@click.option("--dry-run", is_flag=True, help="Only say what would be made.")
def prepare(dry_run: bool) -> None:
    """Make data and model under the shared root, once; print their paths."""
    from pathlib import Path

    from ..base import documents, paths
    from ..cluster import cluster_file
    from ..prepare import prepare

    loaded = cluster_file.from_environment()
    settings = documents.convert(loaded.data, prepare.DataSettings, f"cluster '{loaded.name}': data")
    for item in prepare.prepare(settings, paths.SharedRoot(Path(loaded.shared_root)), say, dry_run=dry_run):
        print(item.path)


@click.command("snapshot")
@click.option("--source", metavar="DIR", help="A folder that contains verl/ (default: the code of the cluster file).")
@click.option("--list", "listed", is_flag=True, help="Only list the snapshots and the jobs that used them.")
@click.option("--prune", is_flag=True, help="Remove the snapshots that no job folder names, except the current one.")
@click.option("--code-id", metavar="NAME", help="The snapshot's name (default: made from its content).")
@click.option("--dry-run", is_flag=True, help="Only say what would be made or removed.")
def snapshot(source: str | None, listed: bool, prune: bool, code_id: str | None, dry_run: bool) -> None:
    """Copy verl's code under the shared root, once per content; print the snapshot's path."""
    from ..cluster import cluster_file

    options = {"--source": source is not None, "--list": listed, "--prune": prune}
    if len(chosen := [option for option, given in options.items() if given]) > 1:
        raise BadInput(f"{chosen[1]} cannot be combined with {chosen[0]}", hint="./scripts/31_snapshot_verl_code.sh --help")
    loaded = cluster_file.from_environment()
    if listed:
        _list(loaded)
    elif prune:
        _prune(loaded, dry_run)
    else:
        _take(loaded, source, code_id, dry_run)


def _take(loaded: Cluster, place: str | None, code_id: str | None, dry_run: bool) -> None:
    from pathlib import Path

    from ..base import paths
    from ..prepare import snapshot

    code = loaded.code
    if place is None and code.source == "package":
        source = snapshot.Source()
    elif place := place or code.path:
        source = snapshot.Source(path=Path(place), clone_from=code.repository or "" if code.source == "git" else "")
    else:
        raise BadInput(f"cluster '{loaded.name}': code.source is '{code.source}' but code.path is not set")
    print(snapshot.snapshot(source, paths.SharedRoot(Path(loaded.shared_root)), code_id, dry_run=dry_run, say=say).path)


def _list(loaded: Cluster) -> None:
    from pathlib import Path

    from ..base import paths
    from ..prepare import snapshot_store

    print(snapshot_store.table(snapshot_store.stored(paths.SharedRoot(Path(loaded.shared_root))), columns()))


def _prune(loaded: Cluster, dry_run: bool) -> None:
    from pathlib import Path

    from ..base import paths
    from ..prepare import snapshot_store

    removed = snapshot_store.prune(paths.SharedRoot(Path(loaded.shared_root)), say, dry_run=dry_run)
    for code_id in removed:
        print(code_id)
    say(f"{'would remove' if dry_run else 'removed'} {len(removed)} snapshots that no job folder names")
