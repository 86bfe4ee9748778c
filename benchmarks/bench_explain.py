#!/usr/bin/env python3
"""Speed and memory of 55_explain.sh on a large log that it makes itself: many steps, and a traceback at the end.

usage: python3 benchmarks/bench_explain.py [MEGABYTES]     (default 1000; limits: 50 MB/s, 150 MB of memory)
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
LIMIT_MB_S, LIMIT_MB = 50, 150
END = """(TaskRunnerV1 pid=12, ip=10.0.0.1) Traceback (most recent call last):
(TaskRunnerV1 pid=12, ip=10.0.0.1)   File "/private/user/code/reward.py", line 7, in compute_score
(TaskRunnerV1 pid=12, ip=10.0.0.1)     return 1 / len(answer)
(TaskRunnerV1 pid=12, ip=10.0.0.1) ZeroDivisionError: division by zero
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
"""


def piece(rng: random.Random, first_step: int) -> str:
    """About 3 MB: what vLLM and verl print, a line of metrics for each step, samples of text, now and then a retry."""
    lines = []
    for number in range(20_000):
        kind, source = rng.random(), f"(WorkerDict pid={rng.randint(1000, 9999)}, ip=10.0.0.{number % 9})"
        if kind < 0.5:
            lines.append(
                f"{source} INFO 11-20 10:00:{number % 60:02} [gpu_worker.py:{number % 300}] Profiling takes {kind:.3f} s"
            )
        elif kind < 0.501:
            lines.append(f"{source} WARNING 11-20 10:00:00 [client.py:9] request failed: ConnectionError, trying again")
        elif kind < 0.8:
            step = first_step + number
            metrics = " - ".join(f"actor/metric_{at}:{rng.random():.9f}" for at in range(6))
            lines.append(f"(TaskRunnerV1 pid=12, ip=10.0.0.1) step:{step} - {metrics} - training/global_step:{step}")
        else:
            lines.append(
                f"[prompt] Natalia sold clips to {number} friends in April and half as many in May. [response] #### {number}"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.log"
        pieces = [piece(rng, 1 + at * 20_000).encode() for at in range(8)]
        with path.open("wb") as log:
            while log.tell() < megabytes * 1e6:
                log.write(pieces[rng.randrange(len(pieces))])
            log.write(END.encode())
        size = path.stat().st_size / 1e6
        argv = [sys.executable, "-m", "mvp_helpers", "explain", "--log", "--json", str(path)]
        began = time.perf_counter()
        done = subprocess.run(argv, check=True, capture_output=True, env=os.environ | {"PYTHONPATH": str(PROJECT / "lib")})
        wall = time.perf_counter() - began
    told = json.loads(done.stdout)
    assert told["rule"] == "user-code", told
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; a log of {size:.0f} MB, as a whole process")
    print(f"wall {wall:6.1f} s  {size / wall:6.0f} MB/s   cpu {cpu:6.1f} s  {size / cpu:6.0f} MB/s   memory {memory:.0f} MB")
    good = size / cpu >= LIMIT_MB_S and memory < LIMIT_MB
    print(f"limits: {LIMIT_MB_S} MB/s of CPU time, {LIMIT_MB} MB: {'within' if good else 'OVER'}")


if __name__ == "__main__":
    main()
