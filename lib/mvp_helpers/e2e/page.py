"""The page of a run: verdicts with the lines that prove them, curves with asserted limits, commands, limitations, logs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..base import files, redact
from ..base.errors import BadInput, Blocked
from ..base.mask import Mask
from ..base.paths import E2eRun
from ..base.times import clock
from ..base.verdict import SIGNS, Check, Evidence
from ..gates import assertions
from ..learning import learning_signal
from ..report import charts, curves, excerpts, facts, sections
from ..report.charts import Drawn, Limit
from ..report.excerpts import Excerpts
from ..report.extras import bar
from ..report.markup import Html, join, table, tag
from ..report.page import Section, whole
from ..report.sections import Cited, badge
from .step import Step
from .steps.criteria import METRIC
from .summary import Summary

TAIL = 60
"""Lines of the end of each log that are shown."""
MOST_TEXT = 20_000
"""Characters of a difference or a script that are shown."""
COMMAND = "Command"
"""Begins the names of the summary's evidence that is a command."""


@dataclass(frozen=True)
class Run:
    """What a page shows of a run; the files of its evidence are relative to its folder."""

    folder: E2eRun
    summary: Summary
    steps: list[Step]
    drawn: list[Drawn]
    limits: dict[str, list[Limit]]
    excerpts: Excerpts

    @property
    def cited(self) -> Cited:
        return Cited(self.excerpts, "r0", redact.text)


def of_run(folder: E2eRun) -> str:
    """Return the page of a run that has a summary. Raises BadInput when it has none."""
    run = load(folder)
    parts: list[Section] = [
        (
            "deliverables",
            "Deliverables",
            sections.checks("What was asked for", "deliverable", run.summary.deliverables, run.cited),
        ),
        ("diagnosis", "Diagnosis", _diagnosis(run)),
        ("follow-ups", "Follow-ups", _list(run.summary.follow_ups)),
        ("limitations", "Limitations", _list(run.summary.limitations)),
        ("curves", "Curves", charts.charts(run.drawn, run.limits)),
        ("criteria", "Criteria", _criteria(run)),
        ("steps", "Steps", _steps(run)),
        ("metrics", "All metrics", charts.metrics_table(run.drawn) if run.drawn else None),
        ("time", "Where the time went", _time(run.steps)),
        ("commands", "Commands", _commands(run)),
        ("provenance", "Provenance", _provenance(run)),
        ("files", "Logs", sections.files(run.excerpts, "r0")),
    ]
    return whole(folder.path.name, _head(run), parts, charts.data(run.drawn, run.limits))


def write(folder: E2eRun) -> Path:
    """Write the page of a run beside its summary; return its path. Raises BadInput, and Blocked when it cannot be written."""
    place = folder.summary("html")
    try:
        files.write_text(place, of_run(folder), mode=0o600)
    except OSError as error:
        raise Blocked(f"cannot write {place}: {error.strerror}", hint="free some space, or correct its permissions") from error
    return place


def load(folder: E2eRun) -> Run:
    """Read a run from its folder. Raises BadInput when it has no summary, or a damaged one."""
    try:
        plain = json.loads(folder.summary("json").read_bytes())
        plain["evidence"] = list(plain["evidence"].items())
        summary = msgspec.convert(plain, Summary)
        steps = msgspec.convert(summary.steps, list[Step])
    except FileNotFoundError:
        raise BadInput(f"run '{folder.path.name}' has no summary: it still runs, or was killed", hint="--resume") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, msgspec.MsgspecError) as error:
        raise BadInput(f"{folder.summary('json')} is damaged: {error}") from None
    made_at, here = summary.run, folder.path

    def local(evidence: Sequence[Evidence]) -> list[Evidence]:
        return [Evidence(each.file.removeprefix(f"{made_at}/"), each.line, each.text) for each in evidence]

    def with_local(checks: Sequence[Check]) -> list[Check]:
        return [msgspec.structs.replace(check, evidence=local(check.evidence)) for check in checks]

    for step in steps:
        step.evidence, step.criteria = local(step.evidence), with_local(step.criteria)
        step.log = step.log.removeprefix(f"{made_at}/")
        if step.triage:
            step.triage.log = step.triage.log.removeprefix(f"{made_at}/")
    summary = msgspec.structs.replace(summary, deliverables=with_local(summary.deliverables))
    drawn = [each for step in steps for each in _drawn(here, step)]
    texts = [check.name.removeprefix(METRIC) for step in steps for check in step.criteria if check.name.startswith(METRIC)]
    found = [(*shown, f"assertion {text}") for text in dict.fromkeys(texts) if (shown := _limit(text))]
    logs = [here / step.log for step in steps if step.log and not Path(step.log).is_absolute()]
    return Run(
        folder, summary, steps, drawn, charts.limits(found), excerpts.of_folder(here, logs, _cited(steps), Mask([]), tail=TAIL)
    )


def _limit(text: str) -> tuple[str, str, float] | None:
    try:
        return assertions.limit(text, {})
    except BadInput:
        return None


def _cited(steps: Sequence[Step]) -> list[Evidence]:
    """Return all evidence that the page can link to a line."""
    found = [evidence for step in steps for check in step.criteria for evidence in check.evidence]
    found += [evidence for step in steps for evidence in step.evidence]
    found += [Evidence(step.triage.log, step.triage.line, "") for step in steps if step.triage]
    return found


