"""What proves that the last run in a log succeeded, and what contradicts it.

Pass is what was proven: the run's own report of its end, every step up to it with its metrics, all of them finite, and nothing
that speaks against it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from ..log_text import doubts, log_lines
from ..log_text.log_lines import ByWords
from ..log_text.series import Series
from ..log_text.step_record import StepRecord
from ..trainers.patterns.of_scripts import SCRIPTS
from ..trainers.patterns.of_trainers import TRAINERS, VERL
from . import finished, metric_checks, script_runs
from .metric_checks import MetricChecks
from .signatures import Signatures

ROUNDED = 0.011
"""How far an epoch with two digits may be from the exact one."""
TAIL = 1 << 16
"""Bytes at the beginning and at the end of a log that are kept."""
OTHER_END = "only a launcher or another program reports the end, not what trained"
NOT_FINITE = "not-finite"
NO_STEP = "no training step with its metrics is in the log"
BROKEN_OFF = "Error executing job with overrides"
"""Hydra prints this before a job's last exception."""
# How programs report a bad end, whatever else the log contains.
_BAD_END = re.compile(
    rb"(?im)(?:exit(?:ed|ing|s)?(?: with)?(?: non-?zero)?(?: exit)?[ _-]?(?:code|status)|return(?:ed|s)?[ -]?code|\brc)"
    rb"[\"']?[ :=]+(?!0\b)-?\d+|exit code: 0x(?!0+\b)|\bnon-?zero (?:exit|status|return)|\bExitCode=[1-9]\d*:|\bexit[=:] *[1-9]"
    rb"|^g?make(?:\[\d+\])?: \*\*\* |\b(?:Job|run|training|command|job\S+)(?: \S+)? failed\b(?! 0)"
    rb"|status: FAILED|\bJob '.*' failed"
    rb"|^\++ (?:exit|return) (?!0\b)\d|^(?:exit|ret|rc|status|\$\?)(?: *[=:] *| )(?!0\b|20\d\b)\d+ *$|^timeout: (?:sending|the )"
    rb"|^returned [1-9]\d* *$"
    rb"|^(?:\[\d+\][-+]? +)?(?:exit [1-9]|(?:killed|terminated|aborted|interrupted|evicted)(?= *$| {2,}| \(core)"
    rb"|\^C$|!* ?KeyboardInterrupt)"
    rb"|^\W*failed (?:modules?|tests?|cases?|jobs?|runs?|suites?)\b(?!\W*(?:0\b|none))"
    rb"|^(?:\W*|[\w./-]+ +)FAILED *$|^result: fail|\bfinished with errors\b"
    rb"|^\S+\.sh(?: failed at|: line \d+: .*(?:not found|No such|failed))|\|FAILED\|"
    rb"|\b(?:job ?)?(?:state|status)\b[^\w\n]{0,10}(?:FAILED|CANCELLED|TIMEOUT|OUT_OF_MEMORY|NODE_FAIL|PREEMPTED)\b"
    rb"|\bjob\b.*\b(?:state |: )?FAILED\b|\bCANCELLED (?:AT|by)\b|^##\[error\]|\bOOMKilled\b|\bBackoffLimit|\bbackoff limit\b"
    rb"|\bjob (?:was )?(?:killed|preempted)\b|^TERM_\w+: |^wandb: .*\(failed \d+\)|\bterminated \(Error\)|\bdied with <Signals"
    rb"|\bexited (?:abnormally|(?:on|with) signal \d|with [1-9])|\bsupervisor actor died|^" + BROKEN_OFF.encode()
)
LONGEST_END = 2000
"""Longer lines report no end."""
FLAT = (
    "the rewards and some answers (./scripts/58_samples.sh {id} --worst 5): equal rewards within every group give no gradient; "
    "then the learning rate, and which parameters are trained"
)
"""What to look at when nothing was updated."""
MANY_STEPS = 20
"""At the beginning of a run with 16 bits an optimizer skips some updates, until it has found a loss scale."""
_WARNS = re.compile(r"\b\w*Warning: \S")
_SERIOUS = re.compile(
    r"(?i)\b(?:fail\w*|errors?|exceptions?|nan|inf|not finite|corrupt\w*|cannot|unable|tim(?:ed |e)out|lost|died|killed|refused|"
    r"skipping (?:this |the )?(?:update|step)|denied|insufficient|evicted|terminat\w*|abort\w*|hang\w*|stuck|mismatch\w*|"
    r"not (?:be )?(?:found|available|scheduled))\b"
)
"""What a harmless warning does not say."""
_SAYS_FAILED = re.compile(
    r"(?i)^(?!.*\b(?:0|no|not|none|if|when|may|might|can|could|would|will|warning|ignor\w*|skip\w*|retry\w*|again)\b)"
    r"(?:.{0,120}\bfailed(?: or timed out| with (?:exit )?(?:code|status) \d+)?\W*$|(?-i:\W*FAILED\b\W+\w))"
)
"""That something has failed, not that it may, or that nothing did."""
_POSSIBLE = re.compile(r"(?i)\b(?:will|would|may|might|could|can)\b[^.]*")
_PERCENT = re.compile(VERL.percent.encode())
_CLAIM = (
    r"(?i)learning(?:[- ]signal)?\W{0,3}(?:check )?(?:passed|ok\b|verified|confirmed)"
    r"|\b(?:model|policy|agent) (?:has )?(?:is learning|learn(?:ed|t))\b"
    r"|\b(?:rewards?|scores?|accuracy)\b[^.]{0,30}?(?:\b(?:rose|rising|improv\w+|increas\w+|went up|grew|climb\w*|up \d)|↑)"
)
_CLAIM_WORDS = (
    *("earning-signal", "earning signal", "earning verified", "earning confirmed", " learn", " rose", " rising", " improv"),
    *(" increas", " went up", " grew ", " climb", " up ", "↑"),
)
_LOSS = r"(?:\b|_)[Ll]oss['\"]?\W{1,3}(?:np\.\w+\(|tensor\()?(?:(?P<number>-?\d)(?!\.?#)|(?i:none|null|nan|inf)\b|-?\d\.?#)"
_LOSS_WORDS = ("loss:", "Loss:", "loss=", "loss':", 'loss":')
_EPOCHS = (
    r"(?i)(?:^|(?<![a-z] )(?<=[\s,{(\[\"'])|--|number of )"
    r"(?:(?:num|max|n|total)?[_-]?(?:train(?:ing)?[_-])?epochs)['\"]?\s{0,3}(?:[:=]\s{0,3}|\s)"
    r"(\d{1,6})(?![\w.]*\d)|batch[ _]size\W{1,3}\d+, (?:train(?:ing)?|total) epoch: (\d{1,6})\b"
)
"""How many epochs a script was started with."""
_EPOCH_WORDS = (", training epoch: ", ", train epoch: ", ", total epoch: ")
_ITERATIONS = (
    r"(?i)(?:^|(?<=[\s,{(\[\"'-]))max[_-](?:train[_-])?(?:iters|iterations|steps)['\"]?\s{0,3}(?:[:=]\s{0,3}|\s)"
    r"(\d{1,9})(?![\w.]*\d)"
)
"""How many steps."""
_ITERATION_WORDS = tuple(
    f"max{gap}{what}" for gap in "_-" for what in ("iters", "iterations", "steps", f"train{gap}iters", f"train{gap}steps")
)
WORDS = (
    *{word for lines in TRAINERS.values() for word in (*lines.resumed_words, *lines.mention_words)},
    *{word for lines in TRAINERS.values() for kind in lines.ended_well for word in kind.words},
    *(*metric_checks.WORDS, "pochs", *_EPOCH_WORDS, *_ITERATION_WORDS, *_CLAIM_WORDS, *_LOSS_WORDS),
)
"""Lines that prove or contradict a success contain one of these, except lines of metrics."""

