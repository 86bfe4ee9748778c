"""Moments (UTC, ISO 8601, as in ``result.json``) and spans (seconds), and how people read them."""

from __future__ import annotations

import datetime as dt
import time

from .job_folder import Result


def seconds_of(moment: str) -> float:
    """Unix time of an ISO 8601 moment. Raises ValueError for anything else."""
    return dt.datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def moment_of(seconds: float) -> str:
    """The ISO 8601 moment, in milliseconds, of a Unix time."""
    return dt.datetime.fromtimestamp(seconds, dt.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def elapsed_s(result: Result) -> float | None:
    """Seconds from the job's start (from its claim when it never started) to its end, or to now."""
    begin = result.started_at or result.claimed_at
    end = seconds_of(result.ended_at) if result.ended_at else time.time()
    return max(0.0, end - seconds_of(begin)) if begin else None


def clock(seconds: float) -> str:
    """``0.8s``, ``42s``, ``1m12s``, ``2h05m``."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
