"""Jobs: the list, the status screen, their logs, and their end. ID is a submission_id, HOST a name in the cluster file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ..base.errors import BadInput
from ..base.terminal import shown
from . import columns, job, say
from .values import Count, Since

if TYPE_CHECKING:
    from ..base.paths import JobFolder
    from ..cluster.cluster_file import Cluster
    from ..cluster.ray_api import RayApi
    from ..retry.follow import FollowOne

WATCH_S = 2.0


@click.command("list")
@click.option("--limit", type=Count(0), default=20, help="Show at most this many jobs (default 20).")
def list_(limit: int) -> None:
    """Print the newest jobs, newest first: id, state as last written, workload, time of submission."""
    from pathlib import Path

    from ..base import paths
    from ..cluster import cluster_file
    from ..record import job_folder

    shared = paths.SharedRoot(Path(cluster_file.from_environment().shared_root))
    for submission_id in job_folder.newest_ids(shared, limit):
        folder = shared.job(submission_id)
        if folder.path.is_dir():  # a job folder removed by hand leaves its name in the index
            try:
                result = job_folder.read(folder)
            except BadInput as error:
                say(error.what)
                print(submission_id, "DAMAGED", "?", "", sep="\t")
                continue
            print(submission_id, result.state, shown(result.workload), result.claimed_at, sep="\t")


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (with --watch one per line).")
@click.option("--watch", is_flag=True, help="Refresh every 2 seconds, until Ctrl-C.")
@click.option(
    "--limit",
    type=Count(0),
    default=20,
    help="Show at most this many of the newest jobs, and every job that has not ended (default 20).",
)
@click.option("--follow", metavar="ID", help="Follow this job to its end and exit with its outcome.")
def status(as_json: bool, watch: bool, limit: int, follow: str | None) -> int:
    """Show the cluster and its newest jobs on one screen."""
    import contextlib
    import time

    from ..cluster import cluster_file, ray_api

    if follow is not None:
        return _follow(follow)
    loaded = cluster_file.from_environment()
    api = ray_api.of(loaded, timeout_s=3)
    clear = "\x1b[H\x1b[2J" if watch and sys.stdout.isatty() else ""
    _show_status(loaded, api, limit, as_json, clear)
    with contextlib.suppress(KeyboardInterrupt):
        while watch:
            time.sleep(WATCH_S)
            _show_status(loaded, api, limit, as_json, clear)
    return 0


def _show_status(loaded: Cluster, api: RayApi, limit: int, as_json: bool, clear: str) -> None:
    import json

    from ..base.terminal import wants_colour
    from ..job import status
    from ..record import retention

    now = status.collect(loaded, api, limit)
    text = json.dumps(now) if as_json else status.screen(now, columns(), wants_colour(sys.stdout.isatty()))
    print(clear + text, flush=True)
    retention.sweep(loaded, api)


def _follow(submission_id: str) -> int:
    from ..cluster import ray_api
    from ..job import follow

    loaded, folder = job(submission_id)
    api = ray_api.of(loaded)
    return _to_the_end(folder, lambda attempt, _: follow.follow(attempt, api, pending_timeout_s=None, say=say))


def _to_the_end(folder: JobFolder, follow_one: FollowOne) -> int:
    """Follow a job and its later attempts; return the exit code of the last one."""
    from ..retry import cause, follow

    return cause.exit_code(*follow.to_the_end(folder, follow_one, say))


@click.command("logs")
@click.argument("submission_id", metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Follow the log to the job's end and exit with its outcome.")
@click.option("--since", type=Since(), metavar="WHEN", help="Print only lines since: 10m, 2h, or 2026-01-31T23:59 (UTC).")
@click.option("--raw", is_flag=True, help="Print byte for byte: keep colours, escape no control characters.")
def logs(submission_id: str, follow: bool, since: float | None, raw: bool) -> int:
    """Print a job's log from its folder."""
    from ..cluster import ray_api
    from ..job import logs

    loaded, folder = job(submission_id)
    if not follow:
        logs.show(folder, since, say, raw=raw)
        return 0
    api = ray_api.of(loaded)
    return _to_the_end(folder, lambda attempt, _: logs.follow(attempt, api, since if attempt == folder else None, say, raw=raw))


@click.command("stop")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--now", is_flag=True, help="Do not wait for a checkpoint: SIGTERM at once.")
@click.option("--save-only", is_flag=True, help="Write a checkpoint; the job continues. Print id, step and path.")
def stop(ids: tuple[str, ...], now: bool, save_only: bool) -> None:
    """Let jobs save and end; print the id and state of each."""
    from ..cluster import ray_api
    from ..job import stop

    if now and save_only:
        raise BadInput("--now and --save-only cannot be combined")
    jobs = [job(submission_id, maybe_gone=not save_only) for submission_id in dict.fromkeys(ids)]
    folders, api = [folder for _, folder in jobs], ray_api.of(jobs[0][0])
    if save_only:
        for folder, saved in stop.save(folders, api, say):
            print(folder.submission_id, saved.step, shown(saved.path))
        return
    for result in stop.stop(folders, api, say, at_once=now):
        print(result.submission_id, result.state)


@click.command("stop-here")
@click.argument("host")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--now", is_flag=True, help="Do not wait for a checkpoint: SIGTERM at once.")
def stop_here(host: str, ids: tuple[str, ...], now: bool) -> None:
    """Stop the jobs whose runner is on this host, without Ray."""
    from ..job import stop

    for submission_id in dict.fromkeys(ids):
        stop.stop_here(job(submission_id, maybe_gone=True)[1], host, say, at_once=now)


@click.command("end-leftovers")
@click.argument("host")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def end_leftovers(host: str, ids: tuple[str, ...]) -> None:
    """End the processes that ended jobs have left on this host."""
    from ..job import stop

    for submission_id in dict.fromkeys(ids):
        stop.end_leftovers(*job(submission_id, maybe_gone=True), host, say)
