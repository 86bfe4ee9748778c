"""The pass criteria of one run, each from evidence: its log, its metrics, its config, and how its command ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...base.verdict import Check, Evidence, Verdict
from ...diagnosis.views import Triage
from ...gates import assertions
from ...learning.learning_signal import not_finite
from ...learning.metric_lines import LogMetrics
from ...trainers.metric_names import MetricNames
from ...trainers.trainer import Metrics, Trainer, at_key
from ..execute import Outcome
from ..requests.description import config_problems
from ..requests.levels import Planned
from ..requests.parts import Expect

NO_EXCEPTION = "no exception in construction or training"
RAISED = "the code under test raised"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FRAME = re.compile(r'File "([^"]+)", line \d+')
EVERY_STEP = "every step was trained"
METRIC = "metric: "
"""Begins the name of an assertion about metrics."""
LONGEST_LINE = 20_000
NOT_A_NUMBER = re.compile(
    r"(?<![\w@./-])([A-Za-z_][\w@./-]*):['\"]?(?:[\w.]+\()?['\"]?[-+]?(?:nan|inf|infinity|none|null)(?![\w.])", re.I
)
"""A metric's value that is not a finite number, in any spelling."""


@dataclass
class LogEvidence:
    """The lines of a run's log that prove something. Read line by line, in memory that does not grow with the log."""

    trainer: Trainer
    expect: Expect
    log: Path
    tested: list[str] = field(default_factory=list)
    """What the path of a file of the code under test contains."""
    outlived: Evidence | None = None
    """The code under test's frame in a traceback before the end."""
    metrics: LogMetrics = field(default_factory=LogMetrics)
    xtrace: dict[str, Evidence] = field(default_factory=dict)
    lines: dict[str, Evidence] = field(default_factory=dict)
    steps: dict[int, Evidence] = field(default_factory=dict)
    again: list[Evidence] = field(default_factory=list)
    """Lines of a step that an earlier line has already shown as done."""
    ends: list[tuple[int | None, Evidence]] = field(default_factory=list)
    """Lines that show the end of a training, with the last step where they name it."""
    not_numbers: list[Evidence] = field(default_factory=list)
    """Values of metrics that are not numbers, in any spelling: ``loss:tensor(nan)``, ``loss:None``."""
    resumed: Evidence | None = None
    resumed_at: int | None = None
    resumed_from: list[str] = field(default_factory=list)
    """What the log says about it, with the paths of checkpoints."""
    scratch: Evidence | None = None
    optimizers: list[tuple[str, int, Evidence]] = field(default_factory=list)
    """Model and step whose optimizer's state was read."""
    adapters: dict[str, list[tuple[float, Evidence]]] = field(default_factory=dict)
    """Trainable parameters by the words of the line: each of these lines is once in a block about one model."""
    percentages: list[tuple[float, Evidence]] = field(default_factory=list)
    refused: list[tuple[str, Evidence]] = field(default_factory=list)
    foreign: list[Evidence] = field(default_factory=list)
    notes: dict[str, Evidence] = field(default_factory=dict)
    """The limitations that lines of the log mean."""

    _in_traceback: bool = False

    @property
    def trainable(self) -> list[tuple[float, Evidence]]:
        """Every count of trainable parameters; the percentages where the log has no other."""
        return [count for counts in self.adapters.values() for count in counts] or self.percentages

    def read(self) -> LogEvidence:
        with self.log.open("rb") as stream:
            for number, raw in enumerate(stream, 1):
                # A progress bar is drawn again and again over the same line.
                for part in raw.rstrip(b"\r\n").split(b"\r"):
                    self._line(COLOUR.sub("", part[:LONGEST_LINE].decode(errors="replace")), number)
                if self.trainer.lines.metrics:
                    self.metrics.feed(raw)
        self.metrics.finish()
        return self

    def _line(self, text: str, number: int) -> None:
        evidence = Evidence(str(self.log), number, text.strip()[:200])
        for name, value in self.expect.xtrace.items():
            if text == f"+ {name}={value}":
                self.xtrace.setdefault(name, evidence)
        for pattern in self.expect.lines:
            if re.search(pattern, text):
                self.lines.setdefault(pattern, evidence)
        self.refused += [(why, evidence) for pattern, why in self.expect.refuse.items() if re.search(pattern, text)]
        for pattern, what in self.expect.notes.items():
            if re.search(pattern, text):
                self.notes.setdefault(what, evidence)
        self.foreign += [evidence for pattern in self.expect.foreign if re.search(pattern, text)]
        if (step := self.trainer.step_done(text)) is not None:
            self._step(step, text, Evidence(str(self.log), number, _short(text)))
        for kind in self.trainer.lines.finished:
            if any(word in text for word in kind.words) and (match := re.search(kind.pattern, text)):
                last = match.groupdict().get("last")
                self.ends.append((int(last) if last else None, Evidence(str(self.log), number, match[0].strip()[:200])))
        self._checkpoint(text, evidence)
        self._traceback(text, evidence)
        if self.trainer.lines.trainable and (match := re.search(self.trainer.lines.trainable, text)):
            count = float((match[1] or match[2]).replace(",", "").replace("_", ""))
            words = match[0].partition(":")[0].lower()
            (self.adapters.setdefault(words, []) if match[1] else self.percentages).append((count, evidence))

    def _traceback(self, text: str, evidence: Evidence) -> None:
        if "(most recent call last)" in text:
            self._in_traceback = "Traceback" in text
        elif (
            self._in_traceback
            and not self.ends
            and (frame := FRAME.search(text))
            and any(part in frame[1] for part in self.tested)
        ):
            self.outlived = self.outlived or evidence

    def _step(self, step: int, text: str, evidence: Evidence) -> None:
        if step in self.steps:
            self.again.append(evidence)
        self.steps.setdefault(step, evidence)
        self.not_numbers += [Evidence(evidence.file, evidence.line, match[0]) for match in NOT_A_NUMBER.finditer(text)]

    def _checkpoint(self, text: str, evidence: Evidence) -> None:
        lines = self.trainer.lines
        if lines.resumed and (match := re.search(lines.resumed, text)):
            self.resumed, self.resumed_at = evidence, int(next(group for group in match.groups() if group))
            self.resumed_from.append(match[0])
        if lines.from_scratch and re.search(lines.from_scratch, text):
            self.scratch = evidence
        if lines.optimizer_read and (match := re.search(lines.optimizer_read, text)):
            line = Evidence(evidence.file, evidence.line, match[0])
            self.optimizers.append((match["model"], int(match["step"]), line))


