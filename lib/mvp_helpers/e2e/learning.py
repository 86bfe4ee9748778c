"""Step 8, the learning signal: do a run's metrics tell of learning, or of nothing, zeros, NaN, the same value again and again?

Pure over ``{step: {metric: value}}``. "learning-signal passed" is the strongest it ever says.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..base.errors import BadInput
from ..diagnosis import trend
from .description import Learning

Steps = dict[int, dict[str, float]]
PASSED = "learning-signal passed"
FEWEST = 3
"""Steps without which nothing can be called repeated or constant."""
ALPHA = 0.05
"""For telling a fall, and a difference to the baseline: the chance one takes to see one where there is none."""
CHUNK = 1 << 20

_STEP = re.compile(rb"(?:^|[\s_\]])step:(\d+)(?:\.0+)?\s+-\s")
_PAIR = re.compile(
    rb"([A-Za-z_][\w@./-]*):(?:np\.float\d+\()?(-?(?:\d[\d.]*(?:[eE][+-]?\d+)?|nan|inf|NaN|Infinity))\)?(?=\s|$)", re.I
)
_TRAINABLE = re.compile(
    rb"(?i)(?:adapter parameters|trainable (?:params|parameters))\D{0,20}([\d,_]+)|trainable percentage\D{0,20}([\d.]+)"
)


@dataclass
class Signal:
    """What was found: ``wrong`` fails it, ``notes`` do not. ``told`` are the sentences with the numbers."""

    verdict: Literal["Pass", "Fail", "Unknown"] = "Unknown"
    wrong: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    steps: int = 0

    def reason(self) -> str:
        if self.verdict == "Pass":
            return f"{PASSED} over {self.steps} steps"
        return self.wrong[0] if self.wrong else "there are no metrics to judge"


class LogMetrics:
    """Metric lines of a console log, taken in pieces of any size: verl's ``step:N - key:value - …``, whatever stands before."""

    def __init__(self) -> None:
        self.steps: Steps = {}
        self.trainable: float | None = None
        """Trainable parameters (or their percentage) as the log says it; None when it does not."""
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        data = self._rest + piece
        cut = data.rfind(b"\n") + 1
        self._rest = data[cut:][-CHUNK:]
        self._lines(data[:cut])

    def finish(self) -> LogMetrics:
        self._lines(self._rest)
        self._rest = b""
        return self

    def _lines(self, data: bytes) -> None:
        for word, take in ((b"step:", self._step), (b"rainable", self._parameters), (b"dapter parameters", self._parameters)):
            at = data.find(word)
            while at >= 0:
                start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
                end = len(data) if end < 0 else end
                take(data[start:end])
                at = data.find(word, end)

    def _step(self, line: bytes) -> None:
        if not (match := _STEP.search(line)):
            return
        values = {key.decode(): float(value) for key, value in _PAIR.findall(line[match.end() :])}
        if values:
            self.steps.setdefault(int(match[1]), {}).update(values)

    def _parameters(self, line: bytes) -> None:
        if match := _TRAINABLE.search(line):
            self.trainable = float((match[1] or match[2]).replace(b",", b"").replace(b"_", b"") or 0)


def read(path: Path) -> Steps:
    """The metrics of a metrics file (by its name) or of a log. Raises BadInput when there are none."""
    if path.suffix in (".json", ".jsonl"):
        return read_jsonl(path)
    seen = LogMetrics()
    try:
        with path.open("rb") as stream:
            while piece := stream.read(CHUNK):
                seen.feed(piece)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    if not seen.finish().steps:
        raise BadInput(f"{path} holds no metric lines (step:N - key:value - …)")
    return seen.steps


