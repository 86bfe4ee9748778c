"""The charts of a page: a figure for each metric that people look at first, one for any other, and the data for its script."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..trainers.metric_names import CURVES
from .curves import Curves, Point, Series
from .markup import Html, join, table, tag

EXACT_POINTS = 20_000
"""Up to this many points all digits are in the page; beyond that seven of each value."""
MOST_OF_A_KIND = 3
MOST_TIMES = 2000
FEW = 6
"""Charts of a trainer whose metrics have no known names."""


@dataclass(frozen=True)
class Drawn:
    """The curves of one run under a name, and for some steps the seconds since its start; ``about``: which run the name means."""

    name: str
    curves: Curves
    seconds: Mapping[int, float]
    about: str = ""

    def with_more(self, series: Mapping[str, Series]) -> Drawn:
        """Return it with more curves."""
        return replace(self, curves=replace(self.curves, series={**self.curves.series, **series}))


@dataclass(frozen=True)
class Limit:
    """A band that a metric must stay in; None where it has no end on that side."""

    low: float | None
    high: float | None
    text: str

    def in_words(self) -> str:
        """Return the text, after the number if it does not end with it: ``0.5: max(data["loss"]) < baseline``."""
        ends = " to ".join(number(float(f"{end:.6g}")) for end in (self.low, self.high) if end is not None)
        return self.text if self.text.endswith(f" {ends}") else f"{ends}: {self.text}"


Limits = Mapping[str, Sequence[Limit]]
"""By metric."""


def limits(found: Iterable[tuple[str, str, float, str]]) -> dict[str, list[Limit]]:
    """Return the limits of comparisons, each given as metric, sign, number and text; each limit once."""
    by_metric: dict[str, list[Limit]] = {}
    for metric, sign, number, text in found:
        limit = Limit(None, number, text) if sign.startswith("<") else Limit(number, None, text)
        if limit not in by_metric.setdefault(metric, []):
            by_metric[metric].append(limit)
    return by_metric


def shown_metrics(runs: Sequence[Drawn], limits: Limits) -> list[tuple[str, str]]:
    """Return kind and name of each metric with a chart of its own: of equal ones of a kind the first, or those with a limit."""
    names = list(dict.fromkeys(name for run in runs for name in run.curves.series))
    found = []
    for kind, pattern in CURVES:
        of_kind = {name: _points(runs, name) for name in names if re.search(pattern, name)}
        several: dict[str, list[list[Point]]] = {}
        for name in sorted(of_kind, key=lambda name: name not in limits):
            if name in limits or of_kind[name] not in several.values():
                several[name] = of_kind[name]
        found += [(kind, name) for name in of_kind if name in several][:MOST_OF_A_KIND]
    return list(dict.fromkeys(found)) or [("", name) for name in names[:FEW]]


def _points(runs: Sequence[Drawn], name: str) -> list[list[Point]]:
    return [run.curves.series[name].points if name in run.curves.series else [] for run in runs]


def charts(runs: Sequence[Drawn], limits: Limits) -> Html:
    """Return the controls and the figures."""
    names = list(dict.fromkeys(name for run in runs for name in run.curves.series))
    if not names:
        return tag("p", "No metrics: no step was recorded.")
    shown = shown_metrics(runs, limits)
    figures = [_figure(f"chart-{at}", name, kind, runs, limits) for at, (kind, name) in enumerate(shown)]
    others = sorted(set(names) - {name for _, name in shown}) or sorted(names)
    options = [tag("option", name, value=name) for name in others]
    chooser = tag("label", "Any other metric: ", tag("select", *options, id="any"))
    legend = [
        tag("li", _swatch(at), " ", run.name, f": {run.about}" if run.about else "", class_=f"t{at % 6}")
        for at, run in enumerate(runs)
    ]
    return join(
        [
            _controls(any(run.seconds for run in runs)),
            tag("ul", *legend, class_="legend") if len(runs) > 1 else None,
            tag("div", *figures, class_="charts"),
            tag("p", chooser),
            tag("div", _figure("any-chart", others[0], "", runs, limits), class_="charts"),
            *(_about(run, len(runs) > 1) for run in runs),
        ]
    )


def figures(runs: Sequence[Drawn]) -> Html:
    """Return a figure for every curve."""
    names = list(dict.fromkeys(name for run in runs for name in run.curves.series))
    return tag("div", *(_figure(f"use-{at}", name, "", runs, {}) for at, name in enumerate(names)), class_="charts")


def _swatch(at: int) -> str:
    return "╌╌" if at % 2 else "━━"


def _controls(timed: bool) -> Html:
    def radio(value: str, text: str, **more: object) -> Html:
        return tag("label", tag("input", type="radio", name="x", value=value, **more), f" {text}")

    across = tag(
        "fieldset", tag("legend", "Across"), radio("step", "step", checked=True), radio("time", "time", disabled=not timed)
    )
    log = tag("label", tag("input", type="checkbox", id="log"), " log scale")
    levels = (("0", "none"), ("0.6", "some"), ("0.9", "much"))
    smooth = tag("label", "Smoothing ", tag("select", *(tag("option", text, value=value) for value, text in levels), id="smooth"))
    return tag("div", across, log, smooth, class_="controls")


def _figure(identity: str, name: str, kind: str, runs: Sequence[Drawn], limits: Limits) -> Html:
    series = [(run, run.curves.series[name]) for run in runs if name in run.curves.series]
    bands = "".join(f" Limit {limit.in_words()}." for limit in limits.get(name, ()))
    said = "; ".join((f"{run.name}: " if len(runs) > 1 else "") + in_words(each) for run, each in series)
    gaps = " ".join(gaps_in_words(each, run.name if len(runs) > 1 else "") for run, each in series if each.gap_count)
    return tag(
        "figure",
        tag("figcaption", kind or name, tag("span", name) if kind else None),
        tag("svg", role="img", tabindex="0", aria_label=f"{name}. {said}.{bands} Arrow keys read out the values."),
        tag("output", aria_live="polite"),
        tag("p", f"{gaps}{bands}".strip(), class_="note", data_text=f"{gaps}{bands}".strip()),
        id=identity,
        data_metric=name,
    )


def in_words(series: Series) -> str:
    """Return first, last, lowest and highest value in words."""
    if not (series.first and series.last and series.lowest and series.highest):
        return "no finite value"
    ends = f"{number(series.first[0])} at step {series.first[1]}, {number(series.last[0])} at step {series.last[1]}"
    extremes = f"lowest {number(series.lowest[0])} at step {series.lowest[1]}, highest {number(series.highest[0])}"
    return f"{ends}; {extremes} at step {series.highest[1]}"


def gaps_in_words(series: Series, run: str = "") -> str:
    """Return which steps have no finite value."""
    named = ", ".join(map(str, series.gaps)) + (" …" if series.gap_count > len(series.gaps) else "")
    steps = "step" if series.gap_count == 1 else "steps"
    whose = f"{run}: " if run else ""
    return f"{whose}NaN or infinite at {steps} {named} ({series.gap_count} of {series.count + series.gap_count})."


def _about(run: Drawn, named: bool) -> Html:
    """Return what is not drawn of a run, in words."""
    curves, facts = run.curves, []
    if curves.reduced:
        facts.append(
            f"{curves.lines} lines of metrics are drawn with {curves.points} points: "
            "the lowest and the highest value of each interval"
        )
        facts.append("values in the curves have seven digits, those in the table all")
    if curves.damaged:
        facts.append(f"{curves.damaged} lines are damaged")
    if curves.left_out:
        facts.append(f"{len(curves.left_out)} or more further metrics are left out")
    return tag("p", f"{run.name + ': ' if named else ''}{'; '.join(facts)}.", class_="soft") if facts else Html("")


def metrics_table(runs: Sequence[Drawn]) -> Html:
    """Return all metrics of all runs with exact values."""
    several = len(runs) > 1
    gaps = any(each.gap_count for run in runs for each in run.curves.series.values())
    rows = []
    for name in sorted({name for run in runs for name in run.curves.series}):
        for run in runs:
            if each := run.curves.series.get(name):
                values = [_cell(pair) for pair in (each.first, each.last, each.lowest, each.highest)]
                cells: list[object] = [name, *([run.name] if several else []), *values, each.count]
                rows.append([*cells, *([each.gap_count or ""] if gaps else [])])
    titles = ["metric", *(["job"] if several else []), "first (step)", "last (step)", "lowest (step)", "highest (step)", "values"]
    titles += ["NaN, inf"] if gaps else []
    numbers = range(2 if several else 1, len(titles))
    caption = f"Every metric: first and last value, extremes; {'values that are' if gaps else 'no value is'} NaN or infinite"
    return table(caption, titles, rows, number_columns=numbers, kind="wide")


def _cell(pair: tuple[float, int] | None) -> str:
    return f"{number(pair[0])} ({pair[1]})" if pair else "–"


def number(value: float) -> str:
    """Return a number with all its digits, as JSON has it; a whole one without a fraction."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def data(runs: Iterable[Drawn], limits: Limits) -> dict[str, Any]:
    """Return what the page's script draws: of each curve the differences of its steps, and its values."""
    listed = list(runs)
    exact = sum(run.curves.points for run in listed) <= EXACT_POINTS
    return {
        "runs": [_run(run, exact) for run in listed],
        "limits": {
            metric: [{"low": limit.low, "high": limit.high, "text": limit.in_words()} for limit in each]
            for metric, each in limits.items()
        },
    }


def _run(run: Drawn, exact: bool) -> dict[str, Any]:
    known = sorted(run.seconds.items())
    known = known[:: max(1, math.ceil(len(known) / MOST_TIMES))] + known[-1:] if known else []
    known = list(dict.fromkeys(known))
    return {
        "name": run.name,
        "time": {"s": [step for step, _ in known], "t": [round(seconds, 2) for _, seconds in known]},
        "metrics": {name: _curve(series, exact) for name, series in run.curves.series.items()},
    }


def _curve(series: Series, exact: bool) -> dict[str, list[Any]]:
    steps = [step for step, _ in series.points]
    return {
        "s": [step - before for step, before in zip(steps, [0, *steps], strict=False)],
        "v": [value if value is None else _plain(value if exact else float(f"{value:.7g}")) for _, value in series.points],
    }


def _plain(value: float) -> float | int:
    return int(value) if value == int(value) and abs(value) < 1e15 else value
