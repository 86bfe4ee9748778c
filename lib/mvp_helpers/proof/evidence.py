"""The evidence in one job folder, as the checks of ``54`` read it. Ray is never asked: its answers are in the debug bundles."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ..base import documents
from ..base import files as files_of
from ..base.errors import MvpError
from ..base.paths import JobFolder
from ..base.times import seconds_of
from ..base.verdict import Check, Evidence, Verdict
from ..plan import plan
from ..plan.plan import Plan
from ..record import metrics
from ..record.job_folder import Result
from ..seal.seals import Seals

HEAD_BYTES = 4 << 20
"""How much of a file is searched for a line; the precheck's lines are among the first of the driver log."""
LONGEST_LINE = 1 << 20
"""Bytes of a line that are read at once."""
LONGEST = 300
"""Characters of a line that are cited."""


class Fail(Exception):
    """The check failed; the text is the reason."""


class Skip(Exception):
    """The check does not apply; the text says why."""


class Job:
    """One job's evidence, each file read once; reading a missing or damaged one raises ``Fail``."""

    def __init__(self, folder: JobFolder, result: Result, seals: Seals) -> None:
        self.folder, self.result, self.seals = folder, result, seals
        self.cited: list[Evidence] = []
        """What the running check rests on (see ``judge``)."""

    @cached_property
    def plan(self) -> Plan:
        try:
            return plan.read(self.folder)
        except MvpError as error:
            raise Fail(error.what) from None

    @cached_property
    def provenance(self) -> dict[str, Any]:
        return self._mapping(self.folder.provenance)

    @cached_property
    def precheck(self) -> dict[str, Any]:
        return self._mapping(self.folder.precheck)

    @cached_property
    def metrics(self) -> metrics.Metrics:
        if not self.folder.metrics.is_file():
            raise Fail("metrics.jsonl is missing")
        return metrics.read(self.folder.metrics)

    @property
    def trains(self) -> bool:
        """Whether this workload is a trainer: something that imports verl, logs steps and saves checkpoints."""
        return bool(self.plan.imports)

    @cached_property
    def given(self) -> dict[str, str]:
        """The trainer's overrides, by key."""
        return self.plan.given

    @cached_property
    def bundles(self) -> list[Path]:
        return sorted(path for path in self.folder.debug.glob("[!.]*") if path.is_dir())

    @cached_property
    def nodes(self) -> dict[str, dict[str, Any]]:
        """Node rows of all debug bundles by node id."""
        return {row["node_id"]: row for file in self.in_bundles("nodes.json") for row in self._rows(file)}

    @cached_property
    def ray_records(self) -> list[dict[str, Any]]:
        """Ray's own records of this job, oldest first."""
        rows = [row for name in ("jobs.json", "job.json") for file in self.in_bundles(name) for row in self._rows(file)]
        return [row for row in rows if row.get("submission_id") == self.folder.submission_id]

    @cached_property
    def processes(self) -> list[dict[str, Any]]:
        """Rows of the Ray actors that this job's driver started, of all debug bundles, each actor once (its newest row)."""
        driver = self.ray_records[-1]["job_id"] if self.ray_records else fail("debug/*/job.json: no record of this job")
        newest = {row["actor_id"]: row for file in self.in_bundles("actors.json") for row in self._rows(file)}
        return [row for row in newest.values() if driver and row["job_id"] == driver]

    @property
    def head(self) -> dict[str, Any]:
        return self.hosts("head")[0]

    def hosts(self, role: str) -> list[dict[str, Any]]:
        hosts = [host for host in self.provenance["hosts"] if host["role"] == role]
        return hosts or fail(f"provenance.json: hosts has no {role}")

    def span(self) -> tuple[float, float]:
        """Return the Unix times of the job's start and end."""
        return seconds_of(str(self.result.started_at)), seconds_of(str(self.result.ended_at))

    def in_bundles(self, name: str) -> list[Path]:
        """Return that file of each debug bundle that has it, oldest first."""
        return [bundle / name for bundle in self.bundles if (bundle / name).is_file()]

    def _rows(self, path: Path) -> list[dict[str, Any]]:
        rows = self.read_json(path)
        return rows if isinstance(rows, list) else fail(f"{self.name_of(path)} is not a list")

    def _mapping(self, path: Path) -> dict[str, Any]:
        value = self.read_json(path)
        return value if isinstance(value, dict) else fail(f"{self.name_of(path)} is not a mapping")

    def read_json(self, path: Path) -> Any:
        try:
            return documents.read_json(path)
        except FileNotFoundError:
            raise Fail(f"{self.name_of(path)} is missing") from None
        except (OSError, ValueError) as error:
            raise Fail(f"{self.name_of(path)} cannot be read: {error}") from None

    def text(self, path: Path) -> str:
        """Return the beginning of a text file, at most ``HEAD_BYTES``."""
        try:
            with files_of.opened(path) as stream:
                return stream.read(HEAD_BYTES).decode(errors="replace")
        except OSError as error:
            raise Fail(f"{self.name_of(path)}: {error.strerror}") from None

    @cached_property
    def printed(self) -> dict[str, set[str]]:
        """Values of the precheck's ``KEY=value`` lines in the driver log."""
        values: dict[str, set[str]] = {}
        for key, value in re.findall(r"^(MVP_PRECHECK_\w+)=(.*?)\r?$", self.text(self.folder.driver_log), re.MULTILINE):
            values.setdefault(key, set()).add(value)
        return values

    def name_of(self, path: Path) -> str:
        return str(path.relative_to(self.folder.path)) if path.is_relative_to(self.folder.path) else str(path)

    def cite(self, path: Path, *words: str) -> None:
        """Add the first line of ``path`` that contains all ``words`` to the evidence; nothing when there is none."""
        with_lines = enumerate(self.text(path).splitlines(), 1) if path.is_file() else ()
        for number, line in with_lines:
            if all(word in line for word in words):
                self.cited.append(Evidence(self.name_of(path), number, line.strip()[:LONGEST]))
                return

    def cite_line(self, path: Path, number: int) -> None:
        """Add line ``number`` of ``path`` to the evidence."""
        with files_of.opened(path) as stream:
            for at, line in files_of.lines(stream, LONGEST_LINE):
                if at == number:
                    self.cited.append(Evidence(self.name_of(path), number, line.decode(errors="replace").strip()[:LONGEST]))
                    return

    def cite_whole(self, path: Path, text: str) -> None:
        """Add a whole file or folder to the evidence, with what it shows."""
        self.cited.append(Evidence(self.name_of(path), None, text))


