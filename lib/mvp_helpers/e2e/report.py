"""Step 10: the summary of a run from its steps: what it may claim and what it must admit follows from what was really run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..base import redact
from ..diagnosis import learning
from . import matrix, summary
from .checkouts import State
from .description import Description
from .matrix import Planned
from .request import Request
from .step import Step
from .summary import Deliverable, Summary


@dataclass(frozen=True)
class Report:
    """A run so far. ``command`` gives a planned run's argv; ``limits`` and ``extra`` are what the environment step found."""

    description: Description
    request: Request
    planned: list[Planned]
    steps: list[Step]
    states: list[State]
    limits: list[str]
    extra: list[str]
    folder: Path
    command: Callable[[Planned], list[str]]

    @property
    def runs(self) -> list[tuple[Planned, Step]]:
        """The starts of the wrapper and their steps, as far as the run came."""
        by_name = {step.name: step for step in self.steps}
        return [(one, by_name[one.name]) for one in self.planned if one.name in by_name]

    @property
    def with_bridge(self) -> bool:
        return "bridge" in self.description.checkouts

    def summary(self) -> Summary:
        """Pass only when every step passed; else the first that did not is the reason."""
        verdicts = [step.verdict for step in self.steps]
        result = summary.overall(verdicts, verdicts)
        first = next((step for step in self.steps if not step.passed), None)
        levels = ", ".join(f"Level {number} ({self.description.levels[number].title})" for number in self.request.levels)
        if first is None:
            learned = any(one.level.learning and step.passed for one, step in self.runs)
            sentence = f"{levels} passed with the local {self.description.subject} checkout"
            sentence += f"; {learning.PASSED}" if learned else ""
        else:
            sentence = f"{first.name}: {first.reason}"
            if result == "Blocked":
                sentence += f"; this is not evidence against the {self.description.subject} code"
        model = self.description.model
        return Summary(
            result=result,
            sentence=redact.text(sentence),
            coverage=levels + (f"; variants: {', '.join(self.request.variants)}" if self.request.variants else ""),
            model=self.planned[0].env.get(model.path_variable) or self.planned[0].env.get(model.id_variable, ""),
            deliverables=self.deliverables(),
            evidence=self.evidence(),
            limitations=self.limitations(),
            follow_ups=self.follow_ups(first),
            run=str(self.folder),
            steps=[msgspec.to_builtins(step) for step in self.steps],
        )

    def deliverables(self) -> list[Deliverable]:
        """One line each, with the words of the procedure's format."""
        by_name = {step.name: step for step in self.steps}
        tests, proof, first_level = by_name.get("bridge-checks"), by_name.get("imports"), min(self.request.levels)
        base = [(one, step) for one, step in self.runs if one.number == first_level]
        others = [(one, step) for one, step in self.runs if one.number != first_level] or [
            (one, step) for one, step in base if one.number != min(self.description.levels)
        ]
        logs = [Path(step.log) for _, step in self.runs if step.log]
        kept = bool(logs) and all(log.is_file() and log.stat().st_size for log in logs)
        return [
            Deliverable(
                name="Bridge-side checks" if self.description.tests else "Unit checks",
                verdict=tests.verdict if tests else "Not requested",
                reason=tests.reason if tests else "this procedure has none",
            ),
            Deliverable(
                name="Local Bridge import in verl" if self.with_bridge else "Local imports",
                verdict=proof.verdict if proof else "Skipped",
                reason=proof.reason if proof else "not reached",
            ),
            _together("verl Megatron backend run" if self.with_bridge else "Trainer run", base),
            _together("Requested variants", others)
            if others
            else Deliverable(name="Requested variants", verdict="Not requested", reason="no further level"),
            Deliverable(
                name="Log capture",
                verdict="Pass" if kept else "Skipped" if not logs else "Fail",
                reason=", ".join(map(str, logs))
                if logs
                else "the wrapper was not started; see the steps' logs in the run's folder",
            ),
        ]

    def evidence(self) -> list[tuple[str, str]]:
        """Commits, exact commands, the lines that prove or disprove, numbers."""
        found = [(f"{'Bridge' if state.name == 'bridge' else state.name} repo", state.tell()) for state in self.states]
        found += [("Container image, as given", self.request.image)] if self.request.image else []
        shown = [(one, step) for one, step in self.runs if step.command] or self.runs[:1]
        for one, step in shown:
            where = Path(step.log).parent / "command.sh" if step.command else "not run"
            variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in redact.environment(one.env).items())
            name = "Command" if len(shown) == 1 else f"Command ({one.name})"
            found.append((name, redact.text(f"{variables} {shlex.join(self.command(one))}") + f"  [{where}]"))
        lines = [
            criterion.evidence
            for _, step in self.runs
            for criterion in step.criteria
            if criterion.met and criterion.name != "no exception in construction or training"
        ]
        if bad := next((step for step in self.steps if step.verdict in ("Fail", "Blocked")), None):
            at = f" ({bad.triage.log}:{bad.triage.line})" if bad.triage and bad.triage.line else ""
            lines = [f"{bad.reason}{at}"]
        found.append(("Key lines", redact.text(", ".join(dict.fromkeys(lines[:12]))) or "none"))
        resolved = [
            text.removeprefix("resolved: ") for step in self.steps for text in step.evidence if text.startswith("resolved: ")
        ]
        found += [(f"Resolved config ({name})", values) for name, _, values in (text.partition(": ") for text in resolved)]
        found += [(f"Learning signal ({step.name})", "; ".join(step.learning)) for _, step in self.runs if step.learning]
        found += [(f"Resources ({step.name})", step.outcome.tell()) for _, step in self.runs if step.outcome]
        return found

    def limitations(self) -> list[str]:
        """What the runs do not show, each once."""
        ran = [one for one, step in self.runs if step.outcome]
        found = [*self.limits, *matrix.limitations(self.description, ran, self.extra)]
        found += [text for step in self.steps for text in step.limitations]
        if ran and not any(one.level.learning for one in ran):
            found.append("no convergence claim")
        if not ran:
            found.append("nothing was trained: no claim about any level")
        found += [text for step in self.steps for text in step.evidence if text.startswith(("drift:", "residual:"))]
        return list(dict.fromkeys(found))

    def follow_ups(self, first: Step | None) -> list[str]:
        """What to do about the first step that did not pass."""
        if first is None:
            return []
        found = []
        if first.triage and first.triage.verdict != "Pass":
            limit = f" (limitation: {first.triage.limitation})" if first.triage.limitation else ""
            found = [
                text
                for text in (first.triage.advice, f"{first.triage.follow_up}{limit}" if first.triage.follow_up else "")
                if text
            ]
        elif first.verdict == "Blocked":
            found = [f"environment fix: {text}" for text in first.fixes or [first.reason]]
        else:
            found = [f"needed rerun after a fix: {first.reason}"]
        return [*found, f"./scripts/60_e2e_verl.sh --resume {self.folder}"]


def _together(name: str, runs: Sequence[tuple[Planned, Step]]) -> Deliverable:
    """One deliverable of several runs: the first that did not pass decides."""
    if not runs:
        return Deliverable(name=name, verdict="Skipped", reason="not reached")
    bad = next((step for _, step in runs if not step.passed), None)
    words = ", ".join(dict.fromkeys(f"level {one.number}, {one.variant.title}" for one, _ in runs))
    step = bad or runs[-1][1]
    return Deliverable(
        name=name, verdict=step.verdict, reason=f"{words}: {step.name}: {step.reason}" if bad else f"{words}: {step.reason}"
    )
