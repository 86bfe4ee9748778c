"""Script 56 with two jobs: what differs, whether they are bit-equal, and which metrics are outside what repeats vary."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from ..base.errors import BadInput, MvpError
from ..record import job_folder
from . import curves, differences, same_steps
from .curves import Curves
from .differences import Found
from .facts import Run
from .markup import Html, join, table, tag
from .same_steps import Equality

NAMES = ("A", "B")
MOST_SEEN = 100
"""Newest jobs among which repeated runs of A are looked for."""
MOST_REPEATS = 10


class Row(msgspec.Struct, kw_only=True):
    """One metric: the median of the last steps of each, and the range of repeated runs of A."""

    metric: str
    a: float | None
    b: float | None
    low: float | None = None
    high: float | None = None

    @property
    def outside(self) -> bool | None:
        """Whether B is outside of the range; None where nothing was repeated."""
        if self.low is None or self.high is None or self.b is None:
            return None
        return not self.low <= self.b <= self.high


class Comparison(msgspec.Struct, kw_only=True):
    """Everything that a comparison found."""

    a: str
    b: str
    found: Found
    equality: Equality
    repeats: list[str]
    rows: list[Row]

    def to_builtins(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        plain = msgspec.to_builtins(self)
        found = plain.pop("found")
        plain |= {key: found[key] for key in ("differences", "compared", "not_compared", "code_diff")}
        for row, each in zip(plain["rows"], self.rows, strict=True):
            row["outside"] = each.outside
        plain["in_words"] = self.in_words()
        return dict(plain)

    def in_words(self) -> list[str]:
        """Return the three results, a sentence each."""
        return [self.sentence(), self.equality.in_words(), self.repeatability()]

    def repeatability(self) -> str:
        """Return how many metrics of B are outside of what repeated runs of A vary, and of how many one expects it by chance."""
        judged = [row.outside for row in self.rows if row.outside is not None]
        if not judged:
            return "No repeated run of A was found: how far equal runs differ is not known."
        count = len(self.repeats)
        return (
            f"In {judged.count(True)} of {len(judged)} metrics B is outside of the range of A and {count} repeated "
            f"run{'s' if count > 1 else ''} of it; by chance an equal run is so in 2 of {count + 2} metrics that vary."
        )

    def sentence(self) -> str:
        """Return whether anything differs, and what was compared."""
        count = len(self.found.differences)
        head = f"{count} difference{'s' if count != 1 else ''}" if count else "No difference was found"
        return f"{head}; {self.found.in_words()}."


def check(runs: Sequence[Run]) -> None:
    """Raise BadInput for two jobs that cannot be compared."""
    a, b = runs
    differences.folders_differ(a.folder, b.folder)
    if a.result.workload != b.result.workload:
        raise BadInput(
            f"'{a.id}' is a job of '{a.result.workload}', '{b.id}' of '{b.result.workload}': they cannot be compared",
            hint=f"./scripts/56_report.sh {a.id}",
        )
    if empty := next((run for run in runs if not run.curves.series), None):
        raise BadInput(
            f"job '{empty.id}' has no metrics to compare: {empty.folder.metrics}", hint=f"./scripts/56_report.sh {empty.id}"
        )


def compare(a: Run, b: Run) -> Comparison:
    """Compare two jobs. Raises BadInput when they cannot be compared."""
    check([a, b])
    repeated = repeats(a, b)
    return Comparison(
        a=a.id,
        b=b.id,
        found=differences.find(a, b),
        equality=same_steps.compare(a.folder.metrics, b.folder.metrics),
        repeats=[name for name, _ in repeated],
        rows=_rows(a, b, [each for _, each in repeated]),
    )


def repeats(a: Run, b: Run) -> list[tuple[str, Curves]]:
    """Return the newest jobs that succeeded with A's toolkit, JobSpec, code, data and model, without A and B, and curves."""
    found: list[tuple[str, Curves]] = []
    own = identity(a)
    for submission_id in job_folder.newest_ids(a.folder.shared, MOST_SEEN):
        folder = a.folder.shared.job(submission_id)
        if submission_id in (a.id, b.id) or len(found) == MOST_REPEATS:
            continue
        with contextlib.suppress(MvpError, OSError):
            result = job_folder.read(folder)
            if (
                result.state == "SUCCEEDED"
                and result.workload == a.result.workload
                and identity(Run(folder, result, a.mask)) == own
            ):
                found.append((submission_id, curves.read(folder.metrics)))
    return found


