"""When a job must be saved and ended: ``save_by`` of its JobSpec, ``MVP_DEADLINE``, or the end of its Slurm allocation."""

from __future__ import annotations

import datetime as dt
import subprocess
import time
from collections.abc import Callable, Mapping

from ..base.errors import BadInput
from ..base.times import moment_of
from ..record.control import Deadline

VARIABLE = "MVP_DEADLINE"
OF_JOBSPEC = "save_by of the JobSpec"
SLURM_TIMEOUT_S = 10.0
HINT = "Unix time, or a UTC time: 2026-01-31T23:59"


def parse(value: int | float | str, source: str) -> float:
    """Unix time of ``save_by`` or ``MVP_DEADLINE``. Raises BadInput for anything but a Unix time or a UTC moment."""
    text = str(value).strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:
            raise BadInput(f"{source}: {value!r} is not a UTC time", hint=HINT) from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=dt.timezone.utc)).timestamp()
    if not 1e9 <= seconds < 1e11:  # 2001 to 5138: other numbers are spans or milliseconds; NaN is none of them
        raise BadInput(f"{source}: {value!r} is not a Unix time in seconds", hint=HINT)
    return seconds


def save_by(value: int | float | str | None, source: str) -> float | None:
    """Unix time of a JobSpec's ``save_by``. Raises BadInput when it is not a time, or has passed."""
    if value is None:
        return None
    at = parse(value, f"{source}: save_by")
    if at <= time.time():
        raise BadInput(f"{source}: save_by {value!r} is in the past: it is {moment_of(time.time())}", hint=HINT)
    return at


def nearest(save_by: float | None, environment: Mapping[str, str]) -> Deadline | None:
    """The earliest deadline of a job that runs with this environment; None when there is none.

    Raises BadInput when ``MVP_DEADLINE`` is not a time.
    """
    deadlines = []
    if save_by:
        deadlines.append(Deadline(at=save_by, source=OF_JOBSPEC))
    if text := environment.get(VARIABLE):
        deadlines.append(Deadline(at=parse(text, VARIABLE), source=VARIABLE))
    if end := slurm_end(environment):
        deadlines.append(Deadline(at=end, source=f"the end of Slurm allocation {environment['SLURM_JOB_ID']}"))
    return min(deadlines, key=lambda deadline: deadline.at, default=None)


def slurm_end(environment: Mapping[str, str], ask: Callable[[list[str]], str] | None = None) -> float | None:
    """When the Slurm allocation of this process ends; None outside of one, without a limit, or when Slurm does not answer."""
    job = environment.get("SLURM_JOB_ID", "")
    if not job.isdigit():
        return None
    # Not SLURM_JOB_END_TIME: it keeps the value of the allocation's begin when the limit is changed.
    answer = (ask or _ask)(["squeue", "--noheader", f"--jobs={job}", "--format=%e"]).strip()
    try:
        return dt.datetime.fromisoformat(answer).timestamp()  # Slurm prints local time
    except ValueError:  # N/A, NONE, empty
        return None


def _ask(argv: list[str]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=SLURM_TIMEOUT_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
