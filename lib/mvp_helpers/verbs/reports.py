"""Pages about jobs. ID is a submission_id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..base.errors import BadInput, Failed
from . import job, say

if TYPE_CHECKING:
    from ..report.facts import Run


@click.command("report")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison of two jobs as one JSON object.")
def report(ids: tuple[str, ...], as_json: bool) -> None:
    """Write one HTML page about jobs into the folder of the first; print its path. Two jobs are compared."""
    import json

    from ..report import comparison, page, reports
    from ..report.page import Section
    from ..seal.seals import Seals

    names = list(dict.fromkeys(ids))
    if as_json and len(names) != 2:
        raise BadInput(
            f"--json prints a comparison; expected exactly 2 job ids, got {len(names)}", hint="./scripts/56_report.sh --help"
        )
    loaded, folder = job(names[0])
    runs, chain = _runs(names)
    more: list[Section] = []
    compared = None
    if len(names) == 2:
        compared = comparison.compare(*runs)
        more.append(("comparison", "Comparison", comparison.section(compared)))
    title = f"chain {chain}" if chain else ""
    text = page.of_jobs(runs, more=more, title=title)
    path = None
    try:
        path = reports.write(folder, text, Seals.of(loaded))
    except Failed as error:
        raise Failed(
            f"the page was written, but not added to the job's seal: {error.what}", hint="./scripts/54_verify.sh"
        ) from None
    if compared:
        for line in (compared.sentence(), compared.equality.in_words()):
            say(line)
    print(json.dumps({"page": str(path), **compared.to_builtins()}) if compared and as_json else path)


def _runs(names: list[str]) -> tuple[list[Run], str]:
    """Return the jobs, in order; for one attempt of a chain all its attempts, and the chain's id."""
    from ..base.errors import MvpError
    from ..cluster import ray_api
    from ..proof.evidence import Job
    from ..record import chain as chains
    from ..record import job_folder, reconcile
    from ..report import facts
    from ..seal.seals import Seals

    chain = ""
    if len(names) == 1:
        _, folder = job(names[0])
        try:
            found = chains.find(folder.shared, names[0])
        except MvpError:
            found = None
        if found and len(found.attempts) > 1:
            chain = found.id
            names = [attempt.id for attempt in found.attempts if folder.shared.job(attempt.id).path.is_dir()]
    runs = []
    for name in names:
        loaded, folder = job(name)
        result = job_folder.read(folder)
        if not result.ended:
            result = reconcile.settle(folder, result, ray_api.of(loaded, timeout_s=3))
        runs.append(facts.load(Job(folder, result, Seals.of(loaded))))
    return runs, chain