Judge = Callable[[Job, Sequence[Job]], str]
"""A check: takes a job and the jobs before it, oldest first; returns the reason why it passes, or raises ``Fail`` or ``Skip``."""


def judge(name: str, check: Judge, job: Job, others: Sequence[Job]) -> Check:
    """Return the verdict of one check with the evidence that it cites."""
    job.cited, began = [], time.perf_counter()
    verdict: Verdict
    try:
        verdict, reason = "Pass", check(job, others)
    except Fail as fail:
        verdict, reason = "Fail", str(fail)
    except Skip as skip:
        verdict, reason = "Skipped", str(skip)
    except Exception as error:  # evidence of another shape than we write proves nothing
        verdict, reason = "Fail", f"damaged evidence: {type(error).__name__}: {error}"
    return Check(name, verdict, reason, job.cited, round(time.perf_counter() - began, 3))


def fail(reason: str) -> Any:
    """Raise ``Fail``; usable in an expression."""
    raise Fail(reason)


def need(holds: bool, reason: str) -> None:
    """Raise ``Fail`` unless ``holds``."""
    if not holds:
        raise Fail(reason)


def files(*places: Path) -> Iterator[Path]:
    """Yield these files, and the files in these folders."""
    for place in places:
        if place.is_file():
            yield place
        elif place.is_dir():
            yield from (path for path in files_of.below(place) if path.is_file())


def same(left: str | Path, right: str | Path) -> bool:
    return Path(left).resolve() == Path(right).resolve()


def inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def short(identity: str | None) -> str:
    """Return the first 12 characters of a long identity."""
    return f"{identity[:12]}…" if identity and len(identity) > 12 else str(identity)
