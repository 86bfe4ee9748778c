"""The sections of a page about jobs, each as markup; a page has those that apply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..base.times import clock
from ..base.verdict import SIGNS, Check
from ..diagnosis.views import explanation
from ..record.job_folder import elapsed_s
from ..record.metrics import headline
from .excerpts import Excerpt, Excerpts
from .facts import Run
from .markup import Html, escaped, join, table, tag

STATES = {"SUCCEEDED": "good", "FAILED": "bad", "BLOCKED": "bad", "NOT_SUBMITTED": "bad", "STOPPED": "warn", "RUNNING": "warn"}
VERDICTS = {"Pass": "good", "Fail": "bad", "Blocked": "bad"}
PRINTED = ("driver_host", "driver_node_ip", "claimed_at", "submitted_at", "started_at", "ended_at", "exit_code")


def badge(word: str, kind: str | None = None, sign: str = "") -> Html:
    """Return a word in the colour of its meaning; the word itself says it too."""
    colour = kind or STATES.get(word) or VERDICTS.get(word) or "none"
    return tag("span", f"{sign} {word}".strip(), class_=f"badge {colour}")


def facts(run: Run) -> Html:
    """Return the job's main facts as a list of terms."""
    result, seconds = run.result, elapsed_s(run.result)
    number = headline(result.last_metrics)
    verdicts = [check.verdict for check in run.checks]
    failed = verdicts.count("Fail") + verdicts.count("Blocked")
    given: list[tuple[str, object]] = [
        ("state", badge(result.state)),
        (
            "checks",
            tag("a", badge(f"{failed} failed", "bad"), href="#checks")
            if failed
            else ", ".join(f"{count} {word}" for word, count in Counter(each.lower() for each in verdicts).items()) or "–",
        ),
        ("workload", result.workload),
        ("steps", f"{result.steps_done} of {result.steps_total}" if result.steps_total else str(result.steps_done)),
        ("last " + number[0] if number else "reward or loss", f"{number[1]:.6g}" if number else "–"),
        ("took", clock(seconds) if seconds is not None else "–"),
        ("driver", result.driver_host or "–"),
        ("started (UTC)", (result.started_at or "–").replace("T", " ").partition(".")[0]),
    ]
    reason = tag("p", run.shown(result.reason)) if result.reason and result.state != "SUCCEEDED" else None
    return join([terms(given), reason])


def terms(given: Sequence[tuple[str, object]]) -> Html:
    """Return names and values as a list of terms."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in given), class_="facts")


def verdicts(run: Run, prefix: str) -> Html:
    """Return the table of checks; evidence that is in the page is linked."""
    return checks(f"Checks of {run.id}, as 54_verify.sh makes them", "check", run.checks, Cited(run.excerpts, prefix, run.shown))


@dataclass(frozen=True)
class Cited:
    """The lines that are in the page; ``shown`` masks a text for people."""

    excerpts: Excerpts
    prefix: str
    shown: Callable[[str], str]

    def link(self, file: str, line: int | None, place: str) -> Html:
        """Return the name of a place, as a link where its line is in the page."""
        linked = self.excerpts.has(file, line)
        return tag("a", place, href=f"#{anchor(self.prefix, file, line)}") if linked else escaped(self.shown(place))

    def reason(self, check: Check) -> Html:
        """Return a reason over its evidence, without a line's evidence that only says the same."""
        items = []
        for each in check.evidence:
            if each.line is None and each.text in check.reason:
                continue
            place = each.file if each.line is None else f"{each.file}:{each.line}"
            items.append(tag("li", self.link(each.file, each.line, place), ": " if place else "", self.shown(each.text)[:160]))
        return join([self.shown(check.reason), tag("ul", *items, class_="evidence") if items else None])


def checks(caption: str, title: str, made: Sequence[Check], cited: Cited) -> Html:
    """Return a table of checks with their evidence."""
    rows = [[check.name, badge(check.verdict, sign=SIGNS[check.verdict]), cited.reason(check)] for check in made]
    return table(caption, [title, "verdict", "reason and evidence"], rows, kind="stacked")


def anchor(prefix: str, file: str, line: int | None) -> str:
    """Return the id of a line in the page."""
    return f"{prefix}-{''.join(char if char.isalnum() else '-' for char in file)}-{line}"


def diagnosis(run: Run, prefix: str) -> Html | None:
    """Return why the job ended as it did, as ``55`` says it."""
    if run.diagnosis is None or not run.diagnosis.evidence:
        return None
    view = explanation(run.diagnosis)
    place = Cited(run.excerpts, prefix, run.shown).link(run.diagnosis.log, run.diagnosis.line, view.where)
    rows: list[tuple[str, object]] = [
        ("verdict", badge(view.verdict)),
        ("cause", tag("code", run.shown(view.evidence))),
        ("in", place),
        ("boundary", view.boundary),
        ("raised by", f"{view.file}:{view.line}" if view.file else ""),
        ("phase", f"{view.phase}, after step {view.step}" if view.step is not None else view.phase),
        ("rule", f"{view.rule or 'none'} (confidence: {view.confidence})"),
        ("advice", view.advice),
        ("next", tag("code", view.next) if view.next else ""),
    ]
    return table(f"Diagnosis of {run.id}, as 55_explain.sh makes it", ["", ""], [row for row in rows if row[1]])


