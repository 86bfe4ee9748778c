"""Measure 55_explain.sh and 62_e2e_triage.sh on a generated log (see ../bench_explain.sh)."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "lib"))

from mvp_helpers.diagnosis import signatures  # noqa: E402
from mvp_helpers.diagnosis.scan import Scan  # noqa: E402

LIMIT_RATIO, LIMIT_MB_S, LIMIT_MB = 3, 50, 150
END = """(TaskRunnerV1 pid=12, ip=10.0.0.1) Traceback (most recent call last):
(TaskRunnerV1 pid=12, ip=10.0.0.1)   File "/private/user/code/reward.py", line 7, in compute_score
(TaskRunnerV1 pid=12, ip=10.0.0.1)     return 1 / len(answer)
(TaskRunnerV1 pid=12, ip=10.0.0.1) ZeroDivisionError: division by zero
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
"""


def metrics(rng: random.Random, step: int, count: int) -> str:
    """Return verl's line of metrics for a step, with ``count`` metrics besides loss, gradient norm and reward."""
    names = [f"timing_s/part_{at}" if at % 3 else f"actor/metric_{at}" for at in range(count)]
    values = " - ".join(
        f"{name}:{rng.random():.9f}" for name in ("actor/pg_loss", "actor/grad_norm", "critic/score/mean", *names)
    )
    return f"(TaskRunnerV1 pid=12, ip=10.0.0.1) step:{step} - {values} - training/global_step:{step}"


def filler(rng: random.Random, number: int) -> str:
    """Return another line, as vLLM, Ray and verl print them: information, bars, text, rarely a retry or all lines of a sample."""
    kind, source = rng.random(), f"(WorkerDict pid={rng.randint(1000, 9999)}, ip=10.0.0.{number % 9})"
    if kind < 0.001:
        return f"{source} WARNING 11-20 10:00:00 [client.py:9] request failed: ConnectionError, trying again"
    if kind < 0.0015:
        sample = f"[prompt] user\nHow many clips?\n[response] {number} friends,\nso the answer is\n[ground_truth] 7\n[score] 0.0"
        return "\n".join(f"(TaskRunnerV1 pid=12, ip=10.0.0.1) {line}" for line in sample.split("\n"))
    if kind < 0.6:
        return f"{source} INFO 11-20 10:00:{number % 60:02} [gpu_worker.py:{number % 300}] Profiling takes {kind:.3f} s"
    if kind < 0.75:
        return f"{source} Processed prompts: {number % 100:3}%|####      | {number % 100}/100 [00:07<00:08,  6.{number % 9}3it/s]"
    return f"Natalia sold clips to {number} of her friends in April, and then she sold half as many in May: {number} in all"


def write(path: Path, size: float, dense: bool) -> None:
    """Write a log of ``size`` bytes whose steps ascend: a line of metrics every 1500 others, or every two if ``dense``."""
    rng, step = random.Random(1), 0
    texts = [filler(rng, number) for number in range(20_000)]
    every, count = (2, 6) if dense else (1500, 60)
    with path.open("wb") as log:
        log.write(b"Reading the settings of 2 hosts\n")  # a line of its own, as real logs begin
        while log.tell() < size:
            lines = rng.sample(texts, len(texts))
            for at in range(every, len(lines) + 1, every):
                step += 1
                lines[at - 1] += "\n" + metrics(rng, step, count)
            log.write("\n".join([*lines, ""]).encode())
        log.write(END.encode())


def timed(argv: list[str]) -> tuple[bytes, float, float]:
    """Return output, wall seconds and CPU seconds of a command, which may exit with 1 (62 on a log that failed)."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(argv, check=False, capture_output=True, env=os.environ | {"PYTHONPATH": str(PROJECT / "lib")})
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr.decode())
    return done.stdout, wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    assert os.environ["STEPS"] in ("real", "dense"), os.environ["STEPS"]
    verbs = {"55": ["explain", "--log", "--json"], "62": ["triage", "--json"]}
    program = "rg" if shutil.which("rg") else "grep"
    words = [each for word in Scan(signatures.load(), "").words() for each in ("-e", word.decode())]
    # The output is a pipe: grep stops at the first match when it writes to /dev/null.
    search = f"{program} -c"
    tools = {"wc -l": ["wc", "-l"], search: ["env", "LC_ALL=C", program, "-c", "-a", "-F", *words]}
    walls: dict[str, list[float]] = {name: [] for name in [*verbs, *tools]}
    cpus: dict[str, list[float]] = {name: [] for name in walls}
    memory = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.log"
        write(path, int(os.environ["MEGABYTES"]) * 1e6, os.environ["STEPS"] == "dense")
        size = path.stat().st_size / 1e6
        for _ in range(int(os.environ["ROUNDS"])):
            for name in walls:
                if name not in verbs and not memory:  # before the tools run: rg maps the whole file
                    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
                argv = [sys.executable, "-m", "mvp_helpers", *verbs[name]] if name in verbs else tools[name]
                answer, wall, cpu = timed([*argv, str(path)])
                assert name not in verbs or json.loads(answer)["rule"] == "user-code", answer
                walls[name].append(wall)
                cpus[name].append(cpu)
    for name in verbs:
        wall, cpu = (statistics.median(seconds[name]) / statistics.median(seconds[search]) for seconds in (walls, cpus))
        over = "" if min(wall, cpu) <= LIMIT_RATIO else f"  OVER the limit of {LIMIT_RATIO}"
        print(f"{name:<7} / {search}: {wall:4.1f} of wall, {cpu:4.1f} of CPU time{over}")
    for name in walls:
        wall, cpu = (size / statistics.median(seconds[name]) for seconds in (walls, cpus))
        good = name not in verbs or min(wall, cpu) >= LIMIT_MB_S
        print(f"{name:<7} {wall:6.0f} MB/s of wall, {cpu:6.0f} of CPU time{'' if good else f'  OVER the limit of {LIMIT_MB_S}'}")
    print(f"memory {memory:.0f} MB (limit {LIMIT_MB}): {'within' if memory < LIMIT_MB else 'OVER'}")


if __name__ == "__main__":
    main()
