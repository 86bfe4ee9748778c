"""Convert times (UTC, ISO 8601, as in ``result.json``) and durations (seconds) to and from the form people use."""

from __future__ import annotations

import datetime as dt
import re
import secrets
import time

from .errors import BadInput

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def now() -> str:
    """Return the current time: UTC, ISO 8601 with milliseconds."""
    return moment_of(time.time())


def stamped(name: str) -> str:
    """Return ``<name>-20260131-235959-1a2b``: such names sort by time (UTC), and two from the same second differ."""
    return f"{name}-{dt.datetime.now(dt.timezone.utc):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def seconds_of(moment: str) -> float:
    """Return the Unix time of an ISO 8601 time. Raises ValueError for anything else."""
    return dt.datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def since(text: str) -> float:
    """Return the Unix time of ``10m`` (that long ago; s, m, h, d) or of a UTC time (``2026-01-31T23:59``). Raises BadInput."""
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text):
        return time.time() - float(match[1]) * UNITS_S[match[2]]
    try:
        moment = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise BadInput(
            f"'{text}' is not a duration (10m) or a UTC time (2026-01-31T23:59)", hint="10m, 1.5h, or 2026-01-31T23:59:59 (UTC)"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.timezone.utc)).timestamp()


def moment_of(seconds: float) -> str:
    """Return the ISO 8601 time, in milliseconds, of a Unix time."""
    return dt.datetime.fromtimestamp(seconds, dt.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(seconds: float) -> str:
    """Format a duration: ``0.8s``, ``42s``, ``1m12s``, ``2h05m``."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
