"""What starting each verb of the helper costs, beside another version of it; for bench_verbs.sh.

usage: [INSTRUCTIONS=1] verbs.py LIB_NOW LIB_THEN ROUNDS [VERB...]

For every verb two starts: ``--help``, and a run up to the first thing that it needs and does not get here (a cluster, a log).
Both versions take turns. CPU time is that of the process, user and system, in milliseconds; the lowest of its rounds counts,
because other work on the machine only adds to it. With INSTRUCTIONS=1 valgrind counts the instructions, which are the same under
any load, and the CPU time of a bare Python on this machine turns them into milliseconds.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

LIMIT_MS = 20.0
BARE = ["-c", "pass"]
BARE_ROUNDS = 30
ARGUMENTS = {
    "cluster": ["no-such-cluster"],
    "tool-files": [],
    "start-node": ["head"],
    "stop-node": ["head"],
    "watchdog": ["head"],
    "host-facts": ["head", "--canary", "x"],
    "all-reduce": ["worker-0"],
    "submit": ["--spec-name", "x.json"],
    "pack-spec": ["--spec-name", "x.json"],
    "run-job": ["/nonexistent"],
    "logs": ["x"],
    "stop": ["x"],
    "stop-here": ["head", "x"],
    "end-leftovers": ["head", "x"],
    "verify": ["x"],
    "verify-versions": ["x", "y"],
    "debug-bundle": ["x"],
    "host-report": ["head", "x", "/nonexistent"],
    "pack-bundle": ["x", "/nonexistent"],
    "explain": ["x"],
    "triage": ["/nonexistent"],
    "trend": ["x"],
}
"""Arguments without which a verb would stop before its imports."""


def run(argv: list[str], lib: str) -> tuple[str, float]:
    """Return the stderr of a command and its CPU time in milliseconds."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MVP_", "RAY_", "PYTHON"))}
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            argv, env=environment | {"PYTHONPATH": lib}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return errors.read(), (used.ru_utime + used.ru_stime) * 1000


def cpu_ms(argv: list[str], lib: str) -> float:
    """Return the CPU time of one start of Python."""
    return run([sys.executable, *argv], lib)[1]


def instructions(argv: list[str], lib: str) -> float:
    """Return the number of instructions of one start of Python, without its child processes. Needs valgrind."""
    counter = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    errors, _ = run([*counter, sys.executable, *argv], lib)
    counted = re.findall(r"I +refs: +([\d,]+)", errors)
    return float(counted[-1].replace(",", ""))


def main(now: str, then: str, rounds: int, chosen: Sequence[str]) -> int:
    """Print a line for each verb; the exit code is 1 when one starts more than LIMIT_MS later than it did."""
    sys.path.insert(0, now)
    from mvp_helpers.verbs.group import MODULES

    starts = []
    for verb in chosen or sorted(verb for verbs in MODULES.values() for verb in verbs):
        starts += [(verb, "--help", [verb, "--help"]), (verb, "start", [verb, *ARGUMENTS.get(verb, [])])]
    cost, per_ms = cpu_ms, 1.0
    if os.environ.get("INSTRUCTIONS"):
        cost, rounds = instructions, 1
        per_ms = instructions(BARE, now) / min(cpu_ms(BARE, now) for _ in range(BARE_ROUNDS))
    for _, _, argv in starts:  # writes byte code
        for lib in (then, now):
            cpu_ms(["-m", "mvp_helpers", *argv], lib)
    lowest: dict[tuple[str, str, str], float] = {}
    for _ in range(rounds):
        for verb, kind, argv in starts:
            for lib in (then, now):
                key = (verb, kind, lib)
                lowest[key] = min(lowest.get(key, float("inf")), cost(["-m", "mvp_helpers", *argv], lib) / per_ms)
    worst = 0.0
    print(f"{'verb':16} {'--help then':>12} {'now':>6} {'more':>6}   {'start then':>10} {'now':>6} {'more':>6}   ms of CPU")
    for verb in sorted({verb for verb, _, _ in starts}):
        row = []
        for kind in ("--help", "start"):
            before, after = lowest[verb, kind, then], lowest[verb, kind, now]
            worst = max(worst, after - before)
            row += [before, after, after - before]
        print("{:16} {:12.0f} {:6.0f} {:+6.0f}   {:10.0f} {:6.0f} {:+6.0f}".format(verb, *row))
    print(f"most: {worst:+.0f} ms (limit {LIMIT_MS:.0f}): {'within' if worst <= LIMIT_MS else 'OVER'}")
    return 0 if worst <= LIMIT_MS else 1


if __name__ == "__main__":
    raise SystemExit(main(str(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
