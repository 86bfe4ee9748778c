"""The learning signal: do a run's metrics show learning, or missing values, zeros, NaN, or the same value again and again?

Pure over ``{step: {metric: value}}``. "learning-signal passed" is the strongest statement it makes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..base import files
from ..base.documents import as_number
from ..base.errors import BadInput
from ..record import metrics
from ..trainers.metric_names import MetricNames
from . import metric_lines, trend
from .metric_lines import Steps

PASSED = "learning-signal passed"
MOST_BYTES = 1 << 30
FEWEST = 3
"""A series of fewer values is never called constant."""
ALPHA = 0.05
"""The accepted chance of seeing a fall, or a difference to the baseline, where there is none."""


@dataclass
class Signal:
    """The result: ``wrong`` fails it, ``notes`` do not; ``sentences`` state the numbers."""

    verdict: Literal["Pass", "Fail", "Unknown"] = "Unknown"
    wrong: list[str] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    steps: int = 0

    def reason(self) -> str:
        """Return the verdict's reason in one sentence."""
        if self.verdict == "Pass":
            return f"{PASSED} over {self.steps} steps"
        return self.wrong[0] if self.wrong else "no metrics were logged"


def read(path: Path) -> Steps:
    """Return the metrics of a metrics file (.json, .jsonl) or of a console log. Raises BadInput if there are none."""
    return read_jsonl(path) if path.suffix in (".json", ".jsonl") else metric_lines.read(path)


def read_jsonl(path: Path) -> Steps:
    """Return the metrics of a file of records ``{"step": n, "data": {...}}``, or of one object ``{metric: {"1": value}}``.

    Raises:
        BadInput: the file cannot be read, or contains neither.
    """
    try:
        text = files.read(path, MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"cannot read the metrics file {path}: {why}") from None
    by_metric = _by_metric(text)
    steps = by_metric or {}
    for number, line in enumerate(text.splitlines() if by_metric is None else (), 1):
        try:
            step, data = metrics.record(line.encode())
            steps.setdefault(step, {}).update(_numbers(data))
        except (ValueError, OverflowError):
            raise BadInput(
                f"{path}, line {number}: not a metrics record",
                hint='write lines of {"step": 1, "data": {"critic/score/mean": 0.5}}, or one object {"metric": {"1": 0.5}}',
            ) from None
    if not steps:
        raise BadInput(f"{path} contains no metrics")
    return steps


def _by_metric(text: str) -> Steps | None:
    """Return the metrics of one object ``{metric: {"1": value}}``; None if ``text`` is something else."""
    steps: Steps = {}
    try:
        whole = json.loads(text)
        if not isinstance(whole, dict) or "data" in whole:
            return None
        for name, series in whole.items():
            for step, value in series.items():
                steps.setdefault(int(step), {}).update(_numbers({name: value}))
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
        return None
    return steps


def _numbers(data: Mapping[str, Any]) -> dict[str, float]:
    return {str(key): number for key, value in data.items() if (number := as_number(value)) is not None}


def judge(
    steps: Mapping[int, Mapping[str, float]],
    names: MetricNames,
    wanted: Sequence[int] = (),
    trainable: float | None = None,
    peft: bool = False,
    baseline: Mapping[int, Mapping[str, float]] | None = None,
    cap: float | None = None,
) -> Signal:
    """Return the signal in ``steps``. ``wanted``: the required first and last step; ``cap``: the longest response (tokens)."""
    trained = {step: steps[step] for step in sorted(steps) if step > 0}
    signal = Signal(steps=len(trained))
    logged = sorted({name for data in steps.values() for name in data})
    if not trained or not logged:
        signal.verdict, signal.wrong = ("Fail", ["no metrics were logged for any step"]) if wanted else ("Unknown", [])
        return signal
    signal.wrong += not_finite(steps, names)
    if wanted and (missing := [step for step in range(wanted[0], wanted[1] + 1) if step not in steps]):
        signal.wrong.append(f"no metrics for step {_few(missing)}")
    if peft and trainable is not None and trainable <= 0:
        signal.wrong.append("no parameter is trainable although PEFT is on")
    elif peft and trainable is None:
        signal.notes.append("the log does not show how many parameters are trainable")
    for name in logged:
        values = [data[name] for data in trained.values() if name in data and math.isfinite(data[name])]
        if problem := _zeros(name, values, names) or _constant(name, values, names, cap):
            signal.wrong.append(problem)
    _movement(signal, steps, names, baseline)
    signal.verdict = "Fail" if signal.wrong else "Pass"
    return signal


