"""Search for the first bad commit: test both ends, then repeatedly the commit that halves the rest.

Git chooses the commits (``rev-list --bisect-all``), so histories with merges work; the repository stays unchanged. Everything is
recorded before and after each job: a search that was interrupted continues where it was.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from ..base import git
from ..base.errors import BadInput, Blocked, MvpError
from ..base.verdict import Check
from ..gates.baseline import Baseline
from . import record as records
from .record import Outcome, Record, Step

Say = Callable[[str], None]
SHORT = 10
"""Characters of a commit's hash that are shown."""


class CannotRun(Exception):
    """A commit cannot be judged; ``error`` is what the user did wrong if it is one of the two ends."""

    def __init__(self, reason: str, error: MvpError | None = None) -> None:
        super().__init__(reason)
        self.reason, self.error = reason, error


class Trials(Protocol):
    """How a commit is tested (see ``trials.py``)."""

    def code_of(self, commit: str) -> str:
        """Make the commit's code available to jobs; return an id of its content. Raises CannotRun."""

    def run(self, commit: str, code_id: str, job: str) -> str:
        """Run the job, or follow the one that exists; return the id of its last attempt, which succeeded. Raises CannotRun."""

    def baseline(self, jobs: Sequence[str]) -> Baseline:
        """Return the baseline that equal jobs make. Raises BadInput when a gate has no value."""

    def judge(self, job: str, recorded: Baseline | None) -> list[Check]:
        """Return the verdict of each gate. Raises BadInput for gates that do not fit the job."""


