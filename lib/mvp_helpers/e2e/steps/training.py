"""A step for each run: start the script, keep its log and metrics, and judge it by its criteria."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from ...base import files
from ...base.errors import BadInput
from ...base.verdict import Check
from ...diagnosis import views
from ...learning import learning_signal
from ...learning.learning_signal import Signal
from ...trainers.trainer import ABSENT, at_key
from .. import environment, execute
from ..context import Checked, Context
from ..requests import checkouts
from ..requests.levels import Planned
from ..step import Step, step_of, text_of
from . import criteria, learning_criteria
from .criteria import Facts, LogEvidence, MetricsFile
from .learning_criteria import Baseline
from .progress import Progress

RATE_LIMIT = "hub-rate-limit"
"""The cause in a log for which there is a way around the model hub."""


def run(context: Context, place: Path, one: Planned) -> Step:
    """Start the run's script once; Fail is the verdict on the code under test, Blocked on everything else."""
    if problems := (checked := context.checked(one)).problems:
        step = step_of("Blocked", checked.reason, problems)
        step.alone, step.by_request = True, checked.by_request
        return step
    checkpoints = context.folder.checkpoints / one.group
    if one.run.resumes:
        if problem := context.trainer.checkpoint_problem(checkpoints, one.steps[0] - 1, context.checked(one).config):
            return step_of("Fail", f"checkpoint: {one.run.resumes} left nothing to resume: {problem}")
    elif checkpoints.exists():
        # An earlier try's: kept, but where a resume does not find it.
        checkpoints.rename(checkpoints.with_name(f"{one.group}.before-{place.name}"))
    step, began = _start(context, place, one)
    if step.outcome is None or not step.outcome.log_bytes:
        return step
    facts = _facts(context, one, step, began, place)
    criteria_met = criteria.judge(facts)
    signal = None
    if one.level.learning:
        learned, signal = learning_criteria.judge(facts, _baseline(context, one), _cap(context, facts))
        criteria_met += learned
    _judge(context, one, step, facts, criteria_met)
    step.evidence += [text_of(text) for text in context.trainer.reports(facts.metrics, facts.config)]
    step.limitations += [f"{what} ({line.text})" for what, line in facts.seen.notes.items()]
    if signal:
        _tell(one, step, signal)
    if one.baseline and not step.passed:
        step.verdict, step.reason = "Blocked", f"the unchanged code does not pass either: {step.reason}"
    elif step.passed and signal:
        step.reason = signal.reason()
    elif step.passed:
        step.reason = f"{one.level.title}: {step.reason}"
    if step.passed and one.run.rerun:
        step.reason = f"{one.run.rerun.meaning}: {step.reason}"
    return step


def unneeded(steps: Sequence[Step], one: Planned) -> str:
    """Return why a run that depends on another one is not done, from the steps so far; "" when it is."""
    rerun, by_name = one.run.rerun, {step.name: step for step in steps}
    # A run that this revision cannot do lets the others go on, but not those that count only after it.
    before = tuple(f"level-{number}-" for number in one.level.after)
    if lost := next((step for step in steps if before and step.name.startswith(before) and step.verdict == "Blocked"), None):
        return f"it counts only after {lost.name}, which is {lost.verdict}"
    if one.run.resumes:
        earlier = by_name.get(one.beside(one.run.resumes))
        return f"{earlier.name} is {earlier.verdict}" if earlier and not earlier.passed else ""
    if not rerun:
        return ""
    first = by_name.get(one.beside(rerun.of))
    if not first or first.verdict != "Fail" or not first.log:
        return f"{one.beside(rerun.of)} did not fail"
    with Path(first.log).open(errors="replace") as lines:
        return "" if any(re.search(rerun.why, line) for line in lines) else f"{first.name} failed for another reason"


def _start(context: Context, place: Path, one: Planned) -> tuple[Step, float]:
    """Return the step with its command's outcome, and when that began (seconds since 1970)."""
    log, env, argv, cwd = place / "wrapper.log", context.environment(one), context.command(one), context.cwd(one)
    shown = context.shown_environment(one)
    files.write_text(place / "command.sh", execute.script(context.folder.path, cwd, shown, argv, one.run.resumes))
    request = context.request
    _set_stale_aside(context, place, one)
    progress = Progress(context.trainer, one.name, one.steps[1], context.say)
    began = time.time()
    outcome = execute.run(argv, cwd, env, log, context.mark, request.timeout_s, request.stall_s, progress.feed)
    step = step_of("Pass", "", log=log)
    step.command, step.env, step.cwd, step.outcome = argv, shown, str(cwd), outcome
    if not outcome.log_bytes:
        step.verdict, step.reason = "Blocked", f"the script printed nothing: {outcome.summary()}"
    return step, began


