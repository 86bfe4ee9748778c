"""What a bisection was asked and has found so far: ``common/bisect/<name>/bisect.json``, by which the same request continues."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

import msgspec

from ..base import files
from ..base.documents import Damaged, read_as
from ..base.errors import BadInput
from ..base.paths import SharedRoot
from ..base.shared_storage import make_folders, writing
from ..base.times import now
from ..base.verdict import Check
from ..gates.baseline import Baseline

Verdict = Literal["good", "bad", "skipped"]
Kind = Literal["verl", "toolkit"]
"""Whose commits they are: verl's, or this project's."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to search: the same request is the same bisection. ``good`` and ``bad`` are full hashes of commits."""

    kind: Kind
    repository: str
    good: str
    bad: str
    cluster: str
    spec_name: str
    spec: str
    gates: dict[str, str]
    """The assertion of each gate."""
    baseline: str | None = None

    @property
    def name(self) -> str:
        """``<good>-<bad>-<hash>``: the name of the bisection's folder."""
        return f"{self.good[:7]}-{self.bad[:7]}-{hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:8]}"


class Step(msgspec.Struct, kw_only=True):
    """One tested commit. ``verdict`` is None until it is known."""

    commit: str
    subject: str
    code_id: str = ""
    jobs: list[str] = []
    """Every job that was started for it, also those that an interruption ended."""
    running: str = ""
    """The job whose end is not known yet."""
    judged: list[str] = []
    """The jobs that the gates judge: the last attempts of those that succeeded."""
    verdict: Verdict | None = None
    reason: str = ""
    checks: list[Check] = []


class Outcome(msgspec.Struct, kw_only=True):
    """The end of a search: ``first_bad`` is None when only commits that cannot be run are left, ``suspects``."""

    first_bad: str | None
    suspects: list[str] = []
    page: str = ""
    """The page that compares the jobs on both sides of it."""


class Record(msgspec.Struct, kw_only=True):
    """``bisect.json``. ``token`` begins the ids of its jobs; ``baseline`` was made of the runs of the good end."""

    request: Request
    token: str
    started_at: str
    baseline: Baseline | None = None
    steps: list[Step] = []
    outcome: Outcome | None = None

    def step(self, commit: str) -> Step | None:
        """Return the step of a commit; None before its first test."""
        return next((step for step in self.steps if step.commit == commit), None)

    def commits(self, verdict: Verdict) -> list[str]:
        """Return the commits with that verdict, in the order in which they were tested."""
        return [step.commit for step in self.steps if step.verdict == verdict]

    def new_job(self, commit: str) -> str:
        """Return an id that no job of this bisection has."""
        return f"bisect-{self.token}-{sum(len(step.jobs) for step in self.steps) + 1:02}-{commit[:7]}"


def folder(shared: SharedRoot, request: Request) -> Path:
    """Return the folder of the request's bisection, made with its parent when missing. Raises Blocked."""
    path = shared.bisections / request.name
    make_folders({shared.bisections: 0o1777, path: 0o755})
    return path


def read(place: Path, request: Request) -> Record:
    """Return the record in a bisection's folder, or a new one. Raises BadInput for a damaged one."""
    path = place / "bisect.json"
    try:
        return read_as(path, Record)
    except FileNotFoundError:
        return Record(request=request, token=os.urandom(3).hex(), started_at=now())
    except (OSError, Damaged) as error:
        raise BadInput(f"cannot read {path}: {error}", hint=f"remove {place} to begin anew") from None


def write(place: Path, record: Record) -> None:
    """Replace the record. Raises Blocked."""
    with writing(place):
        files.write_bytes(place / "bisect.json", msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
