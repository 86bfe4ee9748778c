"""Stop jobs, and end the processes that they leave. ID is a submission_id, HOST a name in the cluster file."""

from __future__ import annotations

import click

from ..base.errors import BadInput
from ..base.terminal import shown
from . import job, say


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
