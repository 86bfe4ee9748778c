"""What the model said in a job's kept steps, and its scores by another reward function."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ..base.errors import BadInput
from . import columns, job, say
from .values import Count

if TYPE_CHECKING:
    from ..samples.choose import Answers

HINT = "./scripts/58_samples.sh --help"


@click.command("samples")
@click.argument("submission_id", metavar="ID")
@click.option("--step", type=Count(1), help="The answers of this step (default: the newest that was kept).")
@click.option("--worst", type=Count(1, example=5), help="The answers with the lowest scores.")
@click.option("--best", type=Count(1, example=5), help="The answers with the highest scores.")
@click.option("--changed", is_flag=True, help="The prompts whose scores changed most.")
@click.option("--rescore", metavar="FILE", help="Score the kept answers again with this reward function, and compare.")
@click.option("--full", is_flag=True, help="Print long prompts and answers whole.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def samples(
    submission_id: str,
    step: int | None,
    worst: int | None,
    best: int | None,
    changed: bool,
    rescore: str | None,
    full: bool,
    as_json: bool,
) -> None:
    """Print prompts, answers and scores that a job kept, side by side across steps."""
    import msgspec

    from ..samples import choose, show

    given = [bool(each) for each in (worst, best, changed, rescore)]
    if sum(given) > 1:
        raise BadInput("--worst, --best, --changed and --rescore exclude each other", hint=HINT)
    if changed and step is not None:
        raise BadInput("--changed compares the kept steps: --step does not go with it", hint=HINT)
    _, folder = job(submission_id)
    answers = choose.kept(folder)
    if rescore is not None:
        _rescore(submission_id, rescore, answers, step, as_json)
        return
    order: choose.Order = "worst" if worst else "best" if best else "changed" if changed else "first"
    groups = choose.groups(answers, step, order, worst or best or 5)
    if as_json:
        print(json.dumps({"id": submission_id, "steps": sorted(answers), "groups": msgspec.to_builtins(groups)}))
        return
    say(f"{submission_id}: {sum(map(len, answers.values()))} answers of steps {choose.spans(answers)}")
    print(show.page(groups, min(columns(), 160), full=full))


def _rescore(submission_id: str, function: str, answers: Answers, step: int | None, as_json: bool) -> None:
    import msgspec

    from ..plan import plan, reward
    from ..samples import choose, rescore

    _, folder = job(submission_id)
    the_plan = plan.read(folder)
    if step is not None and step not in answers:
        raise BadInput(f"step {step} is not among the kept ones: {choose.spans(answers)}", hint=f"--step {max(answers)}")
    rows = [row for each, rows in answers.items() if step in (None, each) for row in rows]
    found = reward.find(function, folder.shared, "--rescore")
    reward.check_source(found, "--rescore")
    scores = rescore.rescore(found, rows, the_plan, folder.shared.user_code)
    if as_json:
        print(json.dumps({"id": submission_id, "function": f"{found.file}:{found.name}", "scores": msgspec.to_builtins(scores)}))
    else:
        print(rescore.summary(scores))