def _short(line: str) -> str:
    """Return of a line of metrics the step, and the trainer's own count in it; any other line as it is."""
    words = [word for word in line.split() if re.match(r"(?:\w+/)?(?:\w+_)?step:\d", word)]
    return " … ".join(words) or line.strip()[:200]


@dataclass(frozen=True)
class MetricsFile:
    """The metrics that one training left in a file. ``problem`` says why they are not evidence."""

    file: Path
    steps: Metrics
    problem: str = ""
    assertions: list[str] = field(default_factory=list)
    """What the script itself asserts of them."""


@dataclass(frozen=True)
class Facts:
    """The facts about one run when it has ended."""

    one: Planned
    trainer: Trainer
    expect: Expect
    outcome: Outcome
    seen: LogEvidence
    files: list[MetricsFile]
    """One for each training whose metrics are not in the log."""
    triage: Triage
    config: Mapping[str, object]
    config_problems: list[str]
    names: MetricNames
    printed: list[dict[str, Any]] | None = None
    """The config that each training printed; None of a trainer that prints none."""
    expected: list[Expect] = field(default_factory=list)
    """What is expected of each training's config."""
    checkpoint: str = ""
    """Why the last step has no whole checkpoint, when the run must leave one."""
    moved: str = ""
    """Which checkout changed while the run was going on."""

    @property
    def metrics(self) -> Metrics:
        """Those of the last training."""
        return self.trainer.training(self.files[-1].steps) if self.files else self.seen.metrics.steps


