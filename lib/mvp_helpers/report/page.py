"""The whole page: one HTML file without a reference to any other, whose only script is its own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from .. import __version__
from ..base.times import now, seconds_of
from ..base.verdict import SIGNS, Check
from . import charts, comparison, extras, sections
from .charts import Drawn, Limits
from .comparison import Comparison
from .curves import Curves
from .facts import Run
from .markup import Html, data, join, table, tag

ASSETS = Path(__file__).parent / "assets"
Section = tuple[str, str, Html | None]
"""Id, title and content; None leaves it out."""


def of_jobs(
    runs: Sequence[Run],
    *,
    limits: Limits | None = None,
    done: Sequence[Check] = (),
    compared: Comparison | None = None,
    title: str = "",
) -> str:
    """Return the page of one job, or of several; with the comparison of two their curves are called A and B."""
    for run in runs:
        run.usage = extras.usage(run.folder)
    drawn = _drawn(runs, comparison.NAMES if compared else ())
    used = [replace(each, curves=Curves(series=run.usage)) for run, each in zip(runs, drawn, strict=True)]
    several = len(runs) > 1
    parts: list[Section] = [
        ("jobs", "Jobs", sections.overview(runs) if several else None),
        ("comparison", "Comparison", comparison.section(compared) if compared else None),
        ("done", "Definition of Done", _done(done) if done else None),
        ("diagnosis", "Diagnosis", _each(runs, lambda run, prefix: sections.diagnosis(run, prefix))),
        ("curves", "Curves", charts.charts(drawn, limits or {})),
        ("compared", "Metrics of both", comparison.metrics(compared) if compared else None),
        ("checks", "Checks", _each(runs, lambda run, prefix: sections.verdicts(run, prefix) if run.checks else None)),
        ("metrics", "All metrics", charts.metrics_table(drawn) if any(each.curves.series for each in drawn) else None),
        ("resources", "Resources", _resources(runs, used)),
        ("time", "Where the time went", _each(runs, lambda run, _: extras.wall_time(run))),
        ("samples", "Samples", _each(runs, lambda run, _: extras.samples(run))),
        ("lineage", "Lineage", _each(runs, lambda run, _: sections.lineage(run))),
        ("provenance", "Provenance", _each(runs, lambda run, _: sections.provenance(run))),
        ("files", "Log and evidence", _each(runs, lambda run, prefix: sections.files(run.excerpts, prefix))),
    ]
    named = " and ".join(run.id for run in runs) if len(runs) <= 2 else f"{runs[0].id} and {len(runs) - 1} more"
    head = None if several else sections.facts(runs[0])
    return whole(
        title or named,
        head,
        parts,
        charts.data([each.with_more(run.usage) for each, run in zip(drawn, runs, strict=True)], limits or {}),
    )


def _drawn(runs: Sequence[Run], names: Sequence[str]) -> list[Drawn]:
    """Return each run's curves; the attempts of a chain share a clock that starts with the first."""
    began = {run.id: seconds_of(run.result.started_at) for run in runs if run.result.started_at}
    one_chain = len({run.chain.id if run.chain else run.id for run in runs}) == 1
    drawn = []
    for run, name in zip(runs, names or [run.id for run in runs], strict=True):
        later = began[run.id] - min(began.values()) if one_chain and run.id in began else 0.0
        seconds = {step: round(at + later, 3) for step, at in run.step_seconds().items()}
        drawn.append(Drawn(name, run.curves, seconds, about=run.id if names else ""))
    return drawn


def _resources(runs: Sequence[Run], used: Sequence[Drawn]) -> Html | None:
    tables = [made for run in runs if (made := extras.usage_table(run))]
    return join([charts.figures(used), *tables]) if tables else None


def _each(runs: Sequence[Run], section: Callable[[Run, str], Html | None]) -> Html | None:
    made = [(run, section(run, f"r{at}")) for at, run in enumerate(runs)]
    kept = [(run, markup) for run, markup in made if markup]
    if not kept:
        return None
    return join(join([tag("h3", run.id) if len(runs) > 1 else None, markup]) for run, markup in kept)


def _done(lines: Sequence[Check]) -> Html:
    rows = [[line.name, sections.badge(line.verdict, sign=SIGNS[line.verdict]), line.reason] for line in lines]
    return table("Every line of the Definition of Done", ["line", "verdict", "reason"], rows)


def whole(title: str, head: Html | None, parts: Sequence[Section], curves: dict[str, object]) -> str:
    """Return the HTML file."""
    shown = [(name, heading, content) for name, heading, content in parts if content is not None]
    style, script = ((ASSETS / name).read_text() for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    links = [tag("li", tag("a", heading, href=f"#{name}")) for name, heading, _ in shown]
    bodies = [tag("section", tag("h2", heading, id=name), content, aria_labelledby=name) for name, heading, content in shown]
    header = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        Html(f"<style>{style}</style>"),
    ]
    body = [
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", tag("h1", title), head),
        tag("nav", tag("ul", *links), aria_label="Sections"),
        tag("main", *bodies, id="content"),
        tag("footer", f"Made at {now()} by version {__version__} of the toolkit. Times are UTC. This file refers to no other."),
        data("data", curves),
        Html(f"<script>{script}</script>"),
    ]
    return f"<!DOCTYPE html>\n{tag('html', tag('head', *header), tag('body', *body), lang='en')}\n"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
