"""A step for each run: start the script, keep its log and metrics, and judge it by its criteria."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from ...base import files, redact
from ...base.errors import BadInput
from ...diagnosis import learning, views
from ...diagnosis.metric_lines import Steps
from ...trainers.trainer import ABSENT, at_key
from .. import execute
from ..context import Checked, Context
from ..requests import checkouts
from ..requests.levels import Planned
from ..step import Step, step_of, text_of
from . import criteria
from .criteria import Facts, LogEvidence, MetricsFile
from .progress import Progress


def run(context: Context, place: Path, one: Planned) -> Step:
    """Start the run's script once; Fail is the verdict on the code under test, Blocked on everything else."""
    checkpoints = context.folder.checkpoints / one.group
    if one.run.resumes:
        if problem := context.trainer.checkpoint_problem(checkpoints, one.steps[0] - 1):
            return step_of("Fail", f"checkpoint: {one.run.resumes} left nothing to resume: {problem}")
    elif checkpoints.exists():
        # An earlier try's: kept, but where a resume does not find it.
        checkpoints.rename(checkpoints.with_name(f"{one.group}.before-{place.name}"))
    step, began = _start(context, place, one)
    if step.outcome is None or not step.outcome.log_bytes:
        return step
    facts = _facts(context, one, step, began, place)
    _judge(context, one, step, facts)
    if step.passed and one.run.saves and (problem := context.trainer.checkpoint_problem(checkpoints, one.steps[1])):
        step.verdict, step.reason = "Fail", f"checkpoint: {problem}"
    if moved := checkouts.moved(context.states):
        step.verdict, step.reason = "Blocked", f"a checkout changed while it was being tested: {moved}"
        step.fixes = ["a checkout (git worktree add) in which nobody works, and a new run"]
    elif one.baseline:
        if not step.passed:
            step.verdict, step.reason = "Blocked", f"the unchanged code does not pass either: {step.reason}"
    elif one.level.learning:
        _judge_learning(context, one, step, facts)
    elif step.passed:
        step.reason = f"{one.level.title}: {step.reason}"
    return step


def _start(context: Context, place: Path, one: Planned) -> tuple[Step, float]:
    """Return the step with its command's outcome, and when that began (seconds since 1970)."""
    log, env, argv, cwd = place / "wrapper.log", context.environment(one), context.command(one), context.cwd(one)
    changed = {name: value for name, value in env.items() if os.environ.get(name) != value}
    files.write_text(place / "command.sh", execute.script(cwd, redact.environment(changed), argv))
    request = context.request
    progress = Progress(context.trainer, one.name, one.steps[1], context.say)
    began = time.time()
    outcome = execute.run(argv, cwd, env, log, context.mark, request.timeout_s, request.stall_s, progress.feed)
    step = step_of("Pass", "", log=log)
    step.command, step.env, step.cwd, step.outcome = argv, changed, str(cwd), outcome
    if not outcome.log_bytes:
        step.verdict, step.reason = "Blocked", f"the script printed nothing: {outcome.summary()}"
    return step, began


def _facts(context: Context, one: Planned, step: Step, began: float, place: Path) -> Facts:
    assert step.outcome
    expect, checked, log = one.expect(context.description), context.checked(one), Path(step.log)
    step.triage = views.triage_log(log)
    return Facts(
        one=one,
        trainer=context.trainer,
        expect=expect,
        outcome=step.outcome,
        seen=LogEvidence(context.trainer, expect, log).read(),
        files=_metrics_files(context, checked, began, place),
        triage=step.triage,
        config=checked.config,
        config_problems=checked.problems,
        names=context.metric_names,
    )


def _metrics_files(context: Context, checked: Checked, began: float, place: Path) -> list[MetricsFile]:
    """Return the metrics that each training left in a file, copied into the try; empty when they are in the log."""
    found = []
    for at, (launch, config) in enumerate(zip(checked.launches, checked.configs, strict=False), 1):
        if (file := context.trainer.metrics_file(launch, config)) is None:
            continue
        copy = place / f"metrics-{at}{file.suffix}"
        try:
            if not file.is_file() or file.stat().st_mtime < began - 1:
                raise BadInput(f"this run did not write {file}")
            shutil.copyfile(file, copy)
            found.append(MetricsFile(copy, context.trainer.read_metrics(copy)))
        except BadInput as error:
            found.append(MetricsFile(file, {}, error.what))
    return found


def _judge(context: Context, one: Planned, step: Step, facts: Facts) -> None:
    """Fill in the step's criteria, and the verdict that follows from them."""
    step.criteria = criteria.judge(facts)
    step.verdict, step.reason = criteria.verdict(step.criteria, facts.outcome, facts.triage)
    step.evidence = [text_of(f"{check.name}: {check.reason}") for check in step.criteria]
    if facts.outcome.left_behind:
        step.evidence.append(text_of(f"residual: {facts.outcome.left_behind} processes outlived the script and were ended"))
    if facts.triage.verdict == "Noise":
        step.limitations.append(f"known shutdown noise: {facts.triage.evidence}")


def _judge_learning(context: Context, one: Planned, step: Step, facts: Facts) -> None:
    names = context.metric_names
    cap = at_key(facts.config, names.length_cap) if names.length_cap else ABSENT
    metrics = facts.files[-1].steps if facts.files else facts.seen.metrics.steps
    signal = learning.judge(
        metrics,
        names,
        one.steps,
        facts.seen.metrics.trainable,
        peft=context.trainer.trains_adapters(facts.config),
        baseline=_baseline(context, one),
        cap=float(cap) if isinstance(cap, (int, float)) else None,
    )
    step.learning = [*signal.sentences, *signal.wrong, *signal.notes]
    step.limitations += signal.notes
    step.limitations.append(f"{one.steps[1]} steps: a learning signal at most, no benchmark convergence")
    if step.passed and signal.verdict != "Pass":
        step.verdict, step.reason = "Fail", f"no learning signal: {signal.reason()}"
    elif step.passed:
        step.reason = signal.reason()


def _baseline(context: Context, one: Planned) -> Steps | None:
    """Return the metrics of the file that was given, or of the baseline run of ``one``; None without a baseline."""
    if not context.request.baseline:
        return None
    run = next((other.name for other in context.planned if other.baseline and other.key == one.key), "")
    log = context.logs.get(run)
    if log and (copies := sorted(Path(log).parent.glob("metrics-*"))):
        return context.trainer.read_metrics(copies[-1])
    return learning.read(Path(log or context.request.baseline))
