"""Check the evidence in job folders. ID is a submission_id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..base.errors import BadInput, Failed, MvpError
from . import coloured, columns, job, say

if TYPE_CHECKING:
    from ..base.paths import JobFolder
    from ..base.verdict import Check
    from ..proof.evidence import Job
    from ..seal.seals import Seals


@click.command("verify")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--definition-of-done", "done", is_flag=True, help="Also judge each line of the plan's Definition of Done.")
@click.option("--learning", is_flag=True, help="Also check that reward or loss got better.")
@click.option("--seal", "seal_now", is_flag=True, help="First seal the files of ended jobs that are not sealed yet.")
@click.option("--gates", "with_gates", is_flag=True, help="Also judge the metrics by the gates of each job's workload.")
@click.option("--baseline", metavar="NAME", help="With --gates: the runs to compare with (default: <device>-<workload>).")
@click.option("--any-hardware", is_flag=True, help="With --baseline: also compare with runs of other hardware.")
def verify(
    ids: tuple[str, ...],
    as_json: bool,
    done: bool,
    learning: bool,
    seal_now: bool,
    with_gates: bool,
    baseline: str | None,
    any_hardware: bool,
) -> int:
    """Prove from the evidence in job folders that the jobs ran as they should; exit code 1 when a check fails."""
    import dataclasses
    import json

    import msgspec

    from ..base import verdict
    from ..cluster import ray_api
    from ..proof import definition_of_done, verify
    from ..proof.evidence import Job
    from ..record import job_folder, reconcile
    from ..seal.seals import Seals

    if (baseline is not None and not with_gates) or (any_hardware and baseline is None):
        raise BadInput("--baseline needs --gates, and --any-hardware needs --baseline", hint="./scripts/54_verify.sh --help")
    jobs = []
    for submission_id in dict.fromkeys(ids):
        loaded, folder = job(submission_id)
        result = job_folder.read(folder)
        if not result.ended:
            result = reconcile.settle(folder, result, ray_api.of(loaded))
        seals = Seals.of(loaded)
        if result.ended:
            _seal(seals, folder, seal_now)
        jobs.append(Job(folder, result, seals))
    gate_checks = [_gates(each, baseline, any_hardware) for each in jobs] if with_gates else [[] for _ in jobs]
    reports = [
        dataclasses.replace(report, checks=[*report.checks, *more])
        for report, more in zip(verify.verify(jobs, learning), gate_checks, strict=True)
    ]
    lines = definition_of_done.judge(reports) if done else []
    passed = all(report.passed for report in reports)
    if as_json:
        verdicts = {"passed": passed, "jobs": [report.to_builtins() for report in reports]}
        if lines:
            verdicts["definition_of_done"] = msgspec.to_builtins(lines)
        print(json.dumps(verdicts))
    else:
        print("\n".join(verify.table(report, columns(), colour=coloured()) for report in reports))
        print(verify.counts(reports))
        if lines:
            print(verdict.table(lines, columns(), "Definition of Done", colour=coloured()))
    return 0 if passed else 1


def _gates(each: Job, name: str | None, any_hardware: bool) -> list[Check]:
    """Return the verdicts of a job's gates; say what was not compared. Raises BadInput when the baseline does not fit."""
    from ..gates import judging

    judged = judging.judge(each.folder, each.result, name, any_hardware=any_hardware)
    if judged.note:
        say(judged.note)
    return judged.checks


@click.command("verify-versions")
@click.argument("first", metavar="ID")
@click.argument("second", metavar="ID")
def verify_versions(first: str, second: str) -> int:
    """Prove that two versions of the code ran at the same time; exit code 1 when a check fails."""
    from ..proof import two_versions, verify
    from ..proof.evidence import Job
    from ..record import job_folder
    from ..seal.seals import Seals

    jobs = [(folder, Seals.of(loaded)) for loaded, folder in map(job, (first, second))]
    reports = two_versions.verdict([Job(folder, job_folder.read(folder), seals) for folder, seals in jobs])
    print("\n".join(verify.table(report, columns(), colour=coloured()) for report in reports))
    print(verify.counts(reports))
    return 0 if all(report.passed for report in reports) else 1


def _seal(seals: Seals, folder: JobFolder, seal_now: bool) -> None:
    """Seal the jobs that the head's sealer has yet to seal; with ``seal_now`` all files. The check reports unsealed ones."""
    try:
        seals.seal_requested(folder)
        if seal_now and (names := seals.seal_now(folder)):
            say(f"{folder.submission_id}: sealed {len(names)} files that no seal had")
    except Failed:
        pass  # a seal that is not the cluster's own: the check says why
    except (MvpError, OSError) as error:
        say(f"{folder.submission_id}: not sealed: {error.what if isinstance(error, MvpError) else error}")
