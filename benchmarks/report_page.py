"""CPU seconds, size and time until interactive of the page of a run of 10,000 steps x 100 metrics, and of the comparison of two.

Interactive: its script has drawn everything and the browser has loaded it; milliseconds since the navigation began, in headless
Chromium; then how long a switch to the log scale takes, which draws every chart anew. Needs no cluster.

usage: .venv/bin/python benchmarks/report_page.py
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).parents[1]
sys.path[:0] = [str(PROJECT / "lib"), str(PROJECT / "tests" / "unit")]

from browser import Browser, program  # noqa: E402
from truthful_job import good_job, seals_of  # noqa: E402

from mvp_helpers.base.paths import JobFolder, SharedRoot  # noqa: E402
from mvp_helpers.proof.evidence import Job  # noqa: E402
from mvp_helpers.record import job_folder  # noqa: E402
from mvp_helpers.report import comparison, facts, page  # noqa: E402

STEPS, METRICS = 10_000, 100
CPU_LIMITS = {1: 2.0, 2: 4.0}
INTERACTIVE_MS = 500
LOADS = 7
REDRAW = """(() => {
  const began = performance.now();
  document.getElementById("log").click();
  document.body.offsetHeight;
  return performance.now() - began;
})()"""


def fill(folder: JobFolder, seed: int) -> None:
    """Write metrics of random values with all digits; some have the names of those that get a chart."""
    noise = random.Random(seed)
    names = ["critic/score/mean", "actor/pg_loss", "actor/ppo_kl", "actor/entropy", "actor/grad_norm", "response_length/mean"]
    names += ["perf/throughput", "perf/time_per_step", *(f"metric/{at}" for at in range(METRICS - 8))]
    with folder.metrics.open("w") as stream:
        for step in range(1, STEPS + 1):
            stream.write(json.dumps({"step": step, "data": {name: noise.random() for name in names}}) + "\n")


def show(page_file: Path, home: Path) -> None:
    """Print when the page can be used, the median of some loads."""
    with Browser(home) as browser:
        ready, redrawn = [], []
        for _ in range(LOADS):
            browser.open(page_file, 1440)
            loaded = browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
            ready.append(max(float(browser.run("document.documentElement.dataset.ready")), loaded))
            redrawn.append(browser.run(REDRAW))
    over = "" if statistics.median(ready) < INTERACTIVE_MS else ", OVER"
    worst = f"slowest of {LOADS} loads {max(ready):.0f} ms"
    print(f"  interactive after {statistics.median(ready):.0f} ms (limit {INTERACTIVE_MS}){over}, {worst}", end="; ")
    print(f"all charts drawn anew in {statistics.median(redrawn):.0f} ms")


def main() -> None:
    with tempfile.TemporaryDirectory(dir=PROJECT) as root:
        (Path(root) / "jobs").mkdir()
        folders = [good_job(SharedRoot(Path(root)), name) for name in ("a", "b")]
        for seed, folder in enumerate(folders):
            fill(folder, seed)
        for count, limit in CPU_LIMITS.items():
            began = time.process_time()
            jobs = [Job(folder, job_folder.read(folder), seals_of(folder)) for folder in folders[:count]]
            runs = [facts.load(job, judged.checks) for job, judged in zip(jobs, facts.judge(jobs), strict=True)]
            compared = comparison.compare(*runs) if count == 2 else None
            text = page.of_jobs(runs, compared=compared)
            seconds = time.process_time() - began
            over = "" if seconds < limit else ", OVER"
            size = len(text.encode()) / 1e6
            print(f"{count} x {STEPS} steps x {METRICS} metrics: {seconds:.2f} s CPU (limit {limit:g}){over}, {size:.2f} MB")
            if program():
                (made := Path(root) / f"{count}.html").write_text(text)
                show(made, Path(root) / f"browser-{count}")


if __name__ == "__main__":
    main()
