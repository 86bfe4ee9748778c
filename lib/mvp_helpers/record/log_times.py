"""When the driver log grew: ``logs/driver.times``, one line ``<Unix milliseconds> <bytes of driver.log>`` about once a second.

The log itself has no times. The clock is that of the driver's host. Lines are also written every few seconds while nothing is
logged, so the file grows as long as the job runner lives.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from threading import Event
from typing import IO

from ..base import files

EVERY_S = 0.5
ALIVE_S = 10.0
_LONGEST = 40
"""Bytes of a line that are read at once; whatever else is in the file."""


def keep(times: Path, log: IO[bytes], ended: Event) -> None:
    """Write ``times`` while ``log`` grows, until ``ended``, and sync the log so that other hosts see its bytes.

    A full or lost disk loses lines, nothing else.
    """
    size, noted_at, over = -1, 0.0, False
    with contextlib.suppress(OSError), times.open("ab", buffering=0) as lines:
        while not over:
            over = ended.wait(EVERY_S if size >= 0 else 0)
            with contextlib.suppress(OSError):
                # Read the size before the time: bytes logged after a line's time always come after its size.
                now = os.fstat(log.fileno()).st_size
                if now != size or time.monotonic() - noted_at >= ALIVE_S:
                    os.fdatasync(log.fileno())
                    lines.write(b"%d %d\n" % (time.time() * 1000, now))
                    size, noted_at = now, time.monotonic()


def offset_at(times: Path, moment: float) -> int:
    """Return the log's size in bytes at ``moment`` (Unix time), at most about one second's growth too small.

    Raises OSError when no times were recorded.
    """
    offset = 0
    with files.opened(times) as lines:
        for _, line in files.lines(lines, _LONGEST):
            fields = line.split()
            # A line truncated by a full disk continues with the next one: it has three fields, or a time in the future.
            if len(fields) == 2 and all(map(bytes.isdigit, fields)) and int(fields[0]) <= moment * 1000:
                offset = int(fields[1])
    return offset