def judge(facts: Facts) -> list[Check]:
    """Return every criterion of this run."""
    checks = [_xtrace(facts, name, value) for name, value in facts.expect.xtrace.items()]
    checks.append(_check("the wrapper's own exit status is 0", facts.outcome.good, facts.outcome.summary()))
    checks += [_steps(facts), _not_again(facts), _finite(facts), _no_exception(facts), *_losses(facts)]
    if keys := [*facts.expect.config, *facts.expect.above_zero, *facts.expect.set]:
        values = [f"{key}={at_key(facts.config, key)}" for key in keys]
        problem = next(iter(facts.config_problems), "")
        checks.append(_check("the resolved config confirms it", not problem, problem or ", ".join(values)))
    checks += [*_printed(facts), *_assertions(facts)]
    for pattern, what in facts.expect.lines.items():
        line = facts.seen.lines.get(pattern)
        checks.append(_check(what, line is not None, line.text if line else f"no line of the log matches {pattern}", line))
    return [*checks, *_worthless(facts), *_resume(facts), *_adapters(facts), *_left(facts)]


def _check(name: str, met: bool, reason: str, *evidence: Evidence | None, otherwise: Verdict = "Fail", hint: str = "") -> Check:
    return Check(name, "Pass" if met else otherwise, reason, [line for line in evidence if line], hint="" if met else hint)


def _xtrace(facts: Facts, name: str, value: str) -> Check:
    shown, line = f"+ {name}={value}", facts.seen.xtrace.get(name)
    return _check(f"{name}={value}", line is not None, shown if line else f"the log has no line '{shown}'", line)


def _steps(facts: Facts) -> Check:
    """All steps were trained, by each of the run's trainings, and each of them reached its end."""
    (first, last), seen, count = facts.one.steps, facts.seen, len(facts.one.trainings)
    problems = [file.problem for file in facts.files if file.problem]
    in_files = [(file.file.name, set(facts.trainer.training(file.steps))) for file in facts.files]
    sources = in_files or [("the log", set(seen.steps))]
    for (source, steps), (begin, end) in zip(sources, facts.one.trainings if in_files else [(first, last)], strict=False):
        if missing := [step for step in range(begin, end + 1) if step not in steps]:
            problems.append(f"no metrics of step {missing[0]} in {source}")
    shown = [step for step in range(first, last + 1) if not in_files and step in seen.steps]
    if facts.trainer.lines.metrics and (empty := [step for step in shown if not seen.metrics.steps.get(step)]):
        problems.append(f"the line of step {empty[0]} has no metrics")
    ends = [end for step, end in seen.ends if step in (None, last)]
    if facts.trainer.lines.finished and len({end.line for end in ends}) < count:
        ended = f" ({len(ends)} of {count} trainings did)" if count > 1 else ""
        problems.append(f"no line of the log shows that the last step was reached{ended}")
    line, ending = seen.steps.get(last), ends[-1] if ends else None
    reason = ", ".join(evidence.text for evidence in (line, ending) if evidence)
    return _check(EVERY_STEP, not problems, "; ".join(problems) or reason, line, ending)


def _not_again(facts: Facts) -> Check:
    """No step was trained twice, and none before the first that was asked for."""
    first, seen = facts.one.steps[0], facts.seen
    # Step 0 is the validation before the training.
    early = [evidence for step, evidence in seen.steps.items() if 0 < step < first]
    bad = next(iter([*early, *(seen.again if len(facts.one.trainings) == 1 else [])]), None)
    return _check("no step was trained again", bad is None, bad.text if bad else f"steps begin with {first}, each once", bad)


def _finite(facts: Facts) -> Check:
    sources = [file.steps for file in facts.files] or [facts.seen.metrics.steps]
    bad = next((text for steps in sources for text in not_finite(steps, facts.names)), "")
    spelled = next((line for line in facts.seen.not_numbers if re.search(facts.names.finite, line.text.partition(":")[0])), None)
    reason = bad or (f"{spelled.text} is not a number" if spelled else f"{sum(map(len, sources))} steps with metrics")
    return _check("no metric is NaN or infinite", not (bad or spelled), reason, spelled)