_NOT_RESUMED = re.compile(
    r"(?i)\b(?:not?|if|would|could|cannot|skip\w*|fail\w*|unable|error|ignored?)\b[^/]*\bresum|\bresum.*\b(?:failed|ignored|if|not)\b"
)
"""A line that mentions resuming a run without having done so."""
_SAID = ByWords(
    ((what, re.compile(pattern)), words)
    for what, pattern, words in (
        *(("furthest", lines.mentions, lines.mention_words) for lines in TRAINERS.values()),
        *(("after", lines.position, lines.mention_words) for lines in TRAINERS.values()),
        *(("after", lines.resumed, lines.resumed_words) for lines in TRAINERS.values()),
        *(("before", lines.goes_on, lines.mention_words) for lines in TRAINERS.values()),
        *(("end", kind.pattern, kind.words) for lines in TRAINERS.values() for kind in lines.ended_well),
        ("epochs", _EPOCHS, ("pochs", *_EPOCH_WORDS)),
        ("steps", _ITERATIONS, _ITERATION_WORDS),
        ("claim", _CLAIM, _CLAIM_WORDS),
        ("loss", _LOSS, _LOSS_WORDS),
    )
    if pattern
)
"""What lines say of a run: the furthest step, the one before or after which it goes on, its end; and their patterns."""


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """Why a log that reports success does not pass."""

    verdict: Literal["Fail", "Unknown"]
    rule: str = ""
    evidence: str
    advice: str
    next: str = ""
    """What to look at, if not simply at the complete log."""
    line: int | None = None


