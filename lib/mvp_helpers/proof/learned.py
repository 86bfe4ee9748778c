"""The check of a regression: the job learned what its task is made to teach in so few steps."""

from __future__ import annotations

from collections.abc import Sequence

from ..learning import trend
from .evidence import Job, Skip, need

TASK = "pkg://mvp_verl.digits"
"""The reward function of a CPU cluster's defaults: a share, from 0 to 1."""


def learned(job: Job, _: Sequence[Job]) -> str:
    """The reward rose, or SFT's loss fell: the Mann-Kendall test gives p < 0.01, and the end is better than the start."""
    if not job.trains:
        raise Skip(f"workload '{job.plan.workload}' is not a trainer")
    metrics, file = job.metrics, job.folder.metrics
    rewards, losses = metrics.rewards(), metrics.losses()
    name, values = ("reward", rewards) if rewards else ("loss", losses)
    made_for_it = job.given.get("reward.custom_reward_function.path") == TASK if rewards else job.plan.device == "cpu"
    for step in dict.fromkeys((min(metrics.trained), metrics.last)) if metrics.trained else ():
        job.cite_line(file, metrics.lines[step])
    tested = trend.of(values) if rewards else trend.of([None if value is None else -value for value in values])
    sign = 1 if rewards else -1
    change = f"{name} {sign * tested.first:.3f} → {sign * tested.last:.3f} over {tested.count} steps, p={tested.p:.2g}"
    if not made_for_it:
        raise Skip(f"{change}; only the task of a CPU cluster is made to be learned in so few steps")
    if tested.count < trend.FEWEST:
        raise Skip(f"{change}; too few steps for a verdict, which needs {trend.FEWEST}")
    outside = [value for value in rewards if value is not None and not 0 <= value <= 1]
    need(not outside, f"reward {outside[0] if outside else ''} is outside of 0 to 1, which this task's reward cannot be")
    need(tested.rises, f"{change}: {'no proven rise' if rewards else 'no proven fall'} (needed: p < {trend.ALPHA})")
    return change
