"""The process that masks a Ray worker's output (see ``descriptors.py``): ``python3 -I -S masker.py``, with JSON on stdin.

It ends when nobody can write any more: not with the worker, whose children may go on, and not by a signal that is for them.
"""

import contextlib
import json
import os
import signal
import sys
import threading
from pathlib import Path


def copy(values: list[str], source: int, target: int) -> None:
    """Copy ``source`` to ``target``, masked. A full disk loses lines: the worker must not wait."""
    from mvp_helpers.base.files import write_all
    from mvp_helpers.base.mask import Mask

    for chunk in Mask(values).stream(iter(lambda: os.read(source, 1 << 16), b"")):
        with contextlib.suppress(OSError):
            write_all(target, chunk)


def main() -> None:
    """Leave the worker's children, which Ray ends with it; then copy until every stream has ended."""
    asked = json.load(sys.stdin)
    sys.path.insert(0, str(Path(__file__).absolute().parents[2]))
    import mvp_helpers.base.files
    import mvp_helpers.base.mask  # noqa: F401  here, so that the worker knows when it cannot be imported

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.fork():
        os._exit(0)
    threads = [threading.Thread(target=copy, args=(asked["values"], *ends)) for ends in asked["streams"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