class Success:
    """Collects what proves the success of the last run in a log, and what contradicts it, while the log is read."""

    def __init__(self) -> None:
        self.record = StepRecord()
        self.spoilt_at: int | None = None
        """The line with the first number that is not finite."""
        self._head, self._tail = b"", b""
        self._log: list[bytes] | None = []
        """All of it, unless it is long."""
        self._tests = ""
        self._checks = MetricChecks()

    def read(self, lines: bytes) -> None:
        """Read the next complete lines of the log."""
        self._head = self._head or lines[:TAIL]
        self._tail = lines[-TAIL:] if len(lines) >= TAIL else (self._tail + lines)[-TAIL:]
        if self._log is not None:
            self._log.append(lines)
            self._log = self._log if sum(map(len, self._log)) <= finished.LONGEST else None

    def read_ends(self, begin: bytes, end: bytes) -> None:
        """Read the beginning and the end of a log of which only some lines were looked at."""
        self._log, self._head = None, begin
        self.read(end)

    @property
    def work_done(self) -> str:
        """Return the line that reports the end of work without a training; "" without one."""
        record = self.record
        if self._log is None or record.trained or record.ends or record.doubtful or self._tests or self._checks.open:
            return ""
        log = b"".join(self._log)
        return finished.report(log) or ("" if record.losses else finished.words(log))

    def ends_with(self, text: str, lines: int) -> bool:
        """Return whether one of the log's last ``lines`` lines with text contains ``text``."""
        last = [line for line in self._tail.splitlines() if line.strip()][-lines:]
        return any(text in log_lines.clean(line, 0).text for line in last)

    def another_run(self) -> None:
        """Forget the previous run."""
        self.record, self._tests, self._checks, self.spoilt_at = StepRecord(), "", MetricChecks(), None

    def take(self, text: str) -> int | None:
        """Read a line that contains one of the words; return the step that it shows as done, None if it shows none."""
        record = self.record
        for what, pattern in _SAID.of(text.encode()):
            if what == "end":
                record.ended_well |= bool(pattern.search(text))
            elif what == "claim":
                record.claims_learning |= bool(pattern.search(text))
            elif what == "loss":
                for match in pattern.finditer(text):
                    record.losses |= bool(match["number"])
                    if not match["number"] and record.steps:
                        record.no_number = record.no_number or text.strip()[:300]
            elif what == "epochs":
                record.epochs_stated.update(_numbers(pattern, text))
            elif what == "steps":
                record.steps_stated.update(_numbers(pattern, text))
            elif what == "furthest":
                record.furthest = max(record.furthest, *_numbers(pattern, text), 0)
            elif not _NOT_RESUMED.search(text):
                record.resumed.update(step - (what == "before") for step in _numbers(pattern, text))
        self._checks.read(text)
        return record.take(text)

    def suspect(self, raw: bytes) -> None:
        """Read a line outside of tracebacks that may speak against a run without faults."""
        if not self.record.doubtful:
            self.record.doubtful = doubts.doubtful(raw, bool(self.record.ends))

    def end(self, trainer: str, match: re.Match[str]) -> None:
        """Note the line that reports the end of a trainer's run, or of tests (trainer "")."""
        if trainer:
            self.record.end(trainer, match)
        else:
            self._tests = match[0].strip(" =")

    @property
    def known(self) -> str:
        """Return what the log shows of the steps; "" if it has no metrics."""
        record = self.record
        shown = record.trained.values()
        return f"{', '.join(series.words() for series in shown)} logged, all finite" if shown and not record.not_finite else ""

    @property
    def proven(self) -> str:
        """Return what the log proves, without what may contradict it; "" if it reports no end."""
        if self.record.ends:
            return f"{self.known}; the log reports that the run reached its end" if self.known else "the log reports the end"
        if self._tests:
            return self._tests
        if self._checks.passed and not self._checks.open:
            return f"{self._checks.passed} metric checks passed"
        return f"{self.known}, up to the last one" if self.known and self._all_steps else ""

    @functools.cached_property
    def _all_steps(self) -> bool:
        """Return whether a script's lines of metrics reach the last one that there was to be."""
        return bool(script_runs.of(self.record)) and not script_runs.gap(self.record, self._head, self._tail)

    def not_finite(self) -> Doubt | None:
        """Return what a number that is not finite means; None without one."""
        evidence = self.record.not_finite or self._checks.bad
        advice = "The run cannot pass: later steps learn nothing."
        if not evidence and self._last >= MANY_STEPS:
            evidence, advice = self._skipped(), "An optimizer skips an update whose gradients are not finite; it learns nothing."
        if not evidence:
            return None
        line = self.spoilt_at if self.record.not_finite else None
        return Doubt(verdict="Fail", rule=NOT_FINITE, evidence=evidence, advice=advice, line=line)

    def doubt(self, signatures: Signatures, ended: bool) -> Doubt | None:
        """Return what contradicts success, None if nothing does; ``ended``: the log reports that the run reached its end."""
        if spoilt := self.not_finite():
            return spoilt
        bad_ends = [line for line in self._tail.splitlines() if len(line) < LONGEST_END and _BAD_END.search(line)]
        if bad_ends:
            return _not_a_pass(
                bad_ends[-1].decode(errors="replace").strip()[:300],
                "the log reports that the run reached its end, and also that it ended badly",
            )
        percents = _PERCENT.findall(self._tail)
        if percents and int(percents[-1]) < 100:
            return _not_a_pass(
                f"Training Progress: {int(percents[-1])}% is the last progress", "the last run in the log did not reach its end"
            )
        if self._checks.open:
            return _not_a_pass("the table of metric checks is incomplete", "the log stops within it")
        if self.record.no_number and (self.record.ends or self._all_steps):
            return _not_a_pass(self.record.no_number, "a loss is no number")
        if self.record.ends and (gap := self._gap()):
            return _not_a_pass(gap, "the log reports the end of the run, but does not show every step before it")
        if not self.record.ends and (unfinished := self._unfinished()):
            return _not_a_pass(
                unfinished, "tests or checks passed, but the log does not show that the training before them ended"
            )
        if contradiction := self._nothing_learned():
            return _not_a_pass(contradiction, "the run reached its end and hardly changed what it trains", FLAT)
        failure = self._later_failure(signatures) if ended else ""
        return _not_a_pass(failure, "after its end the log reports that something could not start") if failure else None

    def unexplained(self) -> Doubt | None:
        """Return what a line before the end of a training run says that no signature explains; None without one."""
        if not (self.record.doubtful and (self.record.ends or self._all_steps)):
            return None
        return _not_a_pass(self.record.doubtful[:300], "the run reached its end, but this line says that something went wrong")

    def _gap(self) -> str:
        """Return which steps of the trainer that reports its end are missing; "" if none are."""
        record = self.record
        if of_script := script_runs.of(record):
            reported = {of_script, "lightning", "deepspeed"} & record.ends.keys()
            return script_runs.gap(record, self._head, self._tail) if reported else OTHER_END
        # Lightning, or a script with bars like its own, whose end the script reports.
        by_script = record.ends.keys() <= {*SCRIPTS, "deepspeed"} and list(record.trained) == ["lightning"]
        ends = {"lightning": next(iter(record.ends.values()))} if by_script else record.ends
        gaps = [self._gap_of(trainer, match) for trainer, match in ends.items()]
        if not gaps:
            return OTHER_END if record.trained else NO_STEP
        return "" if "" in gaps else gaps[0]

    def _unfinished(self) -> str:
        """Return which step a training without an end did not reach; "" if that is not known."""
        for trainer, series in self.record.trained.items():
            wanted = series.total or (self.record.furthest if trainer in _MENTIONING else 0)
            if trainer not in SCRIPTS and series.last < wanted:
                return f"the last step with metrics is {series.last:g} of {wanted:g}"
        return ""

    def _gap_of(self, trainer: str, end: re.Match[str]) -> str:
        record = self.record
        series = record.series.get(trainer)
        if trainer == "deepspeed" and series is None and record.trained:  # its launcher starts other trainers, too
            return OTHER_END
        if series is None or series.first is None:
            return NO_STEP
        if trainer == "deepspeed" and (record.no_number or not record.losses):
            return record.no_number or f"{series.words()} logged, but no loss: DeepSpeed's own lines have none"
        first = series.first
        groups = end.groupdict()
        if groups.get("epoch") and not record.resumed and (unseen := _hidden(series, groups)):
            return unseen
        begins = max(0 if series.in_epochs and not groups.get("epoch") else 1, series.usual * 1.5)
        if first > begins and not any(first - series.usual <= step < first for step in record.resumed):
            return f"{series.words()}: nothing shows why the metrics do not begin with step 1"
        if missing := series.missing():
            return missing
        said = float(groups.get("last") or 0) or (first - 1 + int(groups["count"]) if groups.get("count") else 0)
        last = said or float(groups.get("epoch") or series.total or 0)
        wanted = max(last, record.furthest if trainer in _MENTIONING else 0)
        if said and series.last > last:
            return f"the end reports {last:g} steps, but step {series.last:g} is logged"
        between = max(series.average, 0.02) if groups.get("epoch") else max(series.usual, 1)
        from_0 = first == 0 and (series.every_step or TRAINERS[trainer].counts_from_0)
        done = series.last + from_0
        if wanted and round(wanted - done, 6) >= between:
            return f"the last step with metrics is {series.last:g} of {wanted:g}"
        return ""

    def _nothing_learned(self) -> str:
        record = self.record
        for name, zeros in record.zero_gradients.items():
            if zeros * 2 > record.steps and record.steps:
                updated = "nothing was updated" if zeros >= record.steps else "most of them updated nothing"
                return f"{name} is zero in {zeros} of {record.steps} steps: {updated}"
        if skipped := self._skipped():
            return skipped
        if record.claims_learning and len(record.rewards) == 1 and record.steps > 1:
            return f"the log claims learning, but the reward is {next(iter(record.rewards))} in all steps"
        return ""

    def warning(self, harmless: Sequence[str]) -> str:
        """Return the first of the last lines that is a warning, if a third of them are; "" otherwise.

        ``harmless``: words of notices that count as warnings, whatever else they say.
        """
        lines = [line for raw in self._tail.splitlines() if (line := log_lines.clean(raw, 0)).text.strip()]
        notices = [log_lines.has_any(line.text, harmless) for line in lines]
        warns = [
            notice or line.level in ("WARNING", "WARN") or bool(_WARNS.search(line.text))
            for line, notice in zip(lines, notices, strict=True)
        ]
        code = [before and line.text.startswith("  ") for before, line in zip([False, *warns], lines, strict=False)]
        serious = any(
            _SERIOUS.search(_POSSIBLE.sub("", line.text))
            for line, is_warning, notice in zip(lines, warns, notices, strict=True)
            if is_warning and not notice
        )
        if serious or not any(warns) or 3 * (sum(warns) + sum(code)) < len(lines):
            return ""
        return lines[warns.index(True)].text.strip()

    @property
    def said_to_fail(self) -> str:
        """Return the first line of the log's beginning or end in which a program says that something failed; "" without one."""
        lines = (log_lines.clean(raw, 0).text.strip() for raw in (self._head + self._tail).splitlines())
        return next((line for line in lines if _SAYS_FAILED.search(line)), "")

    @property
    def _last(self) -> float:
        """Return the last step with metrics."""
        return max((series.last for series in self.record.trained.values()), default=0)

    def _skipped(self) -> str:
        """Return how many updates were skipped if those are most; "" otherwise."""
        return f"{self.record.skipped} of {self._last:g} updates were skipped" if self.record.skipped * 2 > self._last > 0 else ""

    def _later_failure(self, signatures: Signatures) -> str:
        """Return the first error after the run's end that only occurs at a start; "" without one."""
        rules_of_start = [rule for rule in signatures.rules if rule.phase == ["start"]]
        early = msgspec.structs.replace(signatures, rules=rules_of_start)
        ends = [mark.pattern for mark in signatures.all_marks() if mark.phase == "done"]
        failure = ""
        for raw in reversed(self._tail.split(b"\n")):
            line = log_lines.clean(raw, 0)
            if any(end.search(line.text) or end.search(log_lines.plain(raw)) for end in ends):
                break
            if hit := early.of_line(line, "start"):
                failure = hit.evidence[:300]
        return failure


