"""The inputs of jobs: data, models, code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ..base.errors import BadInput
from . import columns, say

if TYPE_CHECKING:
    from ..cluster.cluster_file import Cluster


@click.command("pack-network")
def pack_network() -> None:
    """Print this machine's settings of network and hub, for the stdin of prepare or snapshot on another host."""
    import os

    from ..prepare import network

    sys.stdout.buffer.write(network.pack(os.environ))


NETWORK = "Stdin contains the output of pack-network."
AWAY = "With --dry-run: plan for a head that does not answer, without knowledge of its files."


@click.command("prepare")
@click.option("--network", "packed", is_flag=True, help=NETWORK)
@click.option("--dry-run", is_flag=True, help="Only print what would be made.")
@click.option("--away", is_flag=True, help=AWAY)
def prepare(packed: bool, dry_run: bool, away: bool) -> None:
    """Make data and model under the shared root, once; print their paths."""
    import os
    from pathlib import Path

    from ..base import documents, paths
    from ..cluster import cluster_file
    from ..prepare import network, prepare

    loaded = cluster_file.from_environment()
    settings = documents.convert(loaded.data, prepare.DataSettings, f"cluster '{loaded.name}': data")
    shared = paths.SharedRoot(Path(loaded.shared_root))
    if packed:
        # Before the hub library is imported: it reads some of them then.
        os.environ.update(network.for_hub(sys.stdin.buffer.read(), loaded.shared_root, os.environ))
    if dry_run and away:
        folders = prepare.plan(settings, shared, say)
    else:
        folders = [item.path for item in prepare.prepare(settings, shared, say, dry_run=dry_run)]
    for folder in folders:
        print(folder)


@click.command("snapshot")
@click.option("--source", metavar="DIR", help="A folder that contains verl/ (default: the code of the cluster file).")
@click.option("--list", "listed", is_flag=True, help="Only list the snapshots and the jobs that used them.")
@click.option("--prune", is_flag=True, help="Remove the snapshots that no job folder names, except the current one.")
@click.option("--code-id", metavar="NAME", help="The snapshot's name (default: made from its content).")
@click.option("--network", "packed", is_flag=True, help=NETWORK)
@click.option("--dry-run", is_flag=True, help="Only print what would be made or removed.")
@click.option("--away", is_flag=True, help=AWAY)
def snapshot(source: str | None, listed: bool, prune: bool, code_id: str | None, packed: bool, dry_run: bool, away: bool) -> None:
    """Copy verl's code under the shared root, once per content; print the snapshot's path."""
    import os

    from ..cluster import cluster_file

    options = {"--source": source is not None, "--list": listed, "--prune": prune}
    if len(chosen := [option for option, given in options.items() if given]) > 1:
        raise BadInput(f"{chosen[1]} cannot be combined with {chosen[0]}", hint="./scripts/31_snapshot_verl_code.sh --help")
    loaded = cluster_file.from_environment()
    if packed:
        from ..prepare import network

        os.environ.update(network.for_git(sys.stdin.buffer.read()))
    if listed:
        _list(loaded)
    elif prune:
        _prune(loaded, dry_run)
    else:
        _take(loaded, source, code_id, dry_run, away)


def _take(loaded: Cluster, place: str | None, code_id: str | None, dry_run: bool, away: bool) -> None:
    from pathlib import Path

    from ..base import paths
    from ..prepare import snapshot

    code, shared = loaded.code, paths.SharedRoot(Path(loaded.shared_root))
    if place is not None:
        source = snapshot.Source(path=Path(place))
    elif not code.folder:
        source = snapshot.Source()
    elif code.source == "git":
        source = snapshot.Source(path=Path(code.folder), clone_from=code.repository, revision=code.revision)
    else:
        source = snapshot.Source(path=Path(code.folder))
    if dry_run and away:
        print(snapshot.plan(source, shared, code_id, say))
    else:
        print(snapshot.snapshot(source, shared, code_id, dry_run=dry_run, say=say).path)


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
