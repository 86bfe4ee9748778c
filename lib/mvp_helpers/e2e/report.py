"""The summary of a run from its steps: what it may claim and what it must admit follow from what was really run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..base import redact
from ..base.verdict import Check
from ..learning import learning_signal
from . import execute, summary
from .context import Context
from .requests.levels import Planned
from .step import Step
from .steps.criteria import EVERY_STEP, METRIC, NO_EXCEPTION
from .summary import Summary

NAMES = {"imports": "Local imports", "run": "Trainer run", "variants": "Requested variants", "logs": "Log capture"}
"""Deliverables that neither the trainer nor the description names."""
KEY_LINES = 12
MOVING = "latest|main|master|dev|nightly|stable|edge|release|preview"
"""Words of a tag that is moved by custom."""


@dataclass(frozen=True)
class Report:
    """A run so far. ``optional``: names of steps that do not decide the result."""

    context: Context
    steps: list[Step]
    optional: frozenset[str] = frozenset()

    @property
    def runs(self) -> list[tuple[Planned, Step]]:
        """The starts of the script and their steps, as far as the run came."""
        by_name = {step.name: step for step in self.steps}
        return [(one, by_name[one.name]) for one in self.context.planned if one.name in by_name]

    @property
    def deciding(self) -> list[Step]:
        return [step for step in self.steps if step.name not in self.optional]

    def summary(self) -> Summary:
        """Return Pass only when every step passed that is not optional; else the first that did not is the reason."""
        description, request = self.context.description, self.context.request
        verdicts = [step.verdict for step in self.deciding]
        result = summary.overall(verdicts, verdicts)
        first = next((step for step in self.deciding if not step.passed), None)
        coverage = ", ".join(f"Level {number} ({description.levels[number].title})" for number in request.levels)
        if first is None:
            learned = any(one.level.learning and step.passed for one, step in self.runs)
            sentence = f"{coverage} passed with the local {description.subject} checkout"
            sentence += f"; {learning_signal.PASSED}" if learned else ""
        else:
            sentence = f"{first.name}: {first.reason}"
            if result == "Blocked":
                sentence += f"; this is not evidence against the {description.subject} code"
        return Summary(
            result=result,
            sentence=redact.text(sentence),
            coverage=coverage + (f"; variants: {', '.join(request.variants)}" if request.variants else ""),
            model=self.context.model(self.context.planned[0]),
            deliverables=self.deliverables(),
            evidence=self.evidence(),
            limitations=self.limitations(),
            follow_ups=self.follow_ups(first),
            run=str(self.context.folder.path),
            steps=[msgspec.to_builtins(step) for step in self.steps],
        )

    def deliverables(self) -> list[Check]:
        """Return one check for each deliverable, with the names of the procedure's format."""
        names = {**NAMES, **self.context.trainer.deliverables, **self.context.description.deliverables}
        by_name = {step.name: step for step in self.steps}
        proof, first_level = by_name.get("imports"), min(self.context.request.levels)
        base = [(one, step) for one, step in self.runs if one.number == first_level]
        others = [(one, step) for one, step in self.runs if one.number != first_level] or [
            (one, step) for one, step in base if one.number != min(self.context.description.levels)
        ]
        return [
            *self._tests(),
            Check(names["imports"], proof.verdict, proof.reason, proof.evidence)
            if proof
            else Check(names["imports"], "Skipped", "not reached"),
            _together(names["run"], base),
            _together(names["variants"], others) if others else Check(names["variants"], "Not requested", "no further level"),
            self._captured(names["logs"]),
        ]

    def _captured(self, name: str) -> Check:
        """Return whether every start left its log, and its metrics where they are in files, and how its assertions ended."""
        steps = [step for _, step in self.runs if step.log]
        if not steps:
            return Check(name, "Skipped", "the script was not started; see the steps' logs in the run's folder")
        files = [Path(step.log) for step in steps]
        files += [file for step in steps for file in sorted(Path(step.log).parent.glob("metrics-*"))]
        asserted = [check for step in steps for check in step.criteria if check.name.startswith(METRIC)]
        bad = next((check for check in asserted if not check.met), None)
        status = f"; {sum(check.met for check in asserted)} of {len(asserted)} metric assertions hold" if asserted else ""
        status += f", not {bad.reason}" if bad else ""
        kept = all(file.is_file() and file.stat().st_size for file in files)
        return Check(name, "Pass" if kept and not bad else "Fail", ", ".join(map(str, files)) + status)

    def _tests(self) -> list[Check]:
        by_name = {step.name: step for step in self.steps}
        checks = []
        for tests in self.context.tests:
            step = by_name.get(tests.name)
            checks.append(
                Check(tests.title, step.verdict, step.reason, step.evidence)
                if step
                else Check(tests.title, "Skipped", "not reached")
            )
        return checks or [Check("Unit checks", "Not requested", "this procedure has none")]

    def evidence(self) -> list[tuple[str, str]]:
        """Return commits, exact commands, the lines that prove or disprove, and numbers."""
        checkouts = self.context.description.checkouts
        titles = {name: checkout.title for name, checkout in checkouts.items() if checkout.title}
        pairs = [(f"{titles.get(state.name, state.name)} repo", state.summary()) for state in self.context.states]
        pairs += [("Container image, as given", self.context.request.image)] if self.context.request.image else []
        shown = [(one, step) for one, step in self.runs if step.command] or self.runs[:1]
        for one, step in shown:
            name = "Command" if len(shown) == 1 else f"Command ({one.name})"
            if step.command:
                done = (Path(step.cwd), step.env, step.command)
                where = str(Path(step.log).parent / "command.sh")
            else:
                done = (self.context.cwd(one), self.context.shown_environment(one), self.context.command(one))
                where = "not run"
            pairs.append((name, f"{redact.text(execute.one_line(self.context.folder.path, *done))}  [{where}]"))
        pairs.append(("Key lines", redact.text(", ".join(self._key_lines())) or "none"))
        resolved = [
            text.removeprefix("resolved: ") for step in self.steps for text in step.texts if text.startswith("resolved: ")
        ]
        pairs += [(f"Resolved config ({name})", values) for name, _, values in (text.partition(": ") for text in resolved)]
        pairs += [(f"Learning signal ({step.name})", "; ".join(step.learning)) for _, step in self.runs if step.learning]
        pairs += [(f"Resources ({step.name})", step.outcome.summary()) for _, step in self.runs if step.outcome]
        return pairs

    def _key_lines(self) -> list[str]:
        """Return the evidence of met criteria; after a failure, only what failed."""
        if bad := next((step for step in self.deciding if step.verdict in ("Fail", "Blocked")), None):
            at = f" ({bad.triage.log}:{bad.triage.line})" if bad.triage and bad.triage.line else ""
            return [f"{bad.reason}{at}"]
        met = [check for _, step in self.runs for check in step.criteria if check.met and check.name != NO_EXCEPTION]
        # Whatever else was logged: that the last step was trained, and which checkpoint was loaded.
        decisive = {check.reason for check in met if check.name == EVERY_STEP or check.name.startswith("resumed from")}
        others = [check.reason for check in met if check.evidence and check.reason not in decisive]
        shown = decisive | set(list(dict.fromkeys(others))[: max(KEY_LINES - len(decisive), 0)])
        return [reason for reason in dict.fromkeys(check.reason for check in met) if reason in shown]

    def limitations(self) -> list[str]:
        """Return what the runs do not show, each once."""
        ran = [one for one, step in self.runs if step.outcome]
        texts = [*self.context.limits, *self._limits(ran)]
        texts += [text for step in self.steps for text in step.limitations]
        if ran and not any(one.level.learning for one in ran):
            texts.append("no convergence claim")
        if not ran:
            texts.append("nothing was trained: no claim about any level")
        texts += [text for step in self.steps for text in step.texts if text.startswith(("drift:", "residual:"))]
        failed = [step for step in self.steps if step.name in self.optional and step.verdict in ("Fail", "Blocked")]
        texts += [f"optional, and not decisive: {step.name}: {step.verdict} - {step.reason}" for step in failed]
        return list(dict.fromkeys(texts))

    def _limits(self, ran: list[Planned]) -> list[str]:
        """Return what follows from the runs' settings, from a moving image, and from steps in different environments."""
        context = self.context
        texts = context.limitations(ran)
        if moving_image(context.request.image):
            texts.append(f"the image {context.request.image} has no exact tag: the same name may be another image tomorrow")
        places = list(dict.fromkeys(step.where for _, step in self.runs if step.where))
        if len(places) > 1:
            texts.append(f"levels ran in different environments, each with an import proof of its own: {'; '.join(places)}")
        return texts

    def follow_ups(self, first: Step | None) -> list[str]:
        """Return what to do about the first step that did not pass."""
        if first is None:
            return []
        if first.by_request:
            return [f"a new run without that override, because a resume would keep it: {first.reason}"]
        cause = first.triage
        if cause and cause.verdict == first.verdict and cause.evidence in first.reason:
            limit = f" (limitation: {cause.limitation})" if cause.limitation else ""
            follow_up = f"{cause.follow_up}{limit}" if cause.follow_up else ""
            todo = [*(text for text in (cause.advice, follow_up) if text), *(first.fixes if first.verdict == "Blocked" else [])]
        elif first.verdict == "Blocked":
            todo = [f"environment fix: {text}" for text in first.fixes or [first.reason]]
        else:
            todo = [f"needed rerun after a fix: {first.reason}", *first.fixes]
        return [*todo, f"{self.context.description.command} --resume {self.context.folder.path}"]


def _together(name: str, runs: Sequence[tuple[Planned, Step]]) -> Check:
    """Return one deliverable of several runs: the first that did not pass decides, unless it is optional."""
    if not runs:
        return Check(name, "Skipped", "not reached")
    deciding = [(one, step) for one, step in runs if not one.run.optional] or list(runs)
    bad = next((step for _, step in deciding if not step.passed), None)
    words = ", ".join(dict.fromkeys(f"level {one.number}, {one.variant.title}" for one, _ in runs))
    step = bad or deciding[-1][1]
    return Check(name, step.verdict, f"{words}: {step.name}: {step.reason}" if bad else f"{words}: {step.reason}", step.evidence)


def moving_image(image: str) -> bool:
    """Tell whether an image's name can mean another image tomorrow: no tag, or one that is moved by custom."""
    name = image.rpartition("/")[2]
    if not image or "@sha256:" in image or name.endswith(".sqsh"):
        return False
    tag = name.partition(":")[2]
    # A date or a commit makes such a tag exact.
    return not tag or bool(re.search(rf"(?i)(?<![^-_.])({MOVING})(?![^-_.])", tag) and not re.search(r"\d{8}|[0-9a-f]{7}", tag))
