"""What gates read: of runs that a test makes up, and folders of jobs with everything that the gates of PPO read."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
from truthful_job import change_result, good_job, write_metrics

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.record.wall_time import WallTime

Data = dict[str, dict[int, float]]
STEPS = 20


def run(seed: int) -> Data:
    """The metrics of one of several equal runs: a little noise, and more of it where a machine is measured."""
    noise = random.Random(seed)
    shapes: dict[str, Callable[[int], float]] = {
        "critic/score/mean": lambda step: 0.02 * step + noise.gauss(0, 0.01),
        "actor/grad_norm": lambda step: 1 + noise.random() / 10,
        "actor/pg_loss": lambda step: noise.gauss(0, 0.01),
        "critic/vf_loss": lambda step: 1 / step + noise.random() / 100,
        "train/loss": lambda step: 5 - step / 10 + noise.gauss(0, 0.01),
        "train/grad_norm": lambda step: 1 + noise.random() / 10,
        "train/global_tokens": lambda step: 500 + noise.random(),
        "perf/max_memory_allocated_gb": lambda step: 0.5,
        "perf/time_per_step": lambda step: 0.8 + noise.random() / 10,
        "perf/throughput": lambda step: 900 + noise.random() * 50,
        "actor/perf/max_memory_allocated_gb": lambda step: 0.5,
    }
    data = {name: {step: shape(step) for step in range(1, STEPS + 1)} for name, shape in shapes.items()}
    return {**data, "job/start_up_s": {1: 20 + noise.random()}, "job/step_s": {1: 0.2}}


def run_of(shared: SharedRoot, name: str, reward: float = 0.02, state: str = "SUCCEEDED") -> JobFolder:
    """A job with every metric that the gates of PPO read."""
    folder = good_job(shared, name)
    fixed = {"actor/grad_norm": 1.0, "actor/pg_loss": 0.1, "critic/vf_loss": 0.2, "perf/throughput": 900.0}
    measured = {"perf/time_per_step": 0.8, "actor/perf/max_memory_allocated_gb": 0.5}
    write_metrics(folder, [{"critic/score/mean": reward * step, **fixed, **measured} for step in range(1, 26)])
    account = {"until": "2026-01-31T10:15:00Z", "total_s": 90.0, "seconds": {"precheck": 9.0, "start_up": 11.0}, "percent": {}}
    change_result(folder, wall_time=msgspec.convert(account, WallTime), state=state)
    return folder
