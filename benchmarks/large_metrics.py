"""Peak memory and time of the scripts that read a metrics file of 1 GB: 50, 54 and 56. Needs no cluster, and as much disk.

usage: .venv/bin/python benchmarks/large_metrics.py [GB]
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).parents[1]
sys.path[:0] = [str(PROJECT / "lib"), str(PROJECT / "tests" / "unit")]

import msgspec  # noqa: E402
from truthful_job import good_job  # noqa: E402

from mvp_helpers.base.paths import SharedRoot  # noqa: E402
from mvp_helpers.cluster import cluster_file  # noqa: E402
from mvp_helpers.gates import gates  # noqa: E402

METRICS = 100
VERBS = {
    "50": ["status", "--limit", "1"],
    "54": ["verify", "big"],
    "54 --gates": ["verify", "big", "--gates"],
    "56": ["report", "big"],
}


def fill(path: Path, size: int) -> int:
    """Write steps of random values with all digits, up to ``size`` bytes; return how many."""
    noise, step = random.Random(0), 0
    named = sorted(name for name in gates.load("ppo").metrics if not name.startswith(gates.OF_JOB))
    names = [*named, *(f"some/metric/{at}" for at in range(METRICS - len(named)))]
    with path.open("w") as stream:
        while stream.tell() < size:
            lines = []
            for _ in range(1000):
                step += 1
                lines.append(json.dumps({"step": step, "data": {name: noise.random() for name in names}}) + "\n")
            stream.writelines(lines)
    return step


def main() -> None:
    size = int(float(sys.argv[1] if len(sys.argv) > 1 else 1) * 1e9)
    with tempfile.TemporaryDirectory(dir=PROJECT) as root:
        (Path(root) / "jobs").mkdir()
        folder = good_job(SharedRoot(Path(root)), "big")
        steps = fill(folder.metrics, size)
        local = msgspec.structs.replace(cluster_file.load("local"), shared_root=root, state_dir=f"{root}/state")
        env = {**os.environ, "MVP_CLUSTER_JSON": local.to_json(), "PYTHONPATH": str(PROJECT / "lib")}
        print(f"{folder.metrics.stat().st_size / 1e9:.2f} GB, {steps} steps x {METRICS} metrics")
        for script, argv in VERBS.items():
            began = time.monotonic()
            with open(os.devnull, "w") as nothing:
                process = subprocess.Popen([sys.executable, "-m", "mvp_helpers", *argv], env=env, stdout=nothing, stderr=nothing)
                _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds, cpu = time.monotonic() - began, used.ru_utime + used.ru_stime
            print(f"{script}: {used.ru_maxrss / 1024:.0f} MB, {seconds:.1f} s, {cpu:.1f} s CPU, exit code {process.returncode}")


if __name__ == "__main__":
    main()
