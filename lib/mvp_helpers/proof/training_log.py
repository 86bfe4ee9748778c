"""The check of the driver log: the steps and values that it shows are those of the metrics file, and it ends well."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from ..base import files
from ..diagnosis.log_lines import Raw, Samples
from ..diagnosis.metric_lines import Steps, metrics_of
from ..trainers.log_patterns import VERL
from .evidence import LONGEST_LINE, Job, Skip, need

IGNORED_LINES = 3
"""How far above a traceback its announcement as an ignored one can be: lines of other processes come in between."""
_WORD = VERL.metrics_word.encode()
_TRACEBACK = re.compile(rb"Traceback \(most recent call last\)")
_IGNORED = b"Exception ignored in"
"""Python's words for an exception in a destructor, which ends nothing."""


@dataclass
class LogView:
    """What one pass over a driver log finds."""

    steps: Steps = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)
    """The line (from 1) where each step is last."""
    traceback: int = 0
    """The line of the first traceback after the last step; 0 without one."""


def view(job: Job) -> LogView:
    """Read the whole driver log. Raises OSError."""
    found, ignored = LogView(), 0
    with files.opened(job.folder.driver_log) as stream:
        for line, number, _ in _own_lines(stream):
            if _WORD in line:
                step, values = metrics_of(line)
                if values:
                    found.steps.setdefault(step, {}).update(values)
                    found.lines[step], found.traceback = number, 0
            elif _IGNORED in line:
                ignored = number
            elif _TRACEBACK.search(line) and not found.traceback and not (ignored and number - ignored <= IGNORED_LINES):
                found.traceback = number
    return found


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
    log, metrics = view(job), job.metrics
    for step in dict.fromkeys((min(log.steps), max(log.steps))) if log.steps else ():
        job.cite_line(job.folder.driver_log, log.lines[step])
    last = max(log.steps, default=0)
    need(
        not log.steps or last == metrics.last, f"logs/driver.log: the last step is {last}, in metrics.jsonl it is {metrics.last}"
    )
    compared = 0
    for step, values in log.steps.items():
        written = metrics.steps.get(step)
        need(written is not None, f"logs/driver.log: step {step} is not in metrics.jsonl")
        for key, value in values.items():
            if key in (written or {}):
                compared += 1
                need(
                    _same((written or {})[key], value),
                    f"metrics.jsonl: step {step}: {key} is {(written or {})[key]}, the log has {value}",
                )
    if log.traceback:
        job.cited = []
        job.cite_line(job.folder.driver_log, log.traceback)
    need(not log.traceback, f"logs/driver.log:{log.traceback}: a traceback after the last step")
    if not log.steps:
        return "logs/driver.log shows no metrics of steps, and no traceback"
    return f"logs/driver.log: {len(log.steps)} steps, {compared} values as in metrics.jsonl; no traceback after the last"


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
