"""What the evidence in job folders proves. ID is a submission_id."""

from __future__ import annotations

import click

from . import columns, job


@click.command("verify")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--definition-of-done", "done", is_flag=True, help="Also judge each line of the plan's Definition of Done.")
def verify(ids: tuple[str, ...], as_json: bool, done: bool) -> int:
    """Prove from the evidence in job folders that the jobs ran as they should; exit code 1 when a check fails."""
    import json

    import msgspec

    from ..base import verdict
    from ..cluster import ray_api
    from ..proof import definition_of_done, verify
    from ..record import job_folder, reconcile

    jobs = []
    for submission_id in dict.fromkeys(ids):
        loaded, folder = job(submission_id)
        result = job_folder.read(folder)
        if not result.ended:
            result = reconcile.settle(folder, result, ray_api.of(loaded))
        jobs.append((folder, result))
    reports = verify.verify(jobs)
    lines = definition_of_done.judge(reports) if done else []
    passed = all(report.passed for report in reports)
    if as_json:
        verdicts = {"passed": passed, "jobs": [report.to_builtins() for report in reports]}
        if lines:
            verdicts["definition_of_done"] = msgspec.to_builtins(lines)
        print(json.dumps(verdicts))
    else:
        print("\n".join(verify.table(report, columns()) for report in reports))
        print(verify.counts(reports))
        if lines:
            print(verdict.table(lines, columns(), "Definition of Done"))
    return 0 if passed else 1


@click.command("verify-versions")
@click.argument("first", metavar="ID")
@click.argument("second", metavar="ID")
def verify_versions(first: str, second: str) -> int:
    """Prove that two versions of the code were at work at the same time; exit code 1 when a check fails."""
    from ..proof import two_versions, verify
    from ..proof.evidence import Job
    from ..record import job_folder

    folders = [job(submission_id)[1] for submission_id in (first, second)]
    reports = two_versions.verdict([Job(folder, job_folder.read(folder)) for folder in folders])
    print("\n".join(verify.table(report, columns()) for report in reports))
    print(verify.counts(reports))
    return 0 if all(report.passed for report in reports) else 1
