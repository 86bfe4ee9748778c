"""A shared root full of jobs with checkpoints, and how long script 57 takes to list them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import yaml

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.record.job_folder import Result

sys.path.insert(0, str(PROJECT / "tests" / "unit"))
from saved_checkpoints import save

LIMIT_S = 1.0


def fill(shared: SharedRoot, count: int) -> None:
    """Make ``count`` ended PPO jobs with two whole checkpoints each; every second one resumed from the one before it."""
    for parent in (shared.job_index, shared.active_jobs):
        parent.mkdir(parents=True)
    for at in range(count):
        folder = shared.job(f"job-{at}")
        folder.config.mkdir(parents=True)
        result = Result(submission_id=folder.submission_id, workload="ppo", state="SUCCEEDED", steps_done=20, steps_total=20)
        folder.result.write_bytes(msgspec.json.encode(result))
        origin = {"submission_id": f"job-{at - 1}", "step": 20} if at % 2 else None
        folder.provenance.write_text(json.dumps({"resumed_from": origin, "hosts": [{"name": f"worker-{n}"} for n in range(16)]}))
        for step in (10, 20):
            save(folder.checkpoints, step)


def seconds(argv: list[str]) -> tuple[float, float]:
    """Return the wall and the CPU time of a command, its children included. Raises CalledProcessError."""
    began, before = time.monotonic(), os.times()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - began, cpu


def main(folder: Path, count: int, rounds: int) -> int:
    """Print the medians; return 1 when listing all jobs takes more CPU time than the limit."""
    fill(SharedRoot(folder / "private"), count)
    cluster = yaml.safe_load((PROJECT / "templates" / "ray" / "local.yaml").read_text())
    cluster |= {"shared_root": str(folder / "private"), "state_dir": str(folder / "state")}
    (folder / "cluster.yaml").write_text(yaml.safe_dump(cluster))
    script = [str(PROJECT / "scripts" / "57_checkpoints.sh"), "--cluster", str(folder / "cluster.yaml")]
    worst = 0.0
    for what, argv in ((f"57 --all, {count:,} jobs", ["--all"]), (f"57 ID among {count:,} jobs", ["job-0"])):
        taken = [seconds([*script, *argv]) for _ in range(rounds)]
        wall, cpu = (statistics.median(each) for each in zip(*taken, strict=True))
        worst = max(worst, cpu)
        print(f"{what:<28} {wall:6.2f} s, CPU time {cpu:.2f} s (limit {LIMIT_S} s): {'within' if cpu <= LIMIT_S else 'OVER'}")
    return int(worst > LIMIT_S)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
