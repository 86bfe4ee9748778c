"""What proves that a script with a loop of its own did all of it: each epoch or step with its loss, up to the last one.

The last one is known from the lines themselves (``epoch 3/3``), from the number of epochs that the script was started with, or
from the script's own report of its end, after which no more are to come.
"""

from __future__ import annotations

import itertools
import re

from ..log_text import log_lines
from ..log_text.series import Series
from ..log_text.step_record import StepRecord
from ..trainers.patterns.lines import StepLine
from ..trainers.patterns.of_scripts import SCRIPTS
from ..trainers.patterns.of_trainers import TRAINERS
from . import finished

_AGAIN = re.compile(
    r"(?i)\b(?:start|begin)\w*\b.{0,20}\b(?:train|fine-?tun)\w*"
    r"|^\W*(?:training|fine-?tuning) (?!(?:is |was |has |\w+ (?:is |was |has )?)?(?:complete|done|finish|end)|time|took|loss)"
    r"|\b(?:stage|phase|part|round) \d+ (?:starts?|begins?)\b|^\W*(?:fold|round|trial|run|stage|phase|seed)\W{0,3}\d+\W*$"
    r"|\b(?:stage|phase|fold|round) \d+\b.{0,30}\b(?:complete|done|finish)|\b(?:complete|finish|success)\w*\W{1,3}(?:False|no)\b"
)
"""A script that came to the end of a training begins another one, or has more to do."""
_NUMBERS = re.compile(r"[\d\W]+")
_EPOCHS_WITHOUT = re.compile(r"(?i)\bepochs? (?P<first>\d{1,6}) ?(?:-|–|to|\.\.\.?) ?(?P<last>\d{1,6})\b(?![\d.])")
"""A range of epochs that has a line of words instead of metrics."""
_PASSED = re.compile(r"(?i)\b(?:tests?|checks)\W{1,3}(?P<passed>\d{1,6}) ?/ ?(?P<all>\d{1,6}) (?:tests? )?(?:passed|ok)\b")
_FULL_BAR = re.compile(r" *(?P<all>\d{1,9})/(?P=all) (?:.*/step|- \d{1,9}s - loss: )")
_NAMES_STEP = re.compile(r"(?i)\b(?:epoch|step|iter(?:ation)?|batch)\b\W{0,4}\d")


def of(record: StepRecord) -> str:
    """Return which lines of a script count in the run; "" if it has none, or a trainer's."""
    return next((name for name in SCRIPTS if name in record.trained), "")


def gap(record: StepRecord, head: bytes, tail: bytes) -> str:
    """Return what is missing in the lines of the script that the record contains; "" if nothing is.

    ``head`` and ``tail`` are the beginning and the end of the log.
    """
    name = of(record)
    series = record.series[name]
    end = record.ends.get(name) or record.ends.get("lightning")
    lines = [log_lines.clean(line, 0).text for line in tail.splitlines()]
    rest = _after(lines, name, end[0] if end else "")
    if b"ran out of data; interrupting training" in tail:
        return "Keras ran out of data in an epoch"
    if more := next((line for line in rest if _AGAIN.search(line) or (not end and finished.wrong(line.encode()))), ""):
        return more
    if spoilt := _said_since(_after(lines, name, ""), series, bool(end and end.groupdict().get("early"))):
        return spoilt
    if end and any(_shows(kind, line) for line in rest for kind in TRAINERS[name].logged):
        return f"steps are logged after '{end[0].strip()[:100]}': that was the end of a part"
    if again := _again(head, name, rest):
        return f"after the last step the log begins again: {again}"
    if series.repeated and not TRAINERS[name].redrawn:
        return f"{series.words()}, with several lines of one: nothing shows whether one is missing"
    begins = TRAINERS[name].first_part and re.search(TRAINERS[name].first_part.encode(), head)
    if not begins and (series.first or 0) > max(1, series.usual * 1.5):
        return f"{series.words()}: nothing shows why the metrics do not begin with step 1"
    if name == "keras" and not _last_epoch_whole(tail):
        return f"{series.words()}: nothing shows that the validation after the last one ended"
    early = bool(end and end.groupdict().get("early"))
    stopped = end.groupdict().get("stopped") if end else None
    if stopped and int(stopped) - series.last not in ((0,) if series.first == 1 else (0, 1)):
        return f"the run stopped in epoch {stopped}, but its last metrics are of step {series.last:g}"
    epochs = 0 if early else series.epochs.total or _only(record.epochs_stated)
    if missing := series.missing() or series.epochs.missing(series, epochs):
        return missing
    stated = epochs if name in ("script", "script_epochs") else _only(record.steps_stated)
    from_0 = series.first == 0 and not TRAINERS[name].ends_at_total
    left = _before_last(name, series, epochs, stated, from_0, end, rest)
    if left or not record.ends_of_parts or series.total or stated or epochs:
        return "" if early else left
    return f"{series.words()}, with the same words about an end between them: nothing shows how many there were to be"