def _drawn(folder: Path, step: Step) -> list[Drawn]:
    """Return the curves of each training of a step: those of its metrics files, or of its log."""
    log = folder / step.log
    if not step.criteria or not log.is_file():
        return []
    copies = sorted(log.parent.glob("metrics-*"), key=lambda file: [int(part) for part in re.findall(r"\d+", file.name)])
    found = []
    for at, file in enumerate(copies or [log], 1):
        try:
            made = curves.of_steps(learning_signal.read(file))
        except BadInput:
            continue
        found.append(Drawn(f"{step.name}, training {at}" if len(copies) > 1 else step.name, made, facts.by_own_clock(made)))
    return found


def _head(run: Run) -> Html:
    summary, met = run.summary, [step.verdict for step in run.steps]
    began = next((step.began for step in run.steps if step.began), "")
    given: list[tuple[str, object]] = [
        ("result", badge(summary.result, sign=SIGNS[summary.result])),
        ("steps", f"{met.count('Pass')} of {len(met)} pass"),
        ("requested coverage", summary.coverage),
        ("model", summary.model or "–"),
        ("took", clock(sum(step.seconds for step in run.steps))),
        ("began (UTC)", began.replace("T", " ").partition(".")[0] or "–"),
    ]
    return join([sections.terms(given), tag("p", redact.text(summary.sentence))])


def _list(texts: Sequence[str]) -> Html:
    return tag("ul", *(tag("li", redact.text(text)) for text in texts or ["none"]))


def _diagnosis(run: Run) -> Html | None:
    """Return why each step did not pass that has a log to tell it."""
    tables = []
    for step in run.steps:
        if step.triage is None or step.passed:
            continue
        cause = step.triage
        place = cause.log if cause.line is None else f"{cause.log}:{cause.line}"
        rows: list[tuple[str, object]] = [
            ("verdict", badge(cause.verdict)),
            ("cause", tag("code", redact.text(cause.evidence)) if cause.evidence else ""),
            ("in", run.cited.link(cause.log, cause.line, place)),
            ("boundary", cause.boundary),
            ("phase", cause.phase),
            ("rule", f"{cause.rule or 'none'} (confidence: {cause.confidence})"),
            ("advice", cause.advice),
            ("follow-up", cause.follow_up),
            ("limitation", cause.limitation),
        ]
        tables.append(table(f"Diagnosis of {step.name}, as 62_e2e_triage.sh makes it", ["", ""], [row for row in rows if row[1]]))
    return join(tables) if tables else None


def _criteria(run: Run) -> Html | None:
    made = [
        sections.checks(f"Criteria of {step.name}: {step.title}", "criterion", step.criteria, run.cited)
        for step in run.steps
        if step.criteria
    ]
    return join(made) if made else None


def _steps(run: Run) -> Html:
    rows = []
    for step in run.steps:
        # What a training proves is among its criteria.
        check = Check(step.name, step.verdict, step.reason, [] if step.criteria else step.evidence)
        took = clock(step.seconds) if step.seconds else "–"
        rows.append([step.name, step.title, badge(step.verdict, sign=SIGNS[step.verdict]), run.cited.reason(check), took])
    titles = ["step", "about", "verdict", "reason and evidence", "took"]
    return table("Every step, in order; one that did not pass ends the run", titles, rows, number_columns=[4])


def _time(steps: Sequence[Step]) -> Html:
    total = sum(step.seconds for step in steps) or 1.0
    rows = [
        [step.name, clock(step.seconds), _share(step.seconds / total), step.outcome.summary() if step.outcome else ""]
        for step in steps
        if step.seconds
    ]
    return table(
        "Time of each step, and what its command used", ["step", "time", "share", "its command"], rows, number_columns=[1]
    )


def _share(part: float) -> Html:
    return join([f"{part:.0%} ", bar(100 * part)])


def _commands(run: Run) -> Html:
    """Return the script of each start; of a run that started nothing, the command that it would have started."""
    scripts = [(step.name, (run.folder.path / step.log).parent / "command.sh") for step in run.steps if step.criteria]
    found = [(name, file) for name, file in scripts if file.is_file()]
    planned = [(name, text) for name, text in run.summary.evidence if name.startswith(COMMAND)]
    texts = [(name, _text(file)) for name, file in found] or planned
    return join(
        join(
            [
                tag("h3", name),
                tag("pre", redact.text(text), class_="wrap", role="group", tabindex="0", aria_label=f"The command of {name}"),
            ]
        )
        for name, text in texts
    )


def _provenance(run: Run) -> Html:
    rows = [[name, redact.text(text)] for name, text in run.summary.evidence if not name.startswith(COMMAND)]
    rows += [["environment", where] for where in dict.fromkeys(step.where for step in run.steps if step.where)]
    rows += [[f"run folder, on the machine of the run ({run.folder.path.name})", run.summary.run]]
    recorded = next((step for step in run.steps if step.name == "checkouts"), None)
    diffs = sorted((run.folder.path / "steps" / "checkouts").glob("try-*/*.diff")) if recorded else []
    newest = {file.name: file for file in diffs if file.stat().st_size}
    return join(
        [
            table("Where the run came from", ["", ""], rows),
            *(sections.details(f"Uncommitted changes of {file.stem}", redact.text(_text(file))) for file in newest.values()),
            sections.details("Request (run.json)", redact.text(_text(run.folder.request))),
        ]
    )


def _text(file: Path) -> str:
    try:
        text = file.read_text(errors="replace")
    except OSError as error:
        return f"{file.name} cannot be read: {error.strerror}"
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "\n…"
