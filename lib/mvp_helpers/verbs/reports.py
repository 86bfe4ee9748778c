"""Pages about jobs. ID is a submission_id."""

from __future__ import annotations

import click

from ..base.errors import Failed
from . import job, say


@click.command("report")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def report(ids: tuple[str, ...]) -> None:
    """Write one HTML page about jobs into the folder of the first; print its path."""
    from ..cluster import ray_api
    from ..proof.evidence import Job
    from ..record import job_folder, reconcile
    from ..report import facts, page, reports
    from ..seal.seals import Seals

    runs = []
    for submission_id in dict.fromkeys(ids):
        loaded, folder = job(submission_id)
        result = job_folder.read(folder)
        if not result.ended:
            result = reconcile.settle(folder, result, ray_api.of(loaded, timeout_s=3))
        runs.append(facts.load(Job(folder, result, Seals.of(loaded))))
    loaded, folder = job(ids[0])
    text = page.of_jobs(runs)
    try:
        print(reports.write(folder, text, Seals.of(loaded)))
    except Failed as error:
        say(f"not added to the job's seal: {error.what}")
