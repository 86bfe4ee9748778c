"""Explain and judge logs and metrics."""

from __future__ import annotations

import os
import sys

import click

from ..base.errors import BadInput
from ..base.terminal import shown
from ..base.verdict import painted
from . import coloured, columns, job, say


@click.command("explain")
@click.argument("target", metavar="ID|LOG")
@click.option("--log", "is_log", is_flag=True, help="The argument is the path of a log on this host, not a submission_id.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(target: str, is_log: bool, as_json: bool) -> None:
    """Print the first root cause of a job's failure, or of the failure that a log shows."""
    import json
    from pathlib import Path

    import msgspec

    from ..cluster import ray_api
    from ..diagnosis import views
    from ..record import job_folder, reconcile

    if is_log:
        explanation = views.explain_log(Path(target))
    else:
        loaded, folder = job(target)
        explanation = views.explain_job(
            folder, reconcile.settle(folder, job_folder.read(folder), ray_api.of(loaded, timeout_s=3))
        )
    print(
        json.dumps(msgspec.to_builtins(explanation))
        if as_json
        else painted(shown(views.show_explanation(explanation)), coloured())
    )


@click.command("triage")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per log.")
def triage(logs: tuple[str, ...], as_json: bool) -> int:
    """Judge the code under test by logs or metrics files; the exit code is the worst verdict."""
    import json
    from pathlib import Path

    import msgspec

    from ..diagnosis import views

    verdicts, unreadable = set(), 0
    for log in logs:
        try:
            judged = views.triage_file(Path(log))
        except BadInput as error:
            say(error.show())
            unreadable = error.exit_code
            continue
        verdicts.add(judged.verdict)
        text = json.dumps(msgspec.to_builtins(judged)) if as_json else painted(shown(views.show_triage(judged)), coloured())
        print(text, flush=True)
    return unreadable or (1 if "Fail" in verdicts else 3 if verdicts & {"Blocked", "Unknown"} else 0)


@click.command("trend")
@click.argument("submission_id", metavar="ID")
def trend(submission_id: str) -> int:
    """Print a chart of a job's reward by step, and test whether it rose; exit code 1 when it did not."""
    from ..base import chart
    from ..learning import trend
    from ..record import metrics

    _, folder = job(submission_id)
    rewards = metrics.read(folder.metrics).rewards()
    if not rewards:
        raise BadInput(f"job '{submission_id}' has no reward in {folder.metrics}", hint="./scripts/50_status.sh lists the jobs")
    tested = trend.of(rewards)
    encoding = chart.encoding(os.environ, sys.stdout.encoding)
    print("\n".join([*chart.bars(rewards, min(100, columns()), 10, encoding), tested.tell("reward")]))
    return 0 if tested.rises else 1