def _hidden(series: Series, end: Mapping[str, str | None]) -> str:
    """Return why rounded epochs hide steps; "" if they do not. ``end``: the running time and speed of the run, if known."""
    first = series.first or 0
    if not series.gaps:
        # The first one tells the interval; of a single step the epoch may be rounded to 0.
        steps, epochs = round(float(end["seconds"] or 0) * float(end["speed"] or 0)), float(end["epoch"] or 0)
        more = round(epochs - 2 * first, 6) >= 0 if first else steps > 1
        return f"epoch {first:g} is the only one logged of {epochs:g} ({steps} steps)" if more else ""
    # A run that logs every n-th step begins with step n, perhaps after step 1.
    inexact = max(ROUNDED, series.usual / 5)  # an epoch's last step may be a part of one
    if first > inexact and all(
        abs(begin - interval) > inexact for begin in (first, series.second) for interval in (series.usual, series.average)
    ):
        return f"{series.words()}: the metrics do not begin with the first step that a run with this interval logs"
    return ""


_MENTIONING = frozenset(name for name, lines in TRAINERS.items() if lines.mentions)


def _numbers(pattern: re.Pattern[str], text: str) -> list[int]:
    """Return the groups that match, of every match of ``pattern``."""
    return [int(group) for match in pattern.finditer(text) for group in match.groups() if group]


def _not_a_pass(evidence: str, reason: str, next: str = "") -> Doubt:
    return Doubt(verdict="Unknown", evidence=evidence, advice=f"Not a pass: {reason}.", next=next)