def not_finite(steps: Mapping[int, Mapping[str, float]], names: MetricNames) -> list[str]:
    """Return a sentence for each metric of training that is NaN or infinite at some step."""
    first: dict[str, tuple[int, float]] = {}
    for step in sorted(steps):
        for name, value in steps[step].items():
            if not math.isfinite(value) and re.search(names.finite, name):
                first.setdefault(name, (step, value))
    return [f"{name} is {value} at step {step}" for name, (step, value) in first.items()]


def _zeros(name: str, values: Sequence[float], names: MetricNames) -> str:
    """Return the problem of a gradient that is zero for several steps in a row; "" without one."""
    if not re.search(names.gradients, name):
        return ""
    longest = run = 0
    for value in values:
        run = run + 1 if value == 0 else 0
        longest = max(longest, run)
    return f"{name} is zero {longest} steps in a row: nothing is updated" if longest >= 2 else ""


def _constant(name: str, values: Sequence[float], names: MetricNames, cap: float | None) -> str:
    """Return the problem of a series that never changes, or of responses at their cap; "" without one."""
    if len(values) < FEWEST:
        return ""
    if re.search(names.lengths, name) and cap and sum(value >= cap for value in values) * 2 > len(values):
        return f"{name} is at its cap of {cap:g} in most steps: responses are cut off"
    if len(set(values)) > 1:
        return ""
    for pattern, meaning in (
        (names.logprobs, "the weights that generate do not change"),
        (names.rewards, "a flat reward teaches nothing"),
        (names.values, "the critic's values are flat"),
        (names.lengths, "lengths are saturated"),
    ):
        if re.search(pattern, name):
            return f"{name} is {values[0]:g} in all {len(values)} steps: {meaning}"
    return ""


def _movement(
    signal: Signal,
    steps: Mapping[int, Mapping[str, float]],
    names: MetricNames,
    baseline: Mapping[int, Mapping[str, float]] | None,
) -> None:
    """Compare reward and validation with the start, and with a baseline: one of them must have moved up."""
    logged = {name for data in steps.values() for name in data}
    candidates = [name for pattern in names.trend for name in sorted(logged) if re.search(pattern, name)]
    compared, moved, still = 0, [], []
    for name in dict.fromkeys(candidates):
        values = [steps[step].get(name) for step in sorted(steps)]
        rise = trend.of(values)
        if rise.count < 2:
            continue
        compared += 1
        signal.sentences.append(rise.tell(name))
        fall = trend.of([-value for value in values if value is not None])
        ends = f"{rise.first:.3f} at the start, {rise.last:.3f} at the end"
        if fall.count >= trend.FEWEST and fall.p < ALPHA:
            signal.wrong.append(f"{name} fell: {ends}, one-sided p={fall.p:.2g}")
        elif rise.last > rise.first:
            moved.append("" if rise.rises else f"{name} moved up ({ends}), which can be chance (p={rise.p:.2g})")
        else:
            still.append(f"{name} did not move in the expected direction: {ends} (p={rise.p:.2g})")
        if baseline:
            _compare(signal, name, values, [baseline[step].get(name) for step in sorted(baseline)])
    if not compared:
        signal.wrong.append("neither reward nor validation was logged for two steps, so no trend can be compared")
    elif not baseline and not moved:
        signal.wrong += still
    elif not baseline and all(moved):
        signal.notes += moved


def _compare(signal: Signal, name: str, values: Iterable[float | None], base: Iterable[float | None]) -> None:
    """Compare one metric with the baseline's."""
    own, other = ([value for value in side if value is not None and math.isfinite(value)] for side in (values, base))
    if not own or not other:
        signal.wrong.append(f"{name} cannot be compared: the {'run' if not own else 'baseline'} has no values")
        return
    p = worse(own, other)
    means = (
        f"mean {math.fsum(own) / len(own):.3f} of {len(own)} steps, baseline {math.fsum(other) / len(other):.3f} of {len(other)}"
    )
    signal.sentences.append(f"{name} against the baseline: {means}, Mann-Whitney one-sided p={p:.2g} for being lower")
    if p < ALPHA:
        signal.wrong.append(f"{name} is below the baseline: {means}, p={p:.2g}")


def worse(own: Sequence[float], other: Sequence[float]) -> float:
    """Return the one-sided p of the Mann-Whitney test that ``own`` is lower than ``other`` (normal approximation)."""
    n, m = len(own), len(other)
    u = sum((a > b) + 0.5 * (a == b) for a in own for b in other)
    pooled = [*own, *other]
    ties = sum(t**3 - t for t in (pooled.count(value) for value in set(pooled)))
    variance = n * m / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1)))
    if variance <= 0:
        return 1.0
    z = (u - n * m / 2 + 0.5) / math.sqrt(variance)
    return math.erfc(-z / math.sqrt(2)) / 2


def _few(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (" …" if len(numbers) > 5 else "")
