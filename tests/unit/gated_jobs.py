"""Folders of jobs with everything that the gates of PPO read."""

from __future__ import annotations

import msgspec
from truthful_job import change_result, good_job, write_metrics

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.record.wall_time import WallTime


def run_of(shared: SharedRoot, name: str, reward: float = 0.02, state: str = "SUCCEEDED") -> JobFolder:
    """A job with every metric that the gates of PPO read."""
    folder = good_job(shared, name)
    fixed = {"actor/grad_norm": 1.0, "actor/pg_loss": 0.1, "critic/vf_loss": 0.2, "perf/throughput": 900.0}
    measured = {"perf/time_per_step": 0.8, "actor/perf/max_memory_allocated_gb": 0.5}
    write_metrics(folder, [{"critic/score/mean": reward * step, **fixed, **measured} for step in range(1, 26)])
    account = {"until": "2026-01-31T10:15:00Z", "total_s": 90.0, "seconds": {"precheck": 9.0, "start_up": 11.0}, "percent": {}}
    change_result(folder, wall_time=msgspec.convert(account, WallTime), state=state)
    return folder