def _losses(facts: Facts) -> list[Check]:
    """Every model that is trained logged its loss at every step: else nothing shows that it was updated."""
    (first, last), steps = facts.one.steps, facts.seen.metrics.steps
    wanted = facts.trainer.losses(facts.config)
    if not wanted or facts.files:
        return []
    without = [
        f"no loss of the {model} at step {step}"
        for model, pattern in wanted.items()
        for step in range(first, last + 1)
        if not any(re.search(pattern, name) for name in steps.get(step, {}))
    ]
    reason = without[0] if without else f"{' and '.join(wanted)}: {last - first + 1} steps"
    return [_check("every trained model logged its loss", not without, reason)]


def _no_exception(facts: Facts) -> Check:
    cause = facts.triage
    # When the diagnosis does not know a trainer's last line, it can only report that it found no error.
    found_none = cause.verdict == "Unknown" and cause.line is None and cause.phase != "done"
    met = cause.verdict in ("Pass", "Noise") or (found_none and bool(facts.seen.ends))
    if met and facts.seen.outlived:
        reason = f"{RAISED}, and the run went on: {facts.seen.outlived.text}"
        return _check(NO_EXCEPTION, False, reason, facts.seen.outlived)
    if met and cause.verdict != "Noise":
        return _check(NO_EXCEPTION, True, "none")
    line = Evidence(cause.log, cause.line, cause.evidence)
    place = f" ({cause.boundary}, line {cause.line})" if cause.line else ""
    return _check(NO_EXCEPTION, cause.verdict == "Noise", f"{cause.evidence}{place}", line)


def _worthless(facts: Facts) -> list[Check]:
    """Lines that invalidate the run, and lines that show other code than the checkouts."""
    checks, seen = [], facts.seen
    if facts.expect.refuse:
        bad = next(((why, line) for why, line in seen.refused), None)
        reason = f"{bad[0]}: {bad[1].text}" if bad else "none"
        checks.append(_check("no line that invalidates the run", bad is None, reason, bad[1] if bad else None))
    if facts.expect.foreign:
        line = next(iter(seen.foreign), None)
        hint = "PYTHONPATH of the image, of a .pth file, or of the script: it must import from the checkouts"
        reason = f"code from another place ran, so nothing was tested: {line.text}" if line else "none"
        checks.append(_check("no line of code from another place", line is None, reason, line, otherwise="Blocked", hint=hint))
    return checks


def _printed(facts: Facts) -> list[Check]:
    """What each training printed as its own config is what was expected of it: a default may have won over the script."""
    if facts.printed is None or not any(expect.config for expect in facts.expected):
        return []
    problems = []
    if len(facts.printed) != len(facts.expected):
        problems.append(f"{len(facts.printed)} of {len(facts.expected)} trainings printed their config")
    for config, expect in zip(facts.printed, facts.expected, strict=False):
        problems += config_problems(config, expect) if config else ["a config in the log cannot be read"]
    values = [f"{key}={at_key(facts.printed[-1], key)}" for key in facts.expected[-1].config] if facts.printed else []
    reason = problems[0].replace("the resolved config", "the config that the training printed") if problems else ", ".join(values)
    return [_check("the config that the training printed confirms it", not problems, reason)]


def _assertions(facts: Facts) -> list[Check]:
    """The assertions of the procedure about the last training's metrics, and those of the script about each."""
    wanted = [(text, file) for file in facts.files for text in file.assertions]
    wanted += [(text, file) for file in facts.files[-1:] for text in facts.expect.assertions if text not in file.assertions]
    judged = [(f"{METRIC}{text}", *assertions.judge(text, file.steps)) for text, file in wanted]
    return [_check(name, holds, reason) for name, holds, reason in judged]


