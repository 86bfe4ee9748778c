"""Pages about jobs. ID is a submission_id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..base.errors import BadInput, Failed
from . import job, say

if TYPE_CHECKING:
    from pathlib import Path

    from ..proof.verify import Report
    from ..report.charts import Limit
    from ..report.facts import Run


@click.command("report")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--baseline", metavar="NAME", help="Record a baseline of this name from at least three equal runs; no page.")
@click.option(
    "--against", metavar="NAME", help="Judge the gates of the jobs' workloads against this baseline, and draw their limits."
)
@click.option("--gates", "with_gates", is_flag=True, help="The same against each job's default baseline, <device>-<workload>.")
@click.option("--any-hardware", is_flag=True, help="With --baseline or --against: also where the hardware differs.")
@click.option("--definition-of-done", "done", is_flag=True, help="Also judge each line of the plan's Definition of Done.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison of two jobs as one JSON object.")
def report(
    ids: tuple[str, ...],
    baseline: str | None,
    against: str | None,
    with_gates: bool,
    any_hardware: bool,
    done: bool,
    as_json: bool,
) -> None:
    """Write one HTML page about jobs into the folder of the first; print its path. Two jobs are compared."""
    import json

    from ..proof import definition_of_done
    from ..report import comparison, page
    from ..report.reports import write
    from ..seal.seals import Seals

    names = list(dict.fromkeys(ids))
    if baseline is not None:
        if as_json or done or with_gates or against is not None:
            raise BadInput("--baseline goes with no other option but --any-hardware", hint="./scripts/56_report.sh --help")
        print(_record(baseline, names, any_hardware))
        return
    if any_hardware and against is None:
        raise BadInput("--any-hardware needs --baseline or --against", hint="./scripts/56_report.sh --help")
    if as_json and len(names) != 2:
        raise BadInput(
            f"--json prints a comparison; expected exactly 2 job ids, got {len(names)}", hint="./scripts/56_report.sh --help"
        )
    loaded, folder = job(names[0])
    runs, reports, chain = _runs(names)
    compared = comparison.compare(*runs) if len(names) == 2 else None
    title = f"chain {chain}" if chain else ""
    limits = _judge_gates(runs, against, any_hardware) if with_gates or against is not None else None
    judged = definition_of_done.judge(reports) if done else []
    text = page.of_jobs(runs, compared=compared, title=title, limits=limits, done=judged)
    path = None
    try:
        path = write(folder, text, Seals.of(loaded))
    except Failed as error:
        raise Failed(
            f"the page was written, but not added to the job's seal: {error.what}", hint="./scripts/54_verify.sh"
        ) from None
    if compared:
        for line in compared.in_words():
            say(line)
    print(json.dumps({"page": str(path), **compared.to_builtins()}) if compared and as_json else path)


def _judge_gates(runs: list[Run], name: str | None, any_hardware: bool) -> dict[str, list[Limit]]:
    """Add the verdicts of the gates to each job's checks; return the limits that a chart can show, by metric."""
    from ..gates import judging
    from ..report import charts

    drawn: list[tuple[str, str, float, str]] = []
    for run in runs:
        judged = judging.judge(run.folder, run.result, name, any_hardware=any_hardware)
        run.checks += judged.checks
        drawn += judged.limits
    return charts.limits(drawn)


def _record(name: str, names: list[str], any_hardware: bool) -> Path:
    """Record a baseline from equal jobs, all of which succeeded; return its file."""
    from ..base.shared_storage import writing
    from ..gates import baseline, gates, judging, of_job
    from ..masking import known as known_values
    from ..plan import plan
    from ..record import job_folder
    from ..report import comparison
    from ..report.facts import Run

    folders = [job(each)[1] for each in names]
    results = [job_folder.read(folder) for folder in folders]
    if unfit := next((result for result in results if result.state != "SUCCEEDED"), None):
        raise BadInput(
            f"job '{unfit.submission_id}' is {unfit.state}: a baseline is made of jobs that succeeded", hint="leave it out"
        )
    mask = known_values.mask(folders[0].shared)
    known = [
        (
            result.workload,
            of_job.hardware(folder, plan.read(folder)),
            of_job.versions(folder),
            comparison.identity(Run(folder, result, mask)),
        )
        for folder, result in zip(folders, results, strict=True)
    ]
    for at, what in enumerate(("workload", "hardware", "versions", "toolkit, JobSpec, code, data, model or reward function")):
        if what == "hardware" and any_hardware:
            continue
        if other := next((each for each, facts in zip(names, known, strict=True) if facts[at] != known[0][at]), None):
            raise BadInput(
                f"jobs '{names[0]}' and '{other}' differ in {what}: a baseline is made of equal runs",
                hint="--any-hardware records them all the same" if what == "hardware" else f"56_report.sh {names[0]} {other}",
            )
    workload, _, versions, _ = known[0]
    hardware = baseline.together([facts[1] for facts in known])
    found = gates.load(workload)
    plans = [plan.read(folder) for folder in folders]
    busy = [judging.of_a_busy_machine(found, folder, each) for folder, each in zip(folders, plans, strict=True)]
    left_out = {gate: f"{why}: {name}" for name, each in zip(names, busy, strict=True) for gate, why in each.items()}
    for gate, why in left_out.items():
        say(f"gate '{gate}' is not recorded: {why}")
    read = [of_job.data(folder, result, found.metrics) for folder, result in zip(folders, results, strict=True)]
    values = [gates.values(found, each, left_out) for each in read]
    by_gate = {gate: [each[gate] for each in values] for gate in values[0]}
    made = baseline.make(name, workload, names, hardware, versions, by_gate, of_job.task(folders[0], plans[0]))
    with writing(folders[0].shared.root):
        return baseline.write(folders[0].shared, made)


def _runs(names: list[str]) -> tuple[list[Run], list[Report], str]:
    """Return the jobs and their checks, in order; for one attempt of a chain those of all its attempts, and the chain's id."""
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
    jobs = []
    for name in names:
        loaded, folder = job(name)
        result = job_folder.read(folder)
        if not result.ended:
            result = reconcile.settle(folder, result, ray_api.of(loaded, timeout_s=3))
        jobs.append(Job(folder, result, Seals.of(loaded)))
    reports = facts.judge(jobs)
    return [facts.load(each, judged.checks) for each, judged in zip(jobs, reports, strict=True)], reports, chain


def compare(first: str, second: str) -> Path:
    """Write the page that compares two jobs into the folder of the first; return its path."""
    from ..report import comparison, page
    from ..report.reports import write
    from ..seal.seals import Seals

    loaded, folder = job(first)
    runs, _, _ = _runs([first, second])
    return write(folder, page.of_jobs(runs, compared=comparison.compare(*runs)), Seals.of(loaded))
