"""An end for work that is computed for too long."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def cpu_seconds(most: float) -> Iterator[None]:
    """Raise TimeoutError in the code within after so much CPU time: other work on the machine does not count."""

    def hangs(*_: object) -> None:
        raise TimeoutError(f"no answer within {most} s of CPU time")

    earlier = signal.signal(signal.SIGPROF, hangs)
    signal.setitimer(signal.ITIMER_PROF, most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, earlier)
