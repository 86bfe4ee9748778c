"""Step 7: the pass criteria of one run, each from evidence: the log, the trainer's own words in it, and how the command ended."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from ..diagnosis.learning import not_finite
from ..diagnosis.metric_lines import LogMetrics
from ..diagnosis.views import Triage
from .description import Description
from .execute import Outcome
from .matrix import Planned

Verdict = Literal["Pass", "Fail", "Blocked", "Skipped", "Not requested"]


class Criterion(msgspec.Struct, frozen=True, kw_only=True):
    """One criterion, whether it is met, and the evidence for that."""

    name: str
    met: bool
    evidence: str


@dataclass
class Reader:
    """Takes a run's log line by line, in pieces of any size, and keeps the lines that prove something."""

    description: Description
    metrics: LogMetrics = field(default_factory=LogMetrics)
    xtrace: set[str] = field(default_factory=set)
    steps: dict[int, str] = field(default_factory=dict)
    finished: str = ""
    resumed: str = ""
    resumed_at: int | None = None
    scratch: str = ""
    refused: list[str] = field(default_factory=list)

    def read(self, log: Path) -> Reader:
        lines = self.description.lines
        step, finished, resumed, scratch = (
            re.compile(text) for text in (lines.step, lines.finished, lines.resumed, lines.scratch)
        )
        refuse = {re.compile(text): why for text, why in self.description.expect.refuse.items()}
        wanted = {f"+ {name}={value}" for name, value in self.description.expect.xtrace.items()}
        with log.open("rb") as stream:
            for raw in stream:
                # tqdm draws its bar again and again over the same line.
                for part in raw.rstrip(b"\r\n").split(b"\r"):
                    text = part[:20_000].decode(errors="replace")
                    if text in wanted:
                        self.xtrace.add(text)
                    if match := step.search(text):
                        self.steps.setdefault(int(match[1]), _short(text))
                    # A bar of nothing, 0/0, is no end.
                    if (match := finished.search(text)) and match[1] == match[2] and int(match[2]):
                        self.finished = match[0]
                    if match := resumed.search(text):
                        self.resumed, self.resumed_at = text.strip()[:200], int(next(group for group in match.groups() if group))
                    if scratch.search(text):
                        self.scratch = text.strip()[:200]
                    self.refused += [f"{why}: {text.strip()[:200]}" for pattern, why in refuse.items() if pattern.search(text)]
                self.metrics.feed(raw)
        self.metrics.finish()
        return self


def _short(line: str) -> str:
    """A metric line's step, and the trainer's own count in it."""
    words = [word for word in line.split() if word.startswith(("step:", "training/global_step:"))]
    return " … ".join(words) or line.strip()[:200]


def judge(
    description: Description, one: Planned, outcome: Outcome, seen: Reader, triaged: Triage, config_problems: list[str]
) -> list[Criterion]:
    """Every criterion of this run."""
    first, last = one.steps
    missing = [step for step in range(first, last + 1) if step not in seen.steps]
    found: list[Criterion] = []
    for name, value in description.expect.xtrace.items():
        line = f"+ {name}={value}"
        found.append(
            Criterion(
                name=f"{name}={value}",
                met=line in seen.xtrace,
                evidence=line if line in seen.xtrace else f"the log has no line '{line}'",
            )
        )
    found += [
        Criterion(name="the wrapper's own exit status is 0", met=outcome.good, evidence=outcome.tell()),
        Criterion(
            name=f"steps {first} to {last} were trained" if last > first else f"step {first} was trained",
            met=not missing and bool(seen.finished),
            evidence=(f"no metric line for step {missing[0]}" if missing else seen.steps[last])
            + (f", {seen.finished}" if seen.finished else "; the progress never reached 100%"),
        ),
        Criterion(
            name="no metric is NaN or infinite",
            met=not (bad := not_finite(seen.metrics.steps, description.learning)),
            evidence=bad[0] if bad else f"{len(seen.metrics.steps)} steps with metrics",
        ),
        Criterion(
            name="no exception in construction or training",
            met=triaged.verdict in ("Pass", "Noise"),
            evidence="none" if triaged.verdict == "Pass" else f"{triaged.evidence} ({triaged.boundary}, line {triaged.line})",
        ),
    ]
    if description.expect.config:
        found.append(
            Criterion(
                name="the resolved config confirms it",
                met=not config_problems,
                evidence=config_problems[0]
                if config_problems
                else ", ".join(f"{k}={v}" for k, v in description.expect.config.items()),
            )
        )
    found += [Criterion(name="the right bridge", met=False, evidence=text) for text in seen.refused[:1]]
    if one.run.resumes:
        right = seen.resumed_at == first - 1 and not seen.scratch
        evidence = seen.scratch or seen.resumed or "the log does not say from which checkpoint it went on"
        found.append(Criterion(name=f"resumed from step {first - 1}", met=right, evidence=evidence))
    if first > 1 and 1 in seen.steps:
        found.append(Criterion(name="nothing was trained again", met=False, evidence=seen.steps[1]))
    peft = one.env.get("LORA_RANK", "0") not in ("", "0")
    if peft and seen.metrics.trainable is not None:
        found.append(
            Criterion(
                name="PEFT has trainable parameters",
                met=seen.metrics.trainable > 0,
                evidence=f"{seen.metrics.trainable:g} in the log",
            )
        )
    return found


def verdict(criteria: list[Criterion], outcome: Outcome, triaged: Triage) -> tuple[Verdict, str]:
    """The run's verdict and the reason: all criteria met, or what the first cause decides."""
    unmet = [one for one in criteria if not one.met]
    if not unmet:
        return "Pass", f"all {len(criteria)} criteria met"
    if triaged.verdict in ("Blocked", "Fail"):
        return triaged.verdict, f"{triaged.boundary}: {triaged.evidence}"
    reason = "; ".join(f"not met: {one.name} ({one.evidence})" for one in unmet[:3])
    # Nothing tells why it ended so early: before the first step nothing is known about the provider.
    early = triaged.phase == "start" and outcome.ended in ("timeout", "stall", "not started")
    return ("Blocked" if early else "Fail"), reason


def checkpoint(folder: Path, step: int) -> str:
    """Why ``folder`` holds no checkpoint of ``step``; "" when it does."""
    pointers = list(folder.rglob("latest_checkpointed_iteration.txt"))
    for pointer in pointers:
        if pointer.read_text(errors="replace").strip() == str(step) and (pointer.parent / f"global_step_{step}").is_dir():
            inside = [file for file in (pointer.parent / f"global_step_{step}").rglob("*") if file.is_file()]
            return "" if inside else f"{pointer.parent}/global_step_{step} is empty"
    return f"no checkpoint of step {step} below {folder}"
