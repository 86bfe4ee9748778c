"""Masks what a Ray worker writes at its file descriptors 1 and 2: whatever writes there, Python, C or a child process.

A process of its own reads and masks (``masker.py``), not a thread: the last words of a worker that crashes are still written, and
a library that prints much while it holds Python's lock does not wait for itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterable

from . import masker

PIPE_BYTES = 1 << 20
"""How much a worker can print before it waits for the masker."""


def mask_output(values: Iterable[str], descriptors: Iterable[int] = (1, 2)) -> None:
    """Put a masker between these descriptors and the files they lead to. Raises OSError or CalledProcessError without one."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    ends = {descriptor: (*os.pipe(), os.dup(descriptor)) for descriptor in descriptors}
    try:
        # Values travel through stdin: everybody can read a command line.
        subprocess.run(
            [sys.executable, "-I", "-S", masker.__file__],
            input=json.dumps({"values": list(values), "streams": [[read, file] for read, _, file in ends.values()]}).encode(),
            pass_fds=[end for read, _, file in ends.values() for end in (read, file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a signal for the worker's group is not for the masker
            check=True,
        )
        for descriptor, (_, write, _) in ends.items():
            with contextlib.suppress(OSError):  # Without it the worker only waits more often.
                fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            os.dup2(write, descriptor)
    finally:
        for end in (end for three in ends.values() for end in three):
            os.close(end)
