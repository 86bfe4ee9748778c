"""The check of the driver log: the steps and values that it shows are those of the metrics file, and it ends well."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ..base import files
from ..diagnosis import signatures
from ..learning.metric_lines import metrics_of
from ..log_text.exceptions import Chain
from ..log_text.log_lines import Raw, Samples, clean, has_any
from ..log_text.tracebacks import Tracebacks
from ..trainers.patterns.of_trainers import VERL
from .evidence import LONGEST_LINE, Job, Skip, need

_WORD = VERL.metrics_word.encode()
_BEGINS = (b"Traceback (most recent call last)", b"Exception ")
"""Words of a line with which a traceback begins, or that says that the next one is ignored: in a destructor it ends nothing."""


@dataclass
class LogView:
    """What one pass over a driver log finds."""

    lines: dict[int, int] = field(default_factory=dict)
    """The line (from 1) where each step is last."""
    compared: int = 0
    """Values that metrics.jsonl has too."""
    problem: str = ""
    """The first step or value that is not that of metrics.jsonl."""
    traceback: int = 0
    """The line of the first traceback after the last step; 0 without one."""
    exception: str = ""
    """What it is about: the exception's line."""
    residue: str = ""
    """The exception of a traceback after the last step that the signatures know as residual text of a shutdown."""


def view(log: Path, written: Mapping[int, Mapping[str, Any]]) -> LogView:
    """Read a whole driver log beside the metrics by step. Raises OSError."""
    found, tracebacks = LogView(), Tracebacks()
    with files.opened(log) as stream:
        for line, number, _ in _own_lines(stream):
            if _WORD in line:
                step, values = metrics_of(line)
                if values:
                    found.lines[step], found.traceback, found.residue, tracebacks = number, 0, "", Tracebacks()
                    found.problem = found.problem or _difference(found, step, values, written.get(step))
            elif tracebacks.waiting or has_any(line, _BEGINS):
                _note(found, tracebacks.take(clean(line, number))[1])
    _note(found, tracebacks.rest())
    return found


def _note(found: LogView, chains: Sequence[Chain]) -> None:
    """Keep the first traceback that Python did not ignore and that a shutdown does not explain."""
    for chain in chains:
        if chain.header and not chain.ignored and not found.traceback:
            exception, hit = chain.causes()[0].headline, signatures.load().of_chain(chain, "done")
            if hit and hit.rule.verdict == "Noise" and hit.rule.boundary == "shutdown":
                found.residue = found.residue or exception
            else:
                found.traceback, found.exception = chain.number, exception


def _difference(found: LogView, step: int, shown: Mapping[str, float], written: Mapping[str, Any] | None) -> str:
    """Return how a step in the log differs from the same step in metrics.jsonl; count the values that both have."""
    if written is None:
        return f"logs/driver.log: step {step} is not in metrics.jsonl"
    common = shown.keys() & written.keys()
    found.compared += len(common)
    unequal = next((key for key in shown if key in common and not _same(written[key], shown[key])), None)
    return f"metrics.jsonl: step {step}: {unequal} is {written[unequal]}, the log has {shown[unequal]}" if unequal else ""


def _own_lines(stream: BinaryIO) -> Iterator[Raw]:
    """Yield the lines without the prompts and answers that a reward manager printed."""
    samples = Samples()
    for number, line in files.lines(stream, LONGEST_LINE):
        yield from samples.take(line, number)
    yield from samples.rest()


def log_agrees(job: Job, _: Sequence[Job]) -> str:
    """The log's steps and values are in metrics.jsonl, it is as long as the runner recorded, and no traceback ends it."""
    if not job.trains:
        raise Skip(f"workload '{job.plan.workload}' is not a trainer")
    _check_length(job)
    metrics = job.metrics
    log = view(job.folder.driver_log, metrics.steps)
    last = max(log.lines, default=0)
    for step in dict.fromkeys((min(log.lines), last)) if log.lines else ():
        job.cite_line(job.folder.driver_log, log.lines[step])
    need(
        not log.lines or last == metrics.last, f"logs/driver.log: the last step is {last}, in metrics.jsonl it is {metrics.last}"
    )
    need(not log.problem, log.problem)
    if log.traceback:
        job.cited = []
        job.cite_line(job.folder.driver_log, log.traceback)
    need(not log.traceback, f"logs/driver.log:{log.traceback}: a traceback after the last step: {log.exception}")
    if not log.lines:
        return "logs/driver.log shows no metrics of steps, and no traceback"
    after = f"after the last only residual text of the shutdown: {log.residue}" if log.residue else "no traceback after the last"
    return f"logs/driver.log: {len(log.lines)} steps, {log.compared} values as in metrics.jsonl; {after}"


def _check_length(job: Job) -> None:
    """The log is as long as the job runner recorded last, about twice a second."""
    try:
        last = files.tail(job.folder.log_times, 100).split(b"\n")[-2].split()
    except (OSError, IndexError):
        return
    if job.result.state == "SUCCEEDED" and len(last) == 2 and last[1].isdigit():
        size = job.folder.driver_log.stat().st_size
        need(size == int(last[1]), f"logs/driver.log has {size} bytes, but logs/driver.times recorded {int(last[1])} at the end")


def _same(written: object, shown: float) -> bool:
    if not isinstance(written, (int, float)):
        return not math.isfinite(shown)  # verl's file logger writes NaN and infinity as null
    return math.isclose(float(written), shown, rel_tol=1e-6, abs_tol=1e-12) or not math.isfinite(shown)