def identity(run: Run) -> tuple[Any, ...]:
    """Return what repeated runs have in common: toolkit, JobSpec, code, data, model, reward function and the number of hosts."""
    known = run.provenance()
    inputs = {name: facts.get("identity") for name, facts in (known.get("inputs") or {}).items()}
    toolkit, code, hosts = known.get("toolkit") or {}, known.get("code") or {}, len(known.get("hosts") or [])
    made_by = toolkit.get("version"), toolkit.get("commit")
    return made_by, differences.job_spec(run), code.get("content"), inputs, known.get("reward_fn"), hosts


def _rows(a: Run, b: Run, repeated: Sequence[Curves]) -> list[Row]:
    rows = []
    names = sorted(a.curves.series.keys() | b.curves.series.keys())
    for name in names:
        row = Row(metric=name, a=ending(a.curves, name), b=ending(b.curves, name))
        known = [value for each in (a.curves, *repeated) if (value := ending(each, name)) is not None]
        if repeated and len(known) > 1:
            row.low, row.high = min(known), max(known)
        rows.append(row)
    return rows


def ending(found: Curves, name: str) -> float | None:
    """Return the median of a metric's last finite values, None when it has none."""
    series = found.series.get(name)
    return statistics.median(series.tail) if series and series.tail else None


def section(made: Comparison) -> Html:
    """Return what differs, and whether the runs are bit-equal, as markup; ``metrics`` has the rest."""
    rows = [[each.subject, each.name, each.a, each.b] for each in made.found.differences]
    return join(
        [
            tag("p", "A is ", tag("b", made.a), ", B is ", tag("b", made.b), "."),
            tag("p", made.sentence(), id="sentence"),
            tag("p", made.equality.in_words(), id="equality"),
            tag("p", made.repeatability(), id="repeatability"),
            table("What differs before any metric", ["subject", "name", "A", "B"], rows) if rows else None,
            _diff(made.found.code_diff) if made.found.code_diff else None,
        ]
    )


def metrics(made: Comparison) -> Html:
    """Return the table of metrics, those outside of the band first: both runs, difference, and what repeated runs of A vary."""
    known = f"A and {len(made.repeats)} repeated runs of it, {', '.join(made.repeats)}" if made.repeats else "no repeated run"
    return table(
        f"Median of the last {curves.WINDOW} values of A ({made.a}) and B ({made.b}); band: {known}",
        ["metric", "A", "B", "B - A", "band", "outside the band"],
        [_cells(row) for row in sorted(made.rows, key=lambda row: not row.outside)],
        number_columns=[1, 2, 3, 4],
    )


def _cells(row: Row) -> list[object]:
    change = "–" if row.a is None or row.b is None else "0" if row.a == row.b else f"{row.b - row.a:+.6g}"
    if row.a and row.b is not None and row.a != row.b:
        change += f" ({(row.b - row.a) / abs(row.a):+.1%})"
    band = "–" if row.low is None or row.high is None else f"{row.low:.6g} to {row.high:.6g}"
    outside = {True: tag("span", "outside", class_="badge warn"), False: "inside", None: "–"}[row.outside]
    return [row.metric, *("–" if value is None else f"{value:.6g}" for value in (row.a, row.b)), change, band, outside]


def _diff(lines: Sequence[str]) -> Html:
    kinds = {"+": "add", "-": "del"}
    marked = [join([tag("span", line, class_=kinds.get(line[:1])), "\n"]) for line in lines]
    title = "How the code snapshots differ"
    return tag("details", tag("summary", title), tag("pre", *marked, role="group", tabindex="0", aria_label=title), open=True)
