"""Checks of what a job left: its ending, whole checkpoints, every step's metrics, and Ray snapshots of its moments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from ..base.errors import BadInput
from ..plan import workloads
from ..record import job_folder, removals
from ..retry import checkpoints as checkpoints_of_chain
from ..trainers import verl_checkpoints
from ..trainers.checkpoint import CheckpointLayout
from .evidence import Job, Skip, inside, need

SNAPSHOT_KINDS = ("ray_status.txt", "jobs.json", "nodes.json", "actors.json", "placement_groups.json")
MOMENTS = {"submission": {"submitted"}, "start": {"started"}, "end": {state.lower() for state in job_folder.TERMINAL}}


MOST_STEPS = 10_000_000
"""What a job says of its steps decides how much is compared here."""


def ended_well(job: Job, _: Sequence[Job]) -> str:
    """The job succeeded with exit code 0."""
    result = job.result
    job.cite(job.folder.result, '"state"')
    job.cite(job.folder.result, '"exit_code"')
    ending = f"result.json: state {result.state}, exit_code {result.exit_code}"
    need(result.state == "SUCCEEDED" and result.exit_code == 0, ending + (f", {result.reason}" if result.reason else ""))
    return ending


def checkpoints(job: Job, _: Sequence[Job]) -> str:
    """Every checkpoint that ``save_freq`` asks for is there, and every one that is kept is whole."""
    if not job.trains:
        raise Skip(f"workload '{job.plan.workload}' is not a trainer")
    save_freq = job.plan.save_freq
    folder, last = job.folder.checkpoints, job.metrics.last
    job.cite(job.folder.resolved, "save_freq:")
    need(last <= MOST_STEPS, f"metrics.jsonl: {last} steps, which no training reaches")
    need(inside(folder, job.folder.path), f"checkpoints/ leads out of the job folder, to {folder.resolve()}")
    saved = {checkpoint.step: checkpoint for checkpoint in verl_checkpoints.every(folder, _layout(job))}
    # verl saves the last step too; SFT even when save_freq is off. Without a number the steps that it chose are taken as given.
    if save_freq is None:
        wanted = {*saved, last}
    elif save_freq > 0:
        wanted = {step for step in range(job.plan.first_step, last + 1) if step == last or step % save_freq == 0}
    else:
        wanted = {last} & saved.keys()
    limit = verl_checkpoints.kept(job.given)
    # A chain keeps the newest of all its attempts: later ones take the place of this one's.
    later = checkpoints_of_chain.saved_later(job.folder) if limit and job.provenance.get("attempt") else set()
    removed = removals.of(job.folder)
    kept = (set(sorted(wanted | later)[-limit:]) & wanted if limit else wanted) - removed.keys()
    shown = f"checkpoints/: steps {ranges(saved)} (save_freq {save_freq}, last step {last})"
    shown += "".join(f"; step {step} was {text}" for step, text in sorted(removed.items()))
    need(bool(last) and kept <= saved.keys() <= wanted, f"{shown}, expected {ranges(kept)}")
    for step, text in sorted(removed.items()):
        job.cite_whole(job.folder.removals, f"step {step}: {text}")
    for step in sorted(kept):
        checkpoint = saved[step]
        path, problem = checkpoint.path, checkpoint.problem
        job.cite_whole(path, problem or "whole")
        need(inside(path, job.folder.path), f"checkpoints/{path.name} leads out of the job folder, to {path.resolve()}")
        need(not problem, f"checkpoints/{path.name} is not whole: {problem}")
    tracked = verl_checkpoints.tracked_step(folder)
    newest = max({*saved, *removed}, default=0)
    need(not saved or tracked == newest, f"checkpoints/{verl_checkpoints.TRACKER} names step {tracked}, not {newest}")
    return shown


def _layout(job: Job) -> CheckpointLayout | None:
    try:
        return workloads.load(job.plan.workload).checkpoint
    except BadInput:  # a workload of the user's own that this host does not know
        return None


def metrics_whole(job: Job, _: Sequence[Job]) -> str:
    """Every step that was to be trained is in the metrics file, and every value is finite."""
    if not job.trains and not job.folder.metrics.exists():
        raise Skip(f"workload '{job.plan.workload}' logs no metrics")
    metrics, file = job.metrics, job.folder.metrics
    for line in metrics.damaged[:1]:
        job.cite_line(file, line)
        need(False, f"metrics.jsonl: line {line} is not a step")
    for line in metrics.repeated[:1]:
        job.cite_line(file, line)
        need(False, f"metrics.jsonl: line {line} repeats values of a step that an earlier line has")
    expected = _steps_total(job)
    total, first = expected or metrics.last, job.plan.first_step
    need(total <= MOST_STEPS, f"metrics.jsonl: {total} steps, which no training reaches")
    for step in dict.fromkeys((min(metrics.trained), metrics.last)) if metrics.trained else ():
        job.cite_line(file, metrics.lines[step])
    need(
        bool(metrics.trained) and metrics.trained == list(range(first, total + 1)),
        f"metrics.jsonl: steps {ranges(metrics.trained)}, expected {first}-{total}",
    )
    if metrics.not_finite:  # verl's file logger writes NaN and infinity as null
        step, bad = metrics.not_finite
        job.cited = []
        job.cite_line(file, metrics.lines[step])
        name, value = next(iter(bad.items()))
        need(False, f"metrics.jsonl: step {step}: {name} is {value} ({len(bad)} values not finite)")
    need(
        not job.result.last_metrics or job.result.last_metrics == metrics.steps[metrics.last],
        f"result.json: last_metrics are not those of step {metrics.last} in metrics.jsonl",
    )
    known = "as expected" if expected else "how many to expect was not known"
    return f"metrics.jsonl: steps {first}-{total}, {known}; {metrics.steps.count} values, all finite"


def _steps_total(job: Job) -> int | None:
    """Return how many steps the job was to train: by the plan's own arithmetic, the precheck and the runner, who must agree."""
    totals = {"result.json: steps_total": job.result.steps_total}
    if job.trains:
        totals["precheck.json: steps_total"] = job.precheck["steps_total"]
    with contextlib.suppress(OSError, ValueError):  # the training data is gone
        totals["resolved.yaml: its schedule gives"] = job.plan.steps_total()
    known = {source: steps for source, steps in totals.items() if steps is not None}
    need(len(set(known.values())) < 2, "; ".join(f"{source} {steps}" for source, steps in known.items()))
    return next(iter(known.values()), None)