def _resume(facts: Facts) -> list[Check]:
    one, seen = facts.one, facts.seen
    if not one.run.resumes:
        return []
    before, line = one.steps[0] - 1, seen.scratch or seen.resumed
    paths = [text for text in seen.resumed_from if "/" in text]
    own = all(f"/{one.group}/" in text for text in paths)
    reason = line.text if line else "no line of the log says which checkpoint was loaded"
    if not own and not seen.scratch:
        reason = f"it loaded another run's checkpoint: {reason}"
    checks = [_check(f"resumed from step {before}", seen.resumed_at == before and not seen.scratch and own, reason, line)]
    if facts.trainer.lines.optimizer_read:
        read = {model: line for model, step, line in seen.optimizers if step == before and f"/{one.group}/" in line.text}
        lines = {model: read.get(model) for model in facts.trainer.trained_models(facts.config)}
        lost = next((model for model, each in lines.items() if not each), "")
        shown = ", ".join(each.text for each in lines.values() if each)
        reason = f"no line of the log shows it for the {lost} of step {before} of this run" if lost else shown
        checks.append(_check("the optimizer's state was read", not lost, reason, *lines.values()))
    return checks


def _adapters(facts: Facts) -> list[Check]:
    models = facts.trainer.adapter_models(facts.config)
    if not models:
        return []
    least = min(facts.seen.trainable, key=lambda count: count[0], default=None)
    counted = max(map(len, facts.seen.adapters.values()), default=len(facts.seen.percentages))
    if least is None:
        reason = "no line of the log counts the parameters of adapters"
    elif counted < len(models):
        reason = f"the log counts adapters {counted} times, expected one for each of {' and '.join(models)}"
    else:
        reason = f"at least {least[0]:g} in each of {counted} models"
    met = least is not None and least[0] > 0 and counted >= len(models)
    hint = "the names of LORA_TARGET_MODULES in this model; the provider's PEFT helpers that verl expects"
    return [_check("PEFT has trainable parameters", met, reason, least[1] if least else None, hint=hint)]


def _left(facts: Facts) -> list[Check]:
    """What the run left behind: a whole checkpoint where it must save one, and the checkouts as they were."""
    checks = []
    if facts.one.run.saves:
        hint = "the same run with SAVE_FREQ=-1 (level 0) separates model construction from saving"
        problem = facts.checkpoint
        checks.append(_check(f"the checkpoint of step {facts.one.steps[1]} is whole", not problem, problem or "whole", hint=hint))
    reason = f"a checkout changed while it was being tested: {facts.moved}" if facts.moved else "no tracked file changed"
    hint = "a checkout (git worktree add) in which nobody works, and a new run"
    checks.append(_check("the checkouts did not change", not facts.moved, reason, otherwise="Blocked", hint=hint))
    return checks


def verdict(criteria: list[Check], outcome: Outcome, triaged: Triage) -> tuple[Verdict, str]:
    """Return the run's verdict and the reason: all criteria met, or the first cause of its failure.

    The cause that the log shows decides about a run that did not reach its end; one that did is judged by what it lacks.
    """
    unmet = [check for check in criteria if not check.met]
    if not unmet:
        return "Pass", f"all {len(criteria)} criteria met"
    if blocking := next((check for check in unmet if check.verdict == "Blocked"), None):
        return "Blocked", blocking.reason
    names = {check.name for check in unmet}
    reached = outcome.good and EVERY_STEP not in names
    if triaged.verdict in ("Blocked", "Fail") and (not reached or names == {NO_EXCEPTION}):
        return triaged.verdict, f"{triaged.boundary}: {triaged.evidence}"
    reason = "; ".join(f"not met: {check.name} ({check.reason})" for check in unmet[:3])
    # Nothing explains the early end: before the first step nothing is known about the code under test.
    early = triaged.phase in ("start", "") and outcome.ended in ("timeout", "stall", "not started")
    # An error that the run outlived, of which nothing says that it is the code under test's.
    outlived = names == {NO_EXCEPTION} and triaged.verdict == "Unknown" and RAISED not in reason
    return ("Blocked" if early or outlived else "Fail"), reason