def read_jsonl(path: Path) -> Steps:
    """A metrics file: ``{"step": n, "data": {…}}`` a line (null is NaN there), or one object ``{metric: {"1": value}}``.

    Raises:
        BadInput: it cannot be read, or holds neither.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the metrics file {path}: {error}") from None
    steps: Steps = {}
    try:
        whole = json.loads(text)
        if isinstance(whole, dict) and "data" not in whole:
            for name, series in whole.items():
                for step, value in series.items():
                    steps.setdefault(int(step), {})[name] = _number(value)
            return _some(steps, path)
    except (ValueError, AttributeError, TypeError):
        pass
    for number, line in enumerate(text.splitlines(), 1):
        try:
            record = json.loads(line)
            data = {str(key): _number(value) for key, value in record["data"].items() if _numeric(value)}
            steps.setdefault(int(record["step"]), {}).update(data)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise BadInput(
                f"{path}, line {number}: not a metrics record",
                hint='{"step": 1, "data": {"critic/score/mean": 0.5}} a line, or {"metric": {"1": 0.5}}',
            ) from None
    return _some(steps, path)


def _some(steps: Steps, path: Path) -> Steps:
    if not steps:
        raise BadInput(f"{path} holds no metrics")
    return steps


def _numeric(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _number(value: Any) -> float:
    # verl's file logger writes NaN and infinity as null.
    return math.nan if value is None else float(value)


def judge(
    steps: Mapping[int, Mapping[str, float]],
    how: Learning,
    wanted: Sequence[int] = (),
    trainable: float | None = None,
    peft: bool = False,
    baseline: Mapping[int, Mapping[str, float]] | None = None,
    cap: float | None = None,
) -> Signal:
    """The signal in ``steps``. ``wanted``: first and last step there must be; ``cap``: the longest possible response (tokens)."""
    found = Signal(steps=len([step for step in steps if step > 0]))
    trained = {step: steps[step] for step in sorted(steps) if step > 0}
    names = sorted({name for data in steps.values() for name in data})
    if not trained or not names:
        found.verdict, found.wrong = ("Fail", ["no metrics were logged for any step"]) if wanted else ("Unknown", [])
        return found
    found.wrong += not_finite(steps, how)
    if wanted and (missing := [step for step in range(wanted[0], wanted[1] + 1) if step not in steps]):
        found.wrong.append(f"no metrics for step {_few(missing)}")
    if peft and trainable is not None and trainable <= 0:
        found.wrong.append("no parameter is trainable although PEFT is on")
    elif peft and trainable is None:
        found.notes.append("the log does not say how many parameters are trainable")
    series = {name: [data[name] for data in trained.values() if name in data and math.isfinite(data[name])] for name in names}
    for name, values in series.items():
        if re.search(how.gradients, name) and (run := _longest_run(values, 0.0)) >= 2:
            found.wrong.append(f"{name} is zero {run} steps in a row: nothing is updated")
        if len(values) < FEWEST:
            continue
        constant = len(set(values)) == 1
        if constant and re.search(how.logprobs, name):
            found.wrong.append(f"{name} is {values[0]:g} in all {len(values)} steps: the weights that generate do not change")
        elif constant and re.search(how.rewards, name):
            found.wrong.append(f"{name} is {values[0]:g} in all {len(values)} steps: a flat reward teaches nothing")
        elif constant and re.search(how.values, name):
            found.wrong.append(f"{name} is {values[0]:g} in all {len(values)} steps: the critic's values are flat")
        elif re.search(how.lengths, name) and cap and sum(value >= cap for value in values) * 2 > len(values):
            found.wrong.append(f"{name} is at its cap of {cap:g} in most steps: responses are cut off")
        elif constant and re.search(how.lengths, name):
            found.wrong.append(f"{name} is {values[0]:g} in all {len(values)} steps: lengths are saturated")
    _movement(found, steps, how, baseline)
    found.verdict = "Fail" if found.wrong else "Pass"
    return found


def not_finite(steps: Mapping[int, Mapping[str, float]], how: Learning) -> list[str]:
    """NaN or infinity in a metric that tells of training, each metric once."""
    first: dict[str, tuple[int, float]] = {}
    for step in sorted(steps):
        for name, value in steps[step].items():
            if not math.isfinite(value) and re.search(how.finite, name):
                first.setdefault(name, (step, value))
    return [f"{name} is {value} at step {step}" for name, (step, value) in first.items()]


def _movement(
    found: Signal,
    steps: Mapping[int, Mapping[str, float]],
    how: Learning,
    baseline: Mapping[int, Mapping[str, float]] | None,
) -> None:
    """Validation and reward against the start, and against the baseline where there is one: one of them must have moved up."""
    logged = {name for data in steps.values() for name in data}
    names = [name for pattern in how.trend for name in sorted(logged) if re.search(pattern, name)]
    compared, moved, still = 0, [], []
    for name in dict.fromkeys(names):
        values = [steps[step].get(name) for step in sorted(steps)]
        rise = trend.of(values)
        if rise.count < 2:
            continue
        compared += 1
        found.told.append(rise.tell(name))
        fall = trend.of([-value for value in values if value is not None])
        ends = f"{rise.first:.3f} at the start, {rise.last:.3f} at the end"
        if fall.count >= trend.FEWEST and fall.p < ALPHA:
            found.wrong.append(f"{name} fell: {ends}, one-sided p={fall.p:.2g}")
        elif rise.last > rise.first:
            moved.append("" if rise.rises else f"{name} moved up ({ends}), which can be chance (p={rise.p:.2g})")
        else:
            still.append(f"{name} did not move in the expected direction: {ends} (p={rise.p:.2g})")
        if baseline:
            _against(found, name, values, [baseline[step].get(name) for step in sorted(baseline)])
    if not compared:
        found.wrong.append("neither reward nor validation was logged for two steps: there is no trend to compare")
    elif not baseline and not moved:
        found.wrong += still
    elif not baseline and all(moved):
        found.notes += moved


def _against(found: Signal, name: str, values: Iterable[float | None], base: Iterable[float | None]) -> None:
    own, other = ([value for value in side if value is not None and math.isfinite(value)] for side in (values, base))
    if not own or not other:
        found.wrong.append(f"{name} cannot be compared: the {'run' if not own else 'baseline'} has none")
        return
    p = worse(own, other)
    means = (
        f"mean {math.fsum(own) / len(own):.3f} of {len(own)} steps, baseline {math.fsum(other) / len(other):.3f} of {len(other)}"
    )
    found.told.append(f"{name} against the baseline: {means}, Mann-Whitney one-sided p={p:.2g} for being lower")
    if p < ALPHA:
        found.wrong.append(f"{name} is below the baseline: {means}, p={p:.2g}")


def worse(own: Sequence[float], other: Sequence[float]) -> float:
    """One-sided p of the Mann-Whitney test that ``own`` is lower than ``other`` (normal approximation)."""
    n, m = len(own), len(other)
    u = sum((a > b) + 0.5 * (a == b) for a in own for b in other)
    pooled = [*own, *other]
    ties = sum(t**3 - t for t in (pooled.count(value) for value in set(pooled)))
    variance = n * m / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1)))
    if variance <= 0:
        return 1.0
    z = (u - n * m / 2 + 0.5) / math.sqrt(variance)
    return math.erfc(-z / math.sqrt(2)) / 2


def _longest_run(values: Sequence[float], wanted: float) -> int:
    best = now = 0
    for value in values:
        now = now + 1 if value == wanted else 0
        best = max(best, now)
    return best


def _few(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (" …" if len(numbers) > 5 else "")