def snapshots(job: Job, _: Sequence[Job]) -> str:
    """There are debug bundles of the job's submission, start and end, each with two kinds of Ray snapshots or more."""
    events: dict[str, int] = {}
    for bundle in job.bundles:
        kinds = [name for name in SNAPSHOT_KINDS if (bundle / name).is_file() and (bundle / name).stat().st_size]
        events[bundle.name.partition("-")[2]] = len(kinds)
        job.cite_whole(bundle, ", ".join(kinds) or "no Ray snapshots")
        need(
            len(kinds) >= 2,
            f"debug/{bundle.name}: {len(kinds)} kinds of Ray snapshots ({', '.join(kinds) or 'none'}), expected 2",
        )
    shown = ", ".join(f"{event} {count} kinds" for event, count in events.items())
    for moment, names in MOMENTS.items():
        need(bool(names & events.keys()), f"debug/: no bundle of the job's {moment} ({shown or 'none at all'})")
    return f"debug/: {shown}"


def ranges(steps: Iterable[int]) -> str:
    """Return ``1-9, 11`` for people."""
    spans: list[list[int]] = []
    for step in sorted(steps):
        if spans and step == spans[-1][1] + 1:
            spans[-1][1] = step
        else:
            spans.append([step, step])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in spans) or "none"