class Search:
    """One bisection in its folder. ``good_runs``: how often the good end is run; more than once for a baseline of its own."""

    def __init__(self, place: Path, record: Record, trials: Trials, say: Say, *, good_runs: int = 1) -> None:
        self.place, self.record, self.trials, self.say = place, record, trials, say
        self.good_runs, self.repository = good_runs, Path(record.request.repository)

    def complete(self) -> Outcome:
        """Search to the end, from wherever the record is.

        Raises:
            BadInput: the good end fails a gate, the bad end passes all, or the gates do not fit the jobs.
            Blocked: an end cannot be run, or the cluster runs no job; the search can be continued later.
        """
        if not self.record.outcome:
            request = self.record.request
            self._expect("good", self._end(request.good, "good end", self.good_runs))
            self._expect("bad", self._end(request.bad, "bad end", 1))
            while (left := self._suspects()) and (commit := choose(left, self.record.commits("skipped"))):
                self._step(commit, left)
            first = left[-1] if len(left) == 1 else None
            self.record.outcome = Outcome(first_bad=first, suspects=[] if first else left)
            self.save()
        return self.record.outcome

    def neighbour(self) -> Step:
        """Return the tested good commit that is nearest to the first bad one."""
        bad = self.record.commits("bad")[-1]
        good = [step for step in self.record.steps if step.verdict == "good" and step.judged]
        return min(good, key=lambda step: len(git.suspects(self.repository, bad, [step.commit])))

    def _suspects(self) -> list[str]:
        return git.suspects(self.repository, self.record.commits("bad")[-1], self.record.commits("good"))

    def _end(self, commit: str, name: str, runs: int) -> Step:
        step = self._known(commit)
        if step.verdict is None:
            self.say(f"{name}: {_shown(step)}")
            try:
                self._test(step, runs)
            except CannotRun as problem:
                what = f"the {name} {commit[:SHORT]} cannot be judged: {problem.reason}"
                raise problem.error or Blocked(what, hint=_ways_on(step)) from None
            self._tell(step)
        return step

    def _expect(self, wanted: records.Verdict, step: Step) -> None:
        if step.verdict == wanted:
            return
        hint = f"other ends or another gate (--gate NAME, --gates FILE); to run both ends again, first remove {self.place}"
        problem = f"fails: {step.reason}" if wanted == "good" else "passes every gate, so there is nothing to find"
        raise BadInput(f"the {wanted} end {step.commit[:SHORT]} {problem}", hint=hint)

    def _step(self, commit: str, left: Sequence[str]) -> None:
        step, done = self._known(commit), sum(step.verdict is not None for step in self.record.steps) - 2
        about = done + max(1, math.ceil(math.log2(len(left))))
        self.say(f"step {done + 1} of about {about}, {len(left)} commits left: {_shown(step)}")
        try:
            self._test(step, 1)
        except CannotRun as problem:
            step.verdict, step.reason = "skipped", problem.reason
            self.save()
        self._tell(step)

    def _known(self, commit: str) -> Step:
        step = self.record.step(commit)
        if step is None:
            step = Step(commit=commit, subject=git.describe(self.repository, commit)["subject"])
            self.record.steps.append(step)
        return step

    def _test(self, step: Step, runs: int) -> None:
        """Set the verdict of a commit. Raises CannotRun."""
        step.code_id = self.trials.code_of(step.commit)
        twin = next((each for each in self.record.steps if each.verdict and each.code_id == step.code_id), None)
        if twin:
            step.verdict, step.checks, step.judged = twin.verdict, twin.checks, twin.judged
            step.reason = f"the same code as {twin.commit[:SHORT]}: {twin.reason}"
        else:
            while len(step.judged) < runs:
                step.judged.append(self._run(step))
                step.running = ""
                self.save()
            self._judge(step)
        self.save()

    def _run(self, step: Step) -> str:
        """Return the id of a job that succeeded. Raises CannotRun.

        A job that was left by an interruption is followed; when it did not succeed, which the interruption may have caused,
        it is run again under another id.
        """
        if step.running:
            self.say(f"job {step.running} was left by an interruption")
            try:
                return self.trials.run(step.commit, step.code_id, step.running)
            except CannotRun as problem:
                self.say(f"{problem.reason}: run again")
        step.running = self.record.new_job(step.commit)
        step.jobs.append(step.running)
        self.save()
        try:
            return self.trials.run(step.commit, step.code_id, step.running)
        except CannotRun:
            step.running = ""
            self.save()
            raise

    def _judge(self, step: Step) -> None:
        try:
            if len(step.judged) > 1 and not self.record.baseline:
                self.record.baseline = self.trials.baseline(step.judged)
            checks = [check for job in step.judged for check in self.trials.judge(job, self.record.baseline)]
        except BadInput as error:
            raise CannotRun(error.what, error) from None
        watched = self._watched()
        step.checks = [check for check in checks if not watched or check.name in watched]
        failed = [check for check in step.checks if check.verdict == "Fail"]
        passed = [check for check in step.checks if check.verdict == "Pass"]
        if not failed and not passed:
            raise CannotRun(f"no gate judges job {step.judged[-1]}: {step.checks[0].reason if step.checks else 'there is none'}")
        step.verdict = "bad" if failed else "good"
        shown = failed or [check for check in passed if check.name in watched] or passed
        step.reason = "; ".join(dict.fromkeys(f"{check.name.removeprefix('gate: ')}: {_figure(check)}" for check in shown))

    def _watched(self) -> set[str]:
        """Return the gates that the bad end fails: only they judge the commits between the ends."""
        bad = self.record.step(self.record.request.bad)
        return {check.name for check in bad.checks if check.verdict == "Fail"} if bad and bad.verdict == "bad" else set()

    def _tell(self, step: Step) -> None:
        jobs = f" (job{'s' if len(step.judged) > 1 else ''} {', '.join(step.judged)})" if step.judged else ""
        self.say(f"  {step.verdict}: {step.reason}{jobs}")

    def save(self) -> None:
        """Write the record. Raises Blocked."""
        records.write(self.place, self.record)


def choose(left: Sequence[str], skipped: Sequence[str]) -> str | None:
    """Return the commit to test next; None when none can be: the search has ended.

    ``left`` is as ``git.suspects`` returns it. As ``git bisect`` does, step away from a commit that cannot be run: its neighbours
    often cannot either.
    """
    known_skipped = set(skipped)
    untested = [commit for commit in left[:-1] if commit not in known_skipped]
    if not untested:
        return None
    if untested[0] == left[0]:
        return untested[0]
    return untested[int(len(untested) * random.Random(len(known_skipped)).random() ** 1.5)]


def _figure(check: Check) -> str:
    return check.evidence[0].text if check.evidence else check.reason


def _shown(step: Step) -> str:
    return f"{step.commit[:SHORT]} {step.subject}"


def _ways_on(step: Step) -> str:
    return (
        f"./scripts/55_explain.sh {step.jobs[-1]}; the same command again runs it again"
        if step.jobs
        else "the same command again"
    )
