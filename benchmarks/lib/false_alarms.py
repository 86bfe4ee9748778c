"""How often the gates of a workload fail for equal runs, from their job folders: each is judged against baselines of others.

usage: false_alarms.py [--write FILE] WORKLOAD JOB_FOLDER...

Two rates for each gate: against the baseline of all other runs, and against those of every three of them, the fewest that a
baseline is recorded from. The speed of every run counts, also where 54 would not judge it because other work took the cores.
--write keeps what the gates read of the runs, for the tests.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mvp_helpers.base.paths import JobFolder
from mvp_helpers.gates import baseline, gates, judging, of_job
from mvp_helpers.gates.gates import Gates
from mvp_helpers.plan import plan
from mvp_helpers.record import job_folder

Run = dict[str, dict[int, float]]
DIGITS = 7


def alarms(found: Gates, runs: Sequence[Run], size: int) -> tuple[Counter[str], int]:
    """Return how often each gate failed, of how many verdicts: every run against each baseline of ``size`` others."""
    failed: Counter[str] = Counter()
    count = 0
    values = [gates.values(found, run) for run in runs]
    for own, run in enumerate(runs):
        others = [each for at, each in enumerate(values) if at != own]
        for chosen in itertools.combinations(others, size):
            by_gate = {name: [each[name] for each in chosen] for name in chosen[0]}
            recorded = baseline.make("others", found.workload, ["id"] * size, {}, {}, by_gate)
            checks = gates.judge(found, run, recorded, {}, any_hardware=True)
            failed.update(check.name for check in checks if not check.met)
            count += 1
    return failed, count


def read(found: Gates, folder: JobFolder) -> Run:
    """Return what the gates read of one job."""
    data = of_job.data(folder, job_folder.read(folder), found.metrics)
    return {name: {step: float(f"{value:.{DIGITS}g}") for step, value in data[name].items()} for name in sorted(found.metrics)}


def main(workload: str, folders: Sequence[JobFolder], kept: Path | None) -> None:
    found = gates.load(workload)
    runs = [read(found, folder) for folder in folders]
    if kept:
        plain = [{name: list(series.values()) for name, series in run.items()} for run in runs]
        lines = (json.dumps(run, separators=(",", ":")) for run in plain)
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    most = len(runs) - 1
    if most < baseline.FEWEST:
        print(f"{workload}: {len(runs)} runs are too few for a rate of false alarms, which needs {baseline.FEWEST + 1}")
        return
    rates = [alarms(found, runs, size) for size in (most, baseline.FEWEST)]
    print(f"{workload}: false alarms of {len(runs)} equal runs")
    print(f"{'gate':16} {'against all others':>24} {'against every 3 others':>24}")
    for name in found.gates:
        print(f"{name:16}" + "".join(f" {f'{failed[gates.title(name)]} of {count}':>24}" for failed, count in rates))
    shares = [share for each in folders if (share := of_job.other_work(each, plan.read(each))) is not None]
    if shares:
        over = sum(share > judging.MOST_OTHER_WORK for share in shares)
        print(
            f"other work took {min(shares):.0%} to {max(shares):.0%} of the cores; in {over} runs too much for a verdict on speed"
        )


if __name__ == "__main__":
    arguments = sys.argv[1:]
    write = Path(arguments[1]) if arguments[0] == "--write" else None
    arguments = arguments[2:] if write else arguments
    main(arguments[0], [JobFolder(Path(each)) for each in arguments[1:]], write)
