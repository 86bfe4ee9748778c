"""What jobs are made of: data, models, code."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..base.errors import BadInput
from . import say

if TYPE_CHECKING:
    from ..cluster.cluster_file import Cluster
    from . import Verbs


def _prepare(args: argparse.Namespace) -> int:
    from pathlib import Path

    from ..base import documents, paths
    from ..cluster import cluster_file
    from ..prepare import prepare

    loaded = cluster_file.from_environment()
    settings = documents.convert(loaded.data, prepare.DataSettings, f"cluster '{loaded.name}': data")
    for item in prepare.prepare(settings, paths.SharedRoot(Path(loaded.shared_root)), say, dry_run=args.dry_run):
        print(item.path)
    return 0


def _snapshot(args: argparse.Namespace) -> int:
    from pathlib import Path

    from ..base import paths
    from ..cluster import cluster_file
    from ..plan import snapshot

    loaded = cluster_file.from_environment()
    if args.list or args.prune:
        return _stored_snapshots(loaded, args)
    code = loaded.code
    place = args.source or code.path
    if args.source is None and code.source == "package":
        source = snapshot.Source()
    elif place is None:
        raise BadInput(f"cluster '{loaded.name}': code.source is '{code.source}' but code.path is not set")
    else:
        source = snapshot.Source(path=Path(place), clone_from=code.repository or "" if code.source == "git" else "")
    shared = paths.SharedRoot(Path(loaded.shared_root))
    print(snapshot.snapshot(source, shared, args.code_id, dry_run=args.dry_run, say=say).path)
    return 0


def _stored_snapshots(loaded: Cluster, args: argparse.Namespace) -> int:
    import shutil
    from pathlib import Path

    from ..base import paths
    from ..plan import snapshot_store

    shared = paths.SharedRoot(Path(loaded.shared_root))
    if args.list:
        print(snapshot_store.table(snapshot_store.stored(shared), shutil.get_terminal_size((160, 24)).columns))
        return 0
    removed = snapshot_store.prune(shared, say, dry_run=args.dry_run)
    for code_id in removed:
        print(code_id)
    say(f"{'would remove' if args.dry_run else 'removed'} {len(removed)} snapshots that no job folder names")
    return 0


def add(verbs: Verbs) -> None:
    """The parsers of all of them."""
    verb = verbs.add_parser("prepare", help="data and model under the shared root, made once")
    verb.add_argument("--dry-run", action="store_true", help="only say what would be made")
    verb.set_defaults(action=_prepare)

    verb = verbs.add_parser("snapshot", help="verl's code under the shared root, made once per content")
    what = verb.add_mutually_exclusive_group()
    what.add_argument("--source", help="a folder that holds verl/ (default: what the cluster file says)")
    what.add_argument("--list", action="store_true", help="the snapshots there are, and the jobs that used them")
    what.add_argument("--prune", action="store_true", help="remove those that no job folder names, but not the current one")
    verb.add_argument("--code-id", help="the snapshot's name (default: made from its content)")
    verb.add_argument("--dry-run", action="store_true", help="only say what would be made")
    verb.set_defaults(action=_snapshot)