def _said_since(lines: list[str], series: Series, early: bool) -> str:
    """Return which line after the last metrics says that further epochs have none, or that not all tests passed; "" if none."""
    for line in lines:
        epochs = None if early else _EPOCHS_WITHOUT.search(line)
        if epochs and int(epochs["first"]) == series.last + 1 < int(epochs["last"]):
            return f"no metrics of the epochs that a line names: {line.strip()[:200]}"
        if (tests := _PASSED.search(line)) and int(tests["passed"]) < int(tests["all"]):
            return line.strip()[:200]
    return ""


def _last_epoch_whole(tail: bytes) -> bool:
    """Return whether the last epoch of Keras has a full bar like the one before it, with the validation if that had one."""
    epochs: list[list[str]] = []
    for raw in re.split(rb"[\r\n]+", tail):
        text = log_lines.plain(raw)
        if re.match(r"Epoch \d+/\d+$", text):
            epochs.append([])
        elif epochs and (bar := _FULL_BAR.match(text)):
            epochs[-1].append(f"{bar['all']} {'val_' if 'val_' in text else ''}")
    if not epochs or not epochs[-1]:
        return False
    return len(epochs) == 1 or not epochs[-2] or epochs[-2][-1] in epochs[-1]


def _only(stated: set[int]) -> int:
    """Return the number that was stated; 0 if none was, or several were."""
    return next(iter(stated)) if len(stated) == 1 else 0


def _before_last(
    name: str, series: Series, epochs: int, stated: int, from_0: bool, end: re.Match[str] | None, rest: list[str]
) -> str:
    """Return how far the steps are from the last one that there was to be; "" if they are not.

    ``stated``: how many the options of the script say.
    """
    of_epochs = series.epochs.now is not None
    total = int((end and end.groupdict().get("last")) or series.total or 0)
    if of_epochs and not (epochs or end or series.epochs.run_on):
        return f"{series.words()}: nothing shows how many epochs there were to be"
    if of_epochs and not series.epochs.run_on:
        total *= epochs or (series.epochs.now or 0) + 1 - series.epochs.first
    elif not of_epochs:
        total = total or stated
    if not total:
        return "" if end and series.gaps else f"{series.words()}: nothing shows how many there were to be"
    if series.last > total:
        return f"step {series.last:g} of {total:g} is logged"
    # Of steps from 0, the last one of n may be n - 1 or n: more lines, of none of which a step is named, show that it went on.
    went_on = bool(end or (rest and not any(_NAMES_STEP.search(line) for line in rest if not line.startswith("wandb: "))))
    left = total - series.last - (from_0 and (went_on or not series.total or TRAINERS[name].counts_from_0))
    return f"the last step with metrics is {series.last:g} of {total:g}" if left >= (series.usual if went_on else 1) else ""


def _again(head: bytes, name: str, rest: list[str]) -> str:
    """Return a line of those after the last step that the log had before its first one, if there are several; "" otherwise."""
    before = itertools.takewhile(
        lambda line: not any(_shows(kind, line) for kind in TRAINERS[name].logged),
        (log_lines.clean(line, 0).text for line in head.splitlines()),
    )
    known = {shape for line in before if (shape := _shape(line))}
    again = [line for line in rest if _shape(line) in known]
    return again[0].strip() if len(set(map(_shape, again))) > 1 else ""


def _shape(line: str) -> str:
    """Return the words of a line without its numbers; "" for one that says little, or that warns."""
    words = _NUMBERS.sub(" ", line).split()
    return "" if len(words) < 2 or "arning" in line or "%|" in line else " ".join(words)


def _after(lines: list[str], name: str, end: str) -> list[str]:
    """Return the lines with text after the one with the words ``end``, or after the last one with metrics."""
    for at in reversed(range(len(lines))):
        if end in lines[at] if end else any(_shows(kind, lines[at]) for kind in TRAINERS[name].logged):
            return [line for line in lines[at + 1 :] if line.strip()]
    return []


def _shows(kind: StepLine, line: str) -> bool:
    """Return whether a line shows a step with its loss."""
    match = re.search(kind.pattern, line)
    return bool(match and "metrics" in match.groupdict() and re.search(kind.trained, match["metrics"]))
