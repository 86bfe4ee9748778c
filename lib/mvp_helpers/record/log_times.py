"""When the driver log grew: ``logs/driver.times``, one line ``<Unix milliseconds> <bytes of driver.log>`` about once a second.

The log itself has no times. The clock is that of the driver's host. A line is also written every few seconds while nothing is
logged: the file grows as long as the job runner lives.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from threading import Event
from typing import IO

EVERY_S = 0.5
ALIVE_S = 10.0


def keep(times: Path, log: IO[bytes], ended: Event) -> None:
    """Write ``times`` beside the growing ``log`` until ``ended``, and make the log's bytes visible to other hosts as it grows.

    A full or lost disk costs lines, nothing else.
    """
    size, noted_at, over = -1, 0.0, False
    with contextlib.suppress(OSError), times.open("ab", buffering=0) as lines:
        while not over:
            over = ended.wait(EVERY_S if size >= 0 else 0)
            with contextlib.suppress(OSError):
                # The size before the time: what was logged after a line's time always lies behind its size.
                now = os.fstat(log.fileno()).st_size
                if now != size or time.monotonic() - noted_at >= ALIVE_S:
                    os.fdatasync(log.fileno())
                    lines.write(b"%d %d\n" % (time.time() * 1000, now))
                    size, noted_at = now, time.monotonic()


def offset_at(times: Path, moment: float) -> int:
    """A size in bytes that the log had at ``moment`` (Unix time), at most about a second's growth too small.

    Raises OSError when there are no times.
    """
    offset = 0
    with times.open("rb") as lines:
        for line in lines:
            fields = line.split()
            # A line cut short by a full disk runs into the next one: three fields, or a time far off.
            if len(fields) == 2 and all(map(bytes.isdigit, fields)) and int(fields[0]) <= moment * 1000:
                offset = int(fields[1])
    return offset
