"""Script 60: the steps of a run in their order, each with a verdict and its evidence in the run's folder.

A step that does not pass ends the run: what comes after it is Skipped, with that step as the reason. A run that this revision of
the checkout cannot do at all is Blocked without ending the others. Every try has a folder of
its own, so nothing is ever overwritten; a resume takes passed steps as they are if the checkouts have not changed since.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..base import files, redact, times
from ..base.errors import BadInput, Blocked, MvpError
from ..base.times import now
from . import page, summary
from .context import Context
from .report import Report
from .step import Step
from .steps import drift, environment, imports, local_copies, record_checkouts, setup, tests, training
from .summary import Summary


@dataclass(frozen=True)
class Action:
    """One step to come."""

    name: str
    title: str
    run: Callable[[Context, Path], Step]
    always: bool = False
    """Done again in a resume: that may be on another machine, or in a new container."""
    may_skip: bool = False
    """Skipped does not end the run."""
    optional: bool = False
    """No verdict of it ends the run."""
    unless: Callable[[list[Step]], str] = lambda steps: ""
    """Returns from the steps so far why it is not done."""
    rerun: bool = False
    """Done also after the run has ended: ``unless`` decides alone."""


def actions(context: Context) -> list[Action]:
    """Return the steps of a run in their order."""
    request, planned = context.request, context.planned
    return [
        Action("checkouts", "the checkouts as they are", record_checkouts.run, always=True),
        *([Action("setup", request.setup, setup.run, always=True)] if request.setup else []),
        *(
            Action(each.name, "focused tests", functools.partial(tests.run, tests=each), may_skip=True, optional=each.optional)
            for each in context.tests
        ),
        Action("environment", "environment, data and model", environment.run, always=True),
        *([Action("local-copies", "node-local copies", local_copies.run, always=True)] if context.local else []),
        *(
            Action(
                "imports-baseline" if baseline else "imports",
                "imports in the driver and the Ray workers",
                functools.partial(imports.run, baseline=baseline),
                always=True,
            )
            for baseline in sorted({one.baseline for one in planned})
        ),
        Action("drift", "this revision's script and config", drift.run, always=True),
        *(
            Action(
                one.name,
                f"level {one.number}: {one.variant.title}, {one.run.name}",
                functools.partial(training.run, one=one),
                optional=one.run.optional or bool(one.run.rerun),
                unless=functools.partial(training.unneeded, one=one),
                rerun=bool(one.run.rerun),
            )
            for one in planned
        ),
    ]


class Procedure:
    """One run. ``steps`` are those that have ended."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.folder = context.folder
        self.steps: list[Step] = []

    def run(self) -> Summary:
        """Do all steps, then write the summary, also when the run is interrupted between them."""
        todo, stopped = actions(self.context), ""
        try:
            for action in todo:
                if stopped and not action.rerun:
                    self._note(Step(name=action.name, title=action.title, verdict="Skipped", reason=f"not run: {stopped}"))
                    continue
                if why := action.unless(self.steps):
                    self._note(Step(name=action.name, title=action.title, verdict="Skipped", reason=f"not run: {why}"))
                    continue
                step = self.do(action)
                if not (step.passed or step.alone or action.optional or (action.may_skip and step.verdict == "Skipped")):
                    stopped = f"{step.name} is {step.verdict}"
        except KeyboardInterrupt:
            self._interrupted(todo[len(self.steps) :])
            self._write_summary(todo)
            raise
        return self._write_summary(todo)

    def _interrupted(self, rest: list[Action]) -> None:
        for at, action in enumerate(rest):
            verdict, reason = ("Skipped", "not run: interrupted") if at else ("Blocked", "interrupted")
            self.steps.append(Step(name=action.name, title=action.title, verdict=verdict, reason=reason))  # type: ignore[arg-type]

    def do(self, action: Action) -> Step:
        """Do one step, or take it from an earlier try. Raises BadInput when a checkout has changed since that try."""
        context, name = self.context, action.name
        marks = {state.name: state.fingerprint for state in context.states}
        if (earlier := self._earlier(name)) and earlier.passed and not action.always:
            if earlier.fingerprints != marks:
                raise BadInput(
                    f"a checkout has changed since step '{name}' of {self.folder.path} passed: that verdict is about other code",
                    hint="start a new run",
                )
            self._note(earlier, again=True)
            return earlier
        place = self.folder.next_try(name)
        place.mkdir(parents=True)
        for cache in context.caches.values():  # torch keeps no kernels in a folder that is not there, and warns of it
            cache.mkdir(parents=True, exist_ok=True)
        context.say(f"{name}: {action.title} …")
        began, clock = now(), times.seconds_of(now())
        try:
            step = action.run(context, place)
        except Blocked as error:
            step = Step(verdict="Blocked", reason=error.what, fixes=[error.hint] if error.hint else [])
        step.name, step.title, step.began = name, action.title, began
        step.seconds = round(times.seconds_of(now()) - clock, 1)
        step.fingerprints = {state.name: state.fingerprint for state in context.states}
        step.where = context.where
        step.env = redact.environment(step.env)
        step.reason = redact.text(step.reason)
        files.write_bytes(place / "step.json", msgspec.json.format(msgspec.json.encode(step), indent=2) + b"\n")
        self._note(step)
        return step

    def _earlier(self, name: str) -> Step | None:
        """Return the step's last try that came to an end."""
        for place in reversed(self.folder.tries(name)):
            if (place / "step.json").exists():
                return msgspec.json.decode((place / "step.json").read_bytes(), type=Step)
        return None

    def _note(self, step: Step, again: bool = False) -> None:
        self.steps.append(step)
        self.context.logs[step.name] = step.log
        took = f" ({times.clock(step.seconds)})" if step.seconds and not again else ""
        self.context.say(f"{step.name}: {step.verdict}{' (earlier)' if again else ''} - {step.reason}{took}")

    def _write_summary(self, todo: list[Action]) -> Summary:
        optional = frozenset(action.name for action in todo if action.optional)
        report = Report(self.context, self.steps, optional).summary()
        for suffix, data in (
            ("txt", summary.text(report).encode() + b"\n"),
            ("md", summary.markdown(report).encode()),
            ("json", summary.as_json(report)),
        ):
            files.write_bytes(self.folder.summary(suffix), data)
        try:
            page.write(self.folder)
        except MvpError as error:  # the verdict does not depend on it
            self.context.say(f"no page: {error.what}")
        return report


def run(context: Context) -> Summary:
    """Do a whole run, which SIGTERM interrupts as cleanly as Ctrl-C."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    return Procedure(context).run()
