"""The Ray node of a host: started, kept alive, waited for, stopped. HOST is a name in the cluster file."""

from __future__ import annotations

import click

from . import say


@click.command("start-node")
@click.argument("host")
@click.option("--early", is_flag=True, help="For a head: return as soon as workers can join.")
@click.option("--stay", is_flag=True, help="Run until the node ends; when a signal ends this process, end the node.")
@click.option("--watchdog", "watched", is_flag=True, help="Leave a process that restarts the node when it dies.")
def start_node(host: str, early: bool, stay: bool, watched: bool) -> None:
    """Start this host's Ray node, or repair it; print what was done."""
    import signal
    from pathlib import Path

    from ..base import shared_storage
    from ..base.paths import SharedRoot
    from ..cluster import cluster_file, ray_node

    # Scripts start workers in the background, where bash ignores SIGINT, and pass Ctrl-C on as SIGTERM.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    loaded = cluster_file.from_environment()
    if host == loaded.head.name:
        shared_storage.make_folders(SharedRoot(Path(loaded.shared_root)).folders)
    did = ray_node.start(loaded, host, early=early)
    print(did, flush=True)
    if watched:
        from ..cluster import watchdog

        watchdog.of(loaded, host).start("watchdog", host)
    if host == loaded.head.name:
        from ..retry import watcher
        from ..seal import sealer

        watcher.start(loaded)
        sealer.start(loaded)
    if stay and did != "already running":
        ray_node.stay(loaded, host)


@click.command("stop-node")
@click.argument("host")
def stop_node(host: str) -> None:
    """End this host's Ray node and every process on it."""
    from ..cluster import cluster_file, ray_node, watchdog

    loaded = cluster_file.from_environment()
    watchdog.of(loaded, host).stop()
    try:
        print(ray_node.stop(loaded, host))
    finally:
        if host == loaded.head.name:
            from ..seal import sealer

            sealer.stop(loaded, say)


@click.command("wait-nodes")
@click.option("--now", is_flag=True, help="Do not wait: print up, partly up or down.")
def wait_nodes(now: bool) -> None:
    """Wait until every host's Ray node is alive with its resources."""
    from ..cluster import cluster_file, ray_node

    loaded = cluster_file.from_environment()
    if now:
        if ended := ray_node.head_ended(loaded):
            say(ended)
        print(ray_node.state(loaded))
    else:
        ray_node.wait(loaded)


@click.command("watchdog")
@click.argument("host")
def watchdog(host: str) -> None:
    """Keep this host's Ray node joined to its cluster (start-node --watchdog starts this)."""
    from ..cluster import cluster_file, watchdog

    watchdog.watch(cluster_file.from_environment(), host)


@click.command("watch-chains")
def watch_chains() -> None:
    """Start the next attempt of every job with retry (start-node starts this on the head)."""
    from ..cluster import cluster_file
    from ..retry import watcher

    watcher.watch(cluster_file.from_environment())


@click.command("end-chains")
def end_chains() -> None:
    """End the watcher and all chains of this cluster, which is being stopped."""
    from ..cluster import cluster_file
    from ..retry import watcher

    for chain_id in watcher.stop(cluster_file.from_environment()):
        say(f"{chain_id}: no further attempt follows")


@click.command("seal-jobs")
def seal_jobs() -> None:
    """Seal the folders of jobs that have ended (start-node starts this on the head)."""
    from ..cluster import cluster_file
    from ..seal import sealer

    sealer.watch(cluster_file.from_environment())


@click.command("ray", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def ray(words: tuple[str, ...]) -> None:
    """Replace this process with Ray's own command COMMAND, with the address and token of this cluster; run this on the head."""
    import os

    from ..cluster import cluster_file, ray_command

    argv, environment = ray_command.aimed(cluster_file.from_environment(), words, os.environ)
    os.execve(argv[0], argv, environment)
