"""CPU seconds and size of the page of a run of 10,000 steps x 100 metrics, and of the comparison of two. Needs no cluster.

usage: .venv/bin/python benchmarks/report_page.py
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).parents[1]
sys.path[:0] = [str(PROJECT / "lib"), str(PROJECT / "tests" / "unit")]

from truthful_job import good_job, seals_of  # noqa: E402

from mvp_helpers.base.paths import JobFolder, SharedRoot  # noqa: E402
from mvp_helpers.proof.evidence import Job  # noqa: E402
from mvp_helpers.record import job_folder  # noqa: E402
from mvp_helpers.report import comparison, facts, page  # noqa: E402

STEPS, METRICS = 10_000, 100


def fill(folder: JobFolder, seed: int) -> None:
    """Write metrics of random values with all digits."""
    noise = random.Random(seed)
    with folder.metrics.open("w") as stream:
        for step in range(1, STEPS + 1):
            stream.write(json.dumps({"step": step, "data": {f"metric/{at}": noise.random() for at in range(METRICS)}}) + "\n")


def main() -> None:
    with tempfile.TemporaryDirectory(dir=PROJECT) as root:
        (Path(root) / "jobs").mkdir()
        folders = [good_job(SharedRoot(Path(root)), name) for name in ("a", "b")]
        for seed, folder in enumerate(folders):
            fill(folder, seed)
        for count, limit in ((1, 2.0), (2, 4.0)):
            began = time.process_time()
            runs = [facts.load(Job(folder, job_folder.read(folder), seals_of(folder))) for folder in folders[:count]]
            more = [("comparison", "Comparison", comparison.section(comparison.compare(*runs)))] if count == 2 else []
            size = len(page.of_jobs(runs, more=more).encode())
            seconds = time.process_time() - began
            over = "" if seconds < limit else ", OVER"
            print(
                f"{count} x {STEPS} steps x {METRICS} metrics: {seconds:.2f} s CPU (limit {limit:g}){over}, {size / 1e6:.2f} MB"
            )


if __name__ == "__main__":
    main()
