"""The sections of a page that only some jobs have: hardware, where the time went, and what the model said."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from ..base.paths import JobFolder
from ..base.times import clock
from ..trainers import verl_rollouts
from ..trainers.verl_rollouts import Rollout
from ..usage import resources
from ..usage.resources import Sample
from .curves import Series
from .facts import Run
from .markup import Html, escaped, join, table, tag

GIB = 1 << 30
SHOWN = 2
"""Answers that are shown, of the best and of the worst."""
LONGEST = 1500
"""Characters of a prompt or an answer that are shown."""
MEASURES: dict[str, Callable[[Sample], float | None]] = {
    "job memory (GiB)": lambda sample: sample.job.memory / GIB,
    "job CPU (cores)": lambda sample: sample.job.cpu,
    "host memory used (GiB)": lambda sample: sample.memory.used / GIB,
    "GPU utilisation": lambda sample: _mean([gpu.utilisation for gpu in sample.gpus]),
    "GPU memory used (GiB)": lambda sample: max((gpu.memory_used / GIB for gpu in sample.gpus), default=None),
}


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def usage(folder: JobFolder) -> dict[str, Series]:
    """Return a curve for each measure and host: the means of the samples during each step."""
    by_name: dict[str, dict[int, list[float]]] = {}
    for sample in resources.read(folder.resources):
        for name, measure in MEASURES.items():
            value = measure(sample)
            if value is not None and math.isfinite(value):
                by_name.setdefault(f"{name}, {sample.host}", {}).setdefault(sample.step, []).append(value)
    curves = {}
    for name, steps in by_name.items():
        curves[name] = Series()
        for step, values in sorted(steps.items()):
            curves[name].take([round(statistics.fmean(values), 4)], [step])
    return curves


def usage_table(run: Run) -> Html | None:
    """Return the mean and the highest value of each measure on each host; None without samples."""
    rows = []
    for name, series in run.usage.items():
        values = [value for _, value in series.points if value is not None]
        if series.highest:
            rows.append([name, f"{statistics.fmean(values):.3g}", f"{series.highest[0]:.3g}", series.highest[1]])
    titles = ["measure and host", "mean over the steps", "highest", "at step"]
    return table(f"Hardware that {run.id} used (resources.jsonl)", titles, rows, number_columns=[1, 2, 3]) if rows else None


def wall_time(run: Run) -> Html | None:
    """Return where the wall time went, each part with a bar; None without an account."""
    account = run.result.wall_time
    if account is None:
        return None
    rows: list[list[object]] = []
    for part, seconds in account.seconds.items():
        percent = account.percent.get(part, 0.0)
        rows.append([part.replace("_", " "), clock(seconds), join([f"{percent:g} % ", bar(percent)])])
    attempts = f" in {account.attempts} attempts" if account.attempts > 1 else ""
    caption = f"Where {clock(account.total_s)} of {run.id} went{attempts}"
    return table(caption, ["part", "time", "share"], rows, number_columns=[1, 2])


def bar(percent: float) -> Html:
    """Return a bar, for eyes alone: the number is beside it."""
    drawn = tag("rect", width=f"{max(0.0, min(100.0, percent)):g}%", height="10", class_="d0")
    return tag("svg", drawn, class_="bar", aria_hidden="true")


def samples(run: Run) -> Html | None:
    """Return the best and the worst answers of the newest step that was kept; None without any."""
    kept = verl_rollouts.by_step(run.folder.rollouts)
    if not kept:
        return None
    step, path = list(kept.items())[-1]
    try:
        rows = [row for row in verl_rollouts.read(path, step) if row.score is not None and math.isfinite(row.score)]
    except OSError:
        return None
    ranked = sorted(rows, key=lambda row: row.score or 0.0)
    if not ranked:
        return None
    best, worst = ranked[::-1][:SHOWN], ranked[:SHOWN]
    groups = [("Best", best), ("Worst", [row for row in worst if row not in best])]
    shown = [_answer(run, title, row) for title, rows in groups for row in rows]
    about = tag("p", f"Of {len(rows)} answers of step {step}. All: ./scripts/58_samples.sh {run.id}", class_="soft")
    return join([about, *shown])


def _answer(run: Run, title: str, row: Rollout) -> Html:
    head = f"{title}: score {row.score:g}"
    parts = [("Prompt", row.prompt), ("Answer", row.answer), ("Ground truth", str(row.ground_truth))]
    texts = [
        join(
            [
                tag("dt", name),
                tag(
                    "dd",
                    tag("pre", _cut(run.shown(text)), class_="wrap", role="group", tabindex="0", aria_label=f"{name}, {head}"),
                ),
            ]
        )
        for name, text in parts
        if text and text != "None"
    ]
    return tag("details", tag("summary", escaped(head)), tag("dl", *texts), open=title == "Best")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
