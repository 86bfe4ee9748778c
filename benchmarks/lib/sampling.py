"""A job that logs and has a secret, and the CPU time of the processes that watch it (see bench_sampling.sh)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster import cluster_file

LIMIT = 0.01
TRAINER = """
import os, ray, time
ray.init(log_to_driver=True)

@ray.remote(num_cpus=0, scheduling_strategy="SPREAD")
class Worker:
    def say(self, text, every_s):
        while True:
            print(text, os.environ["BENCH_SECRET"], flush=True)
            time.sleep(every_s)

step = "step:1 - " + " - ".join(f"actor/metric_{number}:0.123456789" for number in range(130))
ray.get([Worker.remote().say.remote(*each) for each in [(step, STEP_S), *[("a line of a rollout worker", 5)] * 4]])
"""
STEP_S = 0.8
"""Seconds between two lines of metrics of 4 kB: of a step on the CPU default, five to a hundred times as often as on GPUs."""
KINDS = {"run-job": "job runner", "usage.sampler": "sampler", "ray::stream": "its streams", "masking": "masks"}
"""What a command line contains, and what is printed for it."""
HZ = os.sysconf("SC_CLK_TCK")


def watchers(before: set[int]) -> dict[int, tuple[str, float]]:
    """Return kind and CPU seconds of each process that watches the job, by its id, without those that were there ``before``."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in before:
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        for word, kind in KINDS.items():
            if word in command and "/bin/sh" not in command:
                found[int(entry.name)] = kind, (int(fields[11]) + int(fields[12])) / HZ
    return found


def by_kind(seconds: Mapping[int, tuple[str, float]]) -> dict[str, float]:
    """Return the sums by kind."""
    return {kind: sum(each for name, each in seconds.values() if name == kind) for kind in KINDS.values()}


def main(folder: Path, warm_s: float, measured_s: float) -> int:
    """Print the CPU time of each kind; return 1 when all together take more than the limit."""
    (folder / "trainer.py").write_text(TRAINER.replace("STEP_S", str(STEP_S)))
    (folder / "watched.yaml").write_text(f"entry: {{command: [python3, {folder}/trainer.py]}}\n")
    name = f"watched-{os.getpid()}"
    log = SharedRoot(Path(cluster_file.from_environment().shared_root)).job(name).driver_log
    (folder / "job.json").write_text(json.dumps({"workload": "watched", "submission_id": name, "secrets": ["BENCH_SECRET"]}))
    environment = {**os.environ, "MVP_WORKLOADS": str(folder), "BENCH_SECRET": "a-value-that-nobody-sees"}
    before = set(watchers(set()))
    scripts = PROJECT / "scripts"
    subprocess.run(
        [scripts / "43_submit_jobspec.sh", folder / "job.json"], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(warm_s)
        first, began, size = watchers(before), time.monotonic(), log.stat().st_size
        time.sleep(measured_s)
        last, elapsed, logged = watchers(before), time.monotonic() - began, log.read_bytes()[size:]
    finally:
        subprocess.run([scripts / "52_stop.sh", name, "--now"], env=environment, check=False, capture_output=True)
    print(f"the job logged {logged.count(bytes([10])) / elapsed:.1f} lines and {len(logged) / elapsed / 1000:.1f} kB a second")
    start, end = by_kind(first), by_kind(last)
    parts = {kind: (end[kind] - start[kind]) / elapsed for kind in end}
    for kind, part in parts.items():
        count = sum(each == kind for each, _ in last.values())
        print(f"{kind:<12} {count} processes {100 * part:6.3f} % of a core; until then {start[kind]:.2f} s of CPU time")
    total = sum(parts.values())
    print(f"together {100 * total:.3f} % of a core (limit {100 * LIMIT:g} %): {'within' if total <= LIMIT else 'OVER'}")
    return int(total > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
