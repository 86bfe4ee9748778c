"""Small git histories, and a search over one whose jobs are only pretended: a commit is judged by the file in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.verdict import Check, Evidence
from mvp_helpers.bisect import record as records
from mvp_helpers.bisect.record import Record, Request
from mvp_helpers.bisect.search import CannotRun, Search
from mvp_helpers.gates import baseline
from mvp_helpers.gates.baseline import Baseline

WHO = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "a"), ("EMAIL", "a@b"))}


class History:
    """A git repository whose commits have one file, ``state``: "ok", "worse" or "broken", and a number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        environment = os.environ | WHO | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_OPTIONAL_LOCKS": "0"}
        return subprocess.run(
            ["git", "-C", str(self.path), *words], env=environment, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, state: str, *, number: int | None = None) -> str:
        """Commit that state; return the hash. Commits with the same ``number`` and state have the same code."""
        count = len(self.git("log", "--all", "--format=%H").split()) if (self.path / "state").exists() else 0
        (self.path / "state").write_text(f"{state} {count if number is None else number}")
        self.git("add", ".")
        self.git("commit", "--quiet", "--allow-empty", "--message", f"{state} {count}")
        return self.git("rev-parse", "HEAD")

    def snapshot(self) -> tuple[str, str, bytes, str]:
        """What a search may not change: refs, HEAD, the index and the work tree."""
        status = self.git("status", "--porcelain", "--ignored")
        return self.git("for-each-ref"), self.git("rev-parse", "HEAD"), (self.path / ".git" / "index").read_bytes(), status


class Pretended:
    """Trials by the file ``state`` of a commit. Every call that a right search does not make fails the test."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.states: dict[str, str] = {}
        """How jobs would end: those that were begun."""
        self.calls: list[str] = []
        self.interrupt_at = -1
        self.figures: dict[str, float] = {}

    def state(self, commit: str) -> str:
        return self.history.git("show", f"{commit}:state").split()[0]

    def code_of(self, commit: str) -> str:
        if self.state(commit) == "no-code":
            raise CannotRun("no snapshot", BadInput("no snapshot"))
        return self.history.git("rev-parse", f"{commit}:state")

    def run(self, commit: str, code_id: str, job: str) -> str:
        assert code_id == self.code_of(commit)
        assert commit[:7] in job, f"job {job} is not of {commit}"
        self.calls.append(job)
        known = job in self.states
        self.states.setdefault(job, self.state(commit))
        if len(self.calls) - 1 == self.interrupt_at:
            raise KeyboardInterrupt
        assert self.calls.count(job) == 1 or known, "a job was submitted twice"
        if self.states[job] in ("broken", "stopped"):
            raise CannotRun(f"job {job} is FAILED before it trained")
        return job

    def baseline(self, jobs: Sequence[str]) -> Baseline:
        return baseline.make("good-end", "ppo", jobs, {}, {}, {"learning": [self.figures[job.split("-")[2]] for job in jobs]})

    def judge(self, job: str, recorded: Baseline | None) -> list[Check]:
        state = self.states[job]
        if state == "other-metrics":
            raise BadInput("gate 'learning': the job has no metric 'reward'")
        return [
            Check("gate: learning", "Fail" if state == "worse" else "Pass", "", [Evidence("metrics.jsonl", None, f"is {state}")]),
            Check("gate: start", "Fail" if state == "slow-start" else "Pass", "slow"),
            Check("gate: memory", "Skipped", "no baseline was named"),
        ]


class Lab:
    """A search over that history, which can be begun again and again in its folder."""

    def __init__(self, history: History, place: Path) -> None:
        self.history, self.place, self.said = history, place, list[str]()
        self.trials = Pretended(history)
        place.mkdir()

    def request(self, good: str, bad: str) -> Request:
        return Request(
            kind="verl",
            repository=str(self.history.path),
            good=good,
            bad=bad,
            cluster="local",
            spec_name="ppo.json",
            spec="{}",
            gates={},
        )

    def search(self, good: str, bad: str, runs: int = 1) -> Search:
        request = self.request(good, bad)
        return Search(self.place, records.read(self.place, request), self.trials, self.said.append, good_runs=runs)

    def record(self) -> Record:
        return records.read(self.place, self.request("", ""))