def lineage(run: Run) -> Html | None:
    """Return the attempts of the job's chain, or the jobs whose checkpoints it continues."""
    if run.chain:
        rows = [
            [
                tag("b", attempt.id) if attempt.id == run.id else attempt.id,
                badge(attempt.state or run.result.state),
                attempt.step,
                attempt.cause or "",
                run.shown(attempt.why),
            ]
            for attempt in run.chain.attempts
        ]
        caption = f"Attempts of chain {run.chain.id}" + (f": {run.chain.note}" if run.chain.note else "")
        return table(caption, ["attempt", "state", "last step", "cause of its end", "why"], rows, number_columns=[2])
    resumed = run.provenance().get("resumed_from")
    if not isinstance(resumed, dict):
        return None
    earlier = resumed.get("lineage") or [resumed]
    rows = [[str(each.get("submission_id")), each.get("step")] for each in earlier if isinstance(each, dict)]
    return table(f"{run.id} continues from", ["job", "step"], [*rows, [run.id, run.result.steps_done]], number_columns=[1])


def provenance(run: Run) -> Html:
    """Return where the job came from, and the exact command."""
    known = run.provenance()
    code, inputs = known.get("code") or {}, known.get("inputs") or {}
    toolkit, packages = known.get("toolkit") or {}, run.packages()
    changed = ", with uncommitted changes" if toolkit.get("dirty") else ""
    rows: list[tuple[str, object]] = [
        ("code", f"{code.get('code_id')}, content {code.get('content')}, from {in_words(code.get('source'))}" if code else ""),
        *((name, in_words(facts)) for name, facts in inputs.items()),
        ("reward function", in_words(known.get("reward_fn"))),
        ("toolkit", f"{toolkit.get('version')}, commit {toolkit.get('commit')}{changed}" if toolkit else ""),
        ("Ray, Python", ", ".join(str(known[name]) for name in ("ray", "python") if known.get(name))),
        ("image", " ".join(str(known[name]) for name in ("image", "image_id") if known.get(name)) or "none"),
        ("submitted from", in_words(known.get("submitted_from"))),
        *(
            (f"host {host.get('name')}", f"{host.get('role')}, {host.get('ip')}")
            for host in known.get("hosts") or []
            if isinstance(host, dict)
        ),
    ]
    rows += [(name.replace("_", " "), str(value)) for name in PRINTED if (value := getattr(run.result, name)) is not None]
    found = packages.items() if isinstance(packages, dict) else ()
    rows += [(name.strip("()"), str(value)) for name, value in found if name.startswith("(")]
    listed = [[name, str(version)] for name, version in found if not name.startswith("(")]
    command = run.text("config/submit_cmd.txt")
    return join(
        [
            table(f"Provenance of {run.id}", ["", ""], [[name, run.shown(str(value))] for name, value in rows if value]),
            tag("h3", "Command"),
            tag("pre", command, class_="wrap", role="group", tabindex="0", aria_label="The exact command that submitted the job"),
            details("JobSpec", pretty_spec(run)),
            details("Plan (config/resolved.yaml)", run.text("config/resolved.yaml")),
            tag("details", tag("summary", f"Packages ({len(listed)})"), table("Packages", ["package", "version"], listed))
            if listed
            else None,
        ]
    )


def pretty_spec(run: Run) -> str:
    """Return the JobSpec as it was given."""
    yaml = run.folder.job_spec(".yaml")
    return run.text(str((yaml if yaml.is_file() else run.folder.job_spec()).relative_to(run.folder.path)))


def details(title: str, text: str) -> Html:
    """Return a text below a title that opens it."""
    return tag("details", tag("summary", title), tag("pre", text, role="group", tabindex="0", aria_label=title))


def in_words(value: object) -> str:
    """Return plain data on one line: ``kind package, made from (source generated, seed 0)``; "" for None."""
    if not isinstance(value, dict):
        return "" if value is None else str(value)
    known = [(name.replace("_", " "), inner) for name, inner in value.items() if inner not in (None, "", {}, [])]
    return ", ".join(f"{name} ({in_words(inner)})" if isinstance(inner, dict) else f"{name} {inner}" for name, inner in known)


def files(excerpts: Excerpts, prefix: str) -> Html:
    """Return the lines of logs and of other files that the page shows."""
    return join(_excerpt(excerpt, prefix) for excerpt in excerpts.files.values())


def _excerpt(excerpt: Excerpt, prefix: str) -> Html:
    shown, items, before = len(excerpt.lines), [], 0
    for number, text in excerpt.lines.items():
        if number > before + 1:
            items.append(_cut(number - before - 1))
        numbered = tag("span", number, class_="num")
        items.append(tag("li", numbered, tag("span", text, class_="text"), id=anchor(prefix, excerpt.file, number)))
        before = number
    if before < excerpt.total:
        items.append(_cut(excerpt.total - before))
    about = excerpt.note or f"{shown} of {excerpt.total} lines"
    body = tag("ol", *items, class_="log", tabindex="0", aria_label=f"Lines of {excerpt.file}") if items else None
    return join([tag("h3", escaped(excerpt.file), " ", tag("span", f"({about})", class_="soft")), body])


def _cut(lines: int) -> Html:
    return tag("li", f"… {lines} line{'s' if lines > 1 else ''}", class_="cut")


def overview(runs: Sequence[Run]) -> Html:
    """Return one row for each of several jobs."""
    rows = []
    for run in runs:
        number, seconds = headline(run.result.last_metrics), elapsed_s(run.result)
        met = [check.verdict for check in run.checks]
        rows.append(
            [
                run.id,
                run.result.workload,
                badge(run.result.state),
                f"{met.count('Pass')} Pass, {met.count('Fail')} Fail, {met.count('Skipped')} Skipped",
                run.result.steps_done,
                f"{number[0]} {number[1]:.6g}" if number else "–",
                clock(seconds) if seconds is not None else "–",
            ]
        )
    titles = ["job", "workload", "state", "checks", "steps", "last metric", "took"]
    return table("The jobs of this page", titles, rows, number_columns=[4])
