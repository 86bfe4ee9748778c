"""The pass criteria of a learning signal, beside those of every run, and what makes a baseline comparable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.verdict import Check, Verdict
from ...learning import learning_signal
from ...learning.learning_signal import Signal
from ...trainers.trainer import Metrics, at_key
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
    trainable = min((count for count, _ in facts.seen.trainable), default=None)
    peft = bool(facts.trainer.adapter_models(facts.config))
    signal = learning_signal.judge(steps, names, wanted, trainable, peft=peft, cap=cap)
    checks = [
        _check("enough steps to see a trend", _few(wanted), f"{wanted[1] - wanted[0] + 1} steps"),
        _check("gradients are not zero", zero_gradients(facts), "each gradient is above zero in enough steps"),
        *_constant_losses(facts),
        *_logprobs(facts),
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
    if not _logged(steps, names.logprobs):
        signal.notes.append("no log-probabilities were logged: whether the policy that generates changes is not shown by them")
    return checks, signal


def _check(name: str, problem: str, reason: str, otherwise: Verdict = "Fail") -> Check:
    return Check(name, otherwise if problem else "Pass", problem or reason)


def _few(wanted: Sequence[int]) -> str:
    count = wanted[1] - wanted[0] + 1
    return f"{count} steps show no trend: at least {FEWEST_STEPS}" if count < FEWEST_STEPS else ""


def _logged(steps: Metrics, pattern: str) -> list[str]:
    """Return the names of the metrics of these steps that match."""
    return sorted({name for data in steps.values() for name in data if re.search(pattern, name)})


def zero_gradients(facts: Facts) -> str:
    """Return which gradient is zero or missing in too many steps, wherever these are; "" when none is."""
    trained = {step: data for step, data in facts.metrics.items() if step > 0}
    for model, pattern in facts.trainer.gradients(facts.config).items():
        missing = sum(not _logged({step: data}, pattern) for step, data in trained.items())
        if missing > MOST_ZEROS * len(trained):
            return f"no gradient of the {model} was logged in {missing} of {len(trained)} steps"
    for name in _logged(trained, facts.names.gradients):
        values = [data[name] for data in trained.values() if name in data]
        zeros = sum(value == 0 for value in values)
        if zeros >= 2 and zeros > MOST_ZEROS * len(values):
            return f"{name} is zero in {zeros} of {len(values)} steps"
    return ""


def _constant_losses(facts: Facts) -> list[Check]:
    """A model that is updated has another loss at every step, if only by rounding."""
    wanted, problem = facts.trainer.losses(facts.config), ""
    for model, pattern in wanted.items():
        series = [[data[name] for data in facts.metrics.values() if name in data] for name in _logged(facts.metrics, pattern)]
        if series and all(len(set(values)) == 1 for values in series):
            problem = problem or f"the loss of the {model} is {series[0][0]:g} in all {len(series[0])} steps"
    return [_check("losses change", problem, "the loss of every trained model changes")] if wanted else []


def _logprobs(facts: Facts) -> list[Check]:
    """Log-probabilities that the config switches on were logged, so that a policy that never changes is seen."""
    key = facts.names.logprobs_key
    if not key or at_key(facts.config, key) is not True:
        return []
    lost = "" if _logged(facts.metrics, facts.names.logprobs) else f"none was logged although {key}=True"
    return [_check("log-probabilities were logged", lost, f"{key}=True")]


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
