"""How jobs are stopped, and what they leave running is ended. ID is a submission_id, HOST a name in the cluster file."""

from __future__ import annotations

import click

from . import job, say


@click.command("stop")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def stop(ids: tuple[str, ...]) -> None:
    """Stop jobs so that a checkpoint can finish; print the id and state of each."""
    from ..cluster import ray_api
    from ..job import stop

    jobs = [job(submission_id) for submission_id in dict.fromkeys(ids)]
    for result in stop.stop([folder for _, folder in jobs], ray_api.of(jobs[0][0]), say):
        print(result.submission_id, result.state)


@click.command("stop-here")
@click.argument("host")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def stop_here(host: str, ids: tuple[str, ...]) -> None:
    """Stop the jobs whose runner is on this host, without Ray."""
    from ..job import stop

    for submission_id in dict.fromkeys(ids):
        stop.stop_here(job(submission_id)[1], host, say)


@click.command("end-leftovers")
@click.argument("host")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def end_leftovers(host: str, ids: tuple[str, ...]) -> None:
    """End what ended jobs have left running on this host."""
    from ..job import stop

    for submission_id in dict.fromkeys(ids):
        stop.end_leftovers(job(submission_id)[1], host, say)