def _facts(context: Context, one: Planned, step: Step, began: float, place: Path) -> Facts:
    assert step.outcome
    expect, checked, log = context.expect(one), context.checked(one), Path(step.log)
    step.triage = views.triage_log(log)
    return Facts(
        one=one,
        trainer=context.trainer,
        expect=expect,
        outcome=step.outcome,
        seen=LogEvidence(context.trainer, expect, log, context.description.tested_modules()).read(),
        files=_metrics_files(context, checked, began, place),
        triage=step.triage,
        config=checked.config,
        config_problems=checked.problems,
        names=context.metric_names,
        printed=context.trainer.printed_configs(log),
        expected=one.expects(context.description),
        checkpoint=_checkpoint(context, one, checked),
        moved=checkouts.moved(context.states),
    )


def _checkpoint(context: Context, one: Planned, checked: Checked) -> str:
    folder = context.folder.checkpoints / one.group
    return context.trainer.checkpoint_problem(folder, one.steps[1], checked.configs[-1] if checked.configs else {})


def _metrics_files(context: Context, checked: Checked, began: float, place: Path) -> list[MetricsFile]:
    """Return the metrics that each training left in a file, copied into the try; empty when they are in the log."""
    metrics = []
    for at, (launch, config) in enumerate(zip(checked.launches, checked.configs, strict=False), 1):
        _keep(context.trainer.artifacts(launch, config), place / f"artifacts-{at}", began)
        if (file := context.trainer.metrics_file(launch, config)) is None:
            continue
        copy, own = place / f"metrics-{at}{file.suffix}", context.trainer.assertions(launch)
        try:
            if not file.is_file() or file.stat().st_mtime < began - 1:
                raise BadInput(f"this run did not write {file}")
            shutil.copyfile(file, copy)
            metrics.append(MetricsFile(copy, context.trainer.read_metrics(copy), assertions=own))
        except BadInput as error:
            metrics.append(MetricsFile(file, {}, error.what, own))
    return metrics


def _set_stale_aside(context: Context, place: Path, one: Planned) -> None:
    """Move metrics of an earlier start out of the way: a script may take them for its own, and train nothing."""
    checked = context.checked(one)
    for at, (launch, config) in enumerate(zip(checked.launches, checked.configs, strict=False), 1):
        if (file := context.trainer.metrics_file(launch, config)) and file.is_file():
            shutil.move(file, place / f"stale-metrics-{at}{file.suffix}")


def _keep(paths: Sequence[Path], folder: Path, began: float) -> None:
    """Copy what this start wrote of ``paths`` into ``folder``: another start of the script would delete it."""
    for path in paths:
        if path.is_file() and path.stat().st_mtime >= began - 1:
            folder.mkdir(exist_ok=True)
            shutil.copyfile(path, folder / path.name)


def _judge(context: Context, one: Planned, step: Step, facts: Facts, checks: list[Check]) -> None:
    """Fill in the step's criteria, and the verdict that follows from them."""
    step.criteria = checks
    step.verdict, step.reason = criteria.verdict(checks, facts.outcome, facts.triage)
    step.fixes = [check.hint for check in checks if check.hint]
    if step.triage and step.triage.rule == RATE_LIMIT:
        step.fixes.append(environment.offline_route(context.base, context.model(one)))
    step.evidence = [text_of(f"{check.name}: {check.reason}") for check in checks]
    if facts.outcome.left_behind:
        step.evidence.append(text_of(f"residual: {facts.outcome.left_behind} processes outlived the script and were ended"))
    if facts.triage.rule and facts.triage.verdict in ("Pass", "Noise"):
        noise = facts.triage.evidence if facts.triage.verdict == "Noise" else facts.triage.advice
        step.limitations.append(f"known shutdown noise: {noise}")


def _tell(one: Planned, step: Step, signal: Signal) -> None:
    step.learning = [*signal.sentences, *signal.wrong, *signal.notes]
    step.limitations += signal.notes
    step.limitations.append(f"{one.steps[1]} steps: a learning signal at most, no benchmark convergence")


def _cap(context: Context, facts: Facts) -> float | None:
    key = context.metric_names.length_cap
    cap = at_key(facts.config, key) if key else ABSENT
    return float(cap) if isinstance(cap, (int, float)) else None


def _baseline(context: Context, one: Planned) -> Baseline | None:
    """Return the metrics of the file that was given, or of the baseline run of ``one``; None without a baseline."""
    if not context.request.baseline or one.baseline:
        return None
    other = next((other for other in context.planned if other.baseline and other.key == one.key), None)
    if other is None:
        return Baseline(context.trainer.training(learning_signal.read(Path(context.request.baseline))))
    log, config = Path(context.logs[other.name]), context.checked(other).config
    copies = sorted(log.parent.glob("metrics-*"))
    metrics = context.trainer.training(context.trainer.read_metrics(copies[-1])) if copies else learning_signal.read(log)
    return Baseline(metrics, config)
