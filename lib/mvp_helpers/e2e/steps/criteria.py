"""The pass criteria of one run, each from evidence: its log, its metrics, its config, and how its command ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...base.verdict import Check, Evidence, Verdict
from ...diagnosis.learning import not_finite
from ...diagnosis.metric_lines import LogMetrics
from ...diagnosis.views import Triage
from ...trainers.metric_names import MetricNames
from ...trainers.trainer import Metrics, Trainer
from ..execute import Outcome
from ..requests.description import Expect
from ..requests.levels import Planned

NO_EXCEPTION = "no exception in construction or training"
LONGEST_LINE = 20_000


@dataclass
class LogEvidence:
    """The lines of a run's log that prove something. Read line by line, in memory that does not grow with the log."""

    trainer: Trainer
    expect: Expect
    log: Path
    metrics: LogMetrics = field(default_factory=LogMetrics)
    xtrace: dict[str, Evidence] = field(default_factory=dict)
    lines: dict[str, Evidence] = field(default_factory=dict)
    steps: dict[int, Evidence] = field(default_factory=dict)
    ends: list[Evidence] = field(default_factory=list)
    resumed: Evidence | None = None
    resumed_at: int | None = None
    scratch: Evidence | None = None
    refused: list[tuple[str, Evidence]] = field(default_factory=list)

    def read(self) -> LogEvidence:
        with self.log.open("rb") as stream:
            for number, raw in enumerate(stream, 1):
                # A progress bar is drawn again and again over the same line.
                for part in raw.rstrip(b"\r\n").split(b"\r"):
                    self._line(part[:LONGEST_LINE].decode(errors="replace"), number)
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
        if (step := self.trainer.step_done(text)) is not None:
            self.steps.setdefault(step, Evidence(str(self.log), number, _short(text)))
        for kind in self.trainer.lines.finished:
            if any(word in text for word in kind.words) and (match := re.search(kind.pattern, text)):
                self.ends.append(Evidence(str(self.log), number, match[0].strip()[:200]))
        if self.trainer.lines.resumed and (match := re.search(self.trainer.lines.resumed, text)):
            self.resumed, self.resumed_at = evidence, int(next(group for group in match.groups() if group))
        if self.trainer.lines.from_scratch and re.search(self.trainer.lines.from_scratch, text):
            self.scratch = evidence


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


@dataclass(frozen=True)
class Facts:
    """What is known of one run when it has ended."""

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


def judge(facts: Facts) -> list[Check]:
    """Return every criterion of this run."""
    checks = [_xtrace(facts, name, value) for name, value in facts.expect.xtrace.items()]
    checks.append(_check("the wrapper's own exit status is 0", facts.outcome.good, facts.outcome.summary()))
    checks += [_steps(facts), _finite(facts), _no_exception(facts)]
    if facts.expect.config:
        values = ", ".join(f"{key}={value}" for key, value in facts.expect.config.items())
        problem = next(iter(facts.config_problems), "")
        checks.append(_check("the resolved config confirms it", not problem, problem or values))
    for pattern, what in facts.expect.lines.items():
        line = facts.seen.lines.get(pattern)
        checks.append(_check(what, line is not None, line.text if line else f"no line of the log matches {pattern}", line))
    checks += [
        _check("no line that makes the run worthless", False, f"{why}: {line.text}", line) for why, line in facts.seen.refused[:1]
    ]
    return [*checks, *_resume(facts), *_adapters(facts)]


def _check(name: str, met: bool, reason: str, *evidence: Evidence | None) -> Check:
    return Check(name, "Pass" if met else "Fail", reason, [line for line in evidence if line])


def _xtrace(facts: Facts, name: str, value: str) -> Check:
    shown, line = f"+ {name}={value}", facts.seen.xtrace.get(name)
    return _check(f"{name}={value}", line is not None, shown if line else f"the log has no line '{shown}'", line)


def _steps(facts: Facts) -> Check:
    """All steps were trained, by each of the run's trainings, and each of them reached its end."""
    (first, last), seen, count = facts.one.steps, facts.seen, len(facts.one.trainings)
    problems = [file.problem for file in facts.files if file.problem]
    in_files = [(file.file.name, set(file.steps)) for file in facts.files]
    sources = in_files or [("the log", set(seen.steps))]
    for (source, steps), (begin, end) in zip(sources, facts.one.trainings if in_files else [(first, last)], strict=False):
        if missing := [step for step in range(begin, end + 1) if step not in steps]:
            problems.append(f"no metrics of step {missing[0]} in {source}")
    if facts.trainer.lines.finished and len({line.line for line in seen.ends}) < count:
        ended = f" ({len(seen.ends)} of {count} trainings did)" if count > 1 else ""
        problems.append(f"no line of the log shows that the last step was reached{ended}")
    line, ending = seen.steps.get(last), seen.ends[-1] if seen.ends else None
    reason = ", ".join(evidence.text for evidence in (line, ending) if evidence)
    name = f"steps {first} to {last} were trained" if last > first else f"step {first} was trained"
    return _check(name, not problems, "; ".join(problems) or reason, line, ending)


def _finite(facts: Facts) -> Check:
    sources = [file.steps for file in facts.files] or [facts.seen.metrics.steps]
    bad = next((text for steps in sources for text in not_finite(steps, facts.names)), "")
    return _check("no metric is NaN or infinite", not bad, bad or f"{sum(map(len, sources))} steps with metrics")


def _no_exception(facts: Facts) -> Check:
    cause = facts.triage
    # Of a trainer whose last line the diagnosis does not know, it can only say that it found no error.
    found_none = cause.verdict == "Unknown" and cause.line is None and cause.phase != "done"
    if cause.verdict == "Pass" or (found_none and facts.seen.ends):
        return _check(NO_EXCEPTION, True, "none")
    line = Evidence(cause.log, cause.line, cause.evidence)
    place = f" ({cause.boundary}, line {cause.line})" if cause.line else ""
    return _check(NO_EXCEPTION, cause.verdict == "Noise", f"{cause.evidence}{place}", line)


def _resume(facts: Facts) -> list[Check]:
    one, seen, checks = facts.one, facts.seen, []
    first = one.steps[0]
    if one.run.resumes:
        line = seen.scratch or seen.resumed
        reason = line.text if line else "no line of the log says which checkpoint was loaded"
        checks.append(_check(f"resumed from step {first - 1}", seen.resumed_at == first - 1 and not seen.scratch, reason, line))
    if first > 1 and (again := seen.steps.get(1)):
        checks.append(_check("no step was trained again", False, again.text, again))
    return checks


def _adapters(facts: Facts) -> list[Check]:
    count = facts.seen.metrics.trainable
    if count is None or not facts.trainer.trains_adapters(facts.config):
        return []
    return [_check("PEFT has trainable parameters", count > 0, f"{count:g} in the log")]


def verdict(criteria: list[Check], outcome: Outcome, triaged: Triage) -> tuple[Verdict, str]:
    """Return the run's verdict and the reason: all criteria met, or the first cause of its failure."""
    unmet = [check for check in criteria if not check.met]
    if not unmet:
        return "Pass", f"all {len(criteria)} criteria met"
    if triaged.verdict in ("Blocked", "Fail"):
        return triaged.verdict, f"{triaged.boundary}: {triaged.evidence}"
    reason = "; ".join(f"not met: {check.name} ({check.reason})" for check in unmet[:3])
    # Nothing explains the early end: before the first step nothing is known about the code under test.
    early = triaged.phase in ("start", "") and outcome.ended in ("timeout", "stall", "not started")
    return ("Blocked" if early else "Fail"), reason
