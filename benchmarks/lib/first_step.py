"""Run a command; print the milliseconds to the first line of a file that its job writes, and to its own end.

usage: first_step.py FILE LOG COMMAND...   (the command's output goes to LOG; its failure is ours)
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

POLL_S = 0.05


def main(metrics: Path, log: Path, argv: list[str]) -> int:
    began, first = time.monotonic(), 0.0
    with log.open("w") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            if not first and metrics.exists() and metrics.stat().st_size:
                first = time.monotonic()
            time.sleep(POLL_S)
    ended = time.monotonic()
    if process.returncode or not first:
        print(f"{argv[0]}: exit code {process.returncode}, {'a' if first else 'no'} step; {log}", file=sys.stderr)
        return 1
    print(round((first - began) * 1000), round((ended - began) * 1000))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
