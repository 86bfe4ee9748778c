"""The pass criteria of a learning signal, beside those of every run, and what makes a baseline comparable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.verdict import Check, Verdict
from ...learning import learning_signal
from ...learning.learning_signal import Signal
from ...trainers.metric_names import MetricNames
from ...trainers.trainer import Metrics
from ..requests.description import FEWEST_STEPS
from ..requests.request import baseline_problem
from .criteria import Facts

MOST_ZEROS = 0.1
"""The share of steps whose gradient may be zero, when no two of them follow each other."""


CHECKPOINTS = re.compile(r"(?<=/checkpoints)/level-[\w-]+")
"""Where a run of this procedure saves: its own folder."""


@dataclass(frozen=True)
class Baseline:
    """What a run is compared with. ``config`` is None where only a file of metrics is known."""

    metrics: Metrics
    config: Mapping[str, Any] | None = None


def judge(facts: Facts, baseline: Baseline | None, cap: float | None) -> tuple[list[Check], Signal]:
    """Return the criteria, and the signal with its numbers. ``cap``: the longest response (tokens)."""
    steps, names, wanted = facts.metrics, facts.names, facts.one.steps
    trainable = min((count for count, _ in facts.seen.adapters or facts.seen.percentages), default=None)
    peft = bool(facts.trainer.adapter_models(facts.config))
    signal = learning_signal.judge(steps, names, wanted, trainable, peft=peft, cap=cap)
    checks = [
        _check("enough steps to see a trend", _few(wanted), f"{wanted[1] - wanted[0] + 1} steps"),
        _check("gradients are not zero", zero_gradients(steps, names), "each gradient is above zero in enough steps"),
        _check("a learning signal", signal.wrong[0] if signal.wrong else "", signal.reason()),
    ]
    if baseline:
        problem = baseline_problem(baseline.metrics, names, wanted) or differing(facts.config, baseline.config)
        checks.append(_check("the baseline is healthy and comparable", problem, "same steps", "Blocked"))
        compared = learning_signal.judge(steps, names, wanted, trainable, peft=peft, baseline=baseline.metrics, cap=cap)
        below = next((text for text in compared.wrong if text not in signal.wrong), "")
        checks.append(_check("not below the baseline", below, "no metric is lower"))
        signal.sentences = compared.sentences
        if baseline.config is None:
            signal.notes.append("the baseline is a file, which does not state its model, data and seed")
    if not any(re.search(names.logprobs, name) for data in steps.values() for name in data):
        signal.notes.append("no log-probabilities were logged: whether the policy that generates changes is not shown by them")
    return checks, signal


def _check(name: str, problem: str, reason: str, otherwise: Verdict = "Fail") -> Check:
    return Check(name, otherwise if problem else "Pass", problem or reason)


def _few(wanted: Sequence[int]) -> str:
    count = wanted[1] - wanted[0] + 1
    return f"{count} steps show no trend: at least {FEWEST_STEPS}" if count < FEWEST_STEPS else ""


def zero_gradients(steps: Metrics, names: MetricNames) -> str:
    """Return which gradient is zero in too many steps, wherever these are; "" when none is."""
    trained = [steps[step] for step in sorted(steps) if step > 0]
    for name in sorted({name for data in trained for name in data if re.search(names.gradients, name)}):
        values = [data[name] for data in trained if name in data]
        zeros = sum(value == 0 for value in values)
        if zeros >= 2 and zeros > MOST_ZEROS * len(values):
            return f"{name} is zero in {zeros} of {len(values)} steps"
    return ""


def differing(own: Mapping[str, Any], other: Mapping[str, Any] | None) -> str:
    """Return the first setting in which the baseline's config differs, beside its code and its output; "" when none does."""
    if other is None:
        return ""
    ours, theirs = dict(_leaves(own)), dict(_leaves(other))
    for key in sorted({*ours, *theirs}):
        left, right = (CHECKPOINTS.sub("", str(side.get(key))) for side in (ours, theirs))
        if left != right and not key.endswith("PYTHONPATH"):
            return f"its config has {key}={right}, this run's {left}"
    return ""


def _leaves(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
