"""Which steps a log does not show of the run whose end it reports."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ..log_text.series import Series
from ..log_text.step_record import StepRecord
from ..trainers.patterns.of_scripts import SCRIPTS
from ..trainers.patterns.of_trainers import TRAINERS
from . import script_runs

ROUNDED = 0.011
"""How far an epoch with two digits may be from the exact one."""
OTHER_END = "only a launcher or another program reports the end, not what trained"
NO_STEP = "no training step with its metrics is in the log"
_STOPPED_EARLY = re.compile(rb"EarlyStopping: Training stopped early|\bStopping training early\b")
"""Ultralytics before its last lines."""
_NUM_EPOCHS = re.compile(rb"\bNum Epochs = (\d[\d,]{0,12})\b")
"""In what transformers prints before the first step."""
_VALIDATION = re.compile(rb"\bClass +Images +Instances\b[^\n]*?(\d{1,3})%(?:\||\s)")
"""A bar of Ultralytics' validation."""
_MENTIONING = frozenset(name for name, lines in TRAINERS.items() if lines.mentions)


def gap(record: StepRecord, head: bytes, tail: bytes) -> str:
    """Return which steps of the trainer that reports its end are missing; "" if none are."""
    if of_script := script_runs.of(record):
        reported = {of_script, "lightning", "deepspeed"} & record.ends.keys()
        return script_runs.gap(record, head, tail) if reported else OTHER_END
    # Lightning, or a script with bars like its own, whose end the script reports.
    by_script = record.ends.keys() <= {*SCRIPTS, "deepspeed"} and list(record.trained) == ["lightning"]
    ends = {"lightning": next(iter(record.ends.values()))} if by_script else record.ends
    gaps = [
        _epochs_left(trainer, match, head)
        or _gap_of(record, trainer, match)
        or _fewer(record, trainer, match, tail)
        or _validation_cut(trainer, tail)
        for trainer, match in ends.items()
    ]
    if not gaps:
        return OTHER_END if record.trained else NO_STEP
    return "" if "" in gaps else gaps[0]


def _fewer(record: StepRecord, trainer: str, end: re.Match[str], tail: bytes) -> str:
    """Return how many epochs the end counts, if there were to be more and nothing says that the run stopped early."""
    counted, series = int(end.groupdict().get("count") or 0), record.series.get(trainer)
    from_0 = series is not None and series.first == 0
    wanted = max([*record.epochs_stated, *([(series.total or 0) + 1] if series and from_0 else [])], default=0)
    fewer = counted and not record.resumed and counted < wanted and not _STOPPED_EARLY.search(tail)
    return f"{counted} epochs completed of {wanted}" if fewer else ""


def _epochs_left(trainer: str, end: re.Match[str], head: bytes) -> str:
    """Return how many of the epochs that transformers' header states its end has not reached; "" if all.

    With max_steps the last one of them need not be whole.
    """
    stated = _NUM_EPOCHS.findall(head) if trainer == "transformers" else []
    reached = float(end.groupdict().get("epoch") or 0)
    wanted = int(stated[-1].replace(b",", b"")) if stated else 0
    return f"the end reports epoch {reached:g} of {wanted}" if 0 < reached <= wanted - 1 else ""


def _validation_cut(trainer: str, tail: bytes) -> str:
    """Return where the last validation of Ultralytics stopped, if not at its end; "" otherwise."""
    bars = _VALIDATION.findall(tail.replace(b"\r", b"\n")) if trainer == "ultralytics" else []
    return f"the last validation stopped at {int(bars[-1])}%" if bars and int(bars[-1]) < 100 else ""


def unfinished(record: StepRecord) -> str:
    """Return which step a training without an end did not reach; "" if that is not known."""
    for trainer, series in record.trained.items():
        wanted = series.total or (record.furthest if trainer in _MENTIONING else 0)
        if trainer not in SCRIPTS and series.last < wanted:
            return f"the last step with metrics is {series.last:g} of {wanted:g}"
    return ""


def _gap_of(record: StepRecord, trainer: str, end: re.Match[str]) -> str:
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
    # Of rounded epochs, _hidden looks at the first one, unless the run was resumed at a step that is known in epochs.
    exact = not groups.get("epoch") or (record.resumed and groups.get("speed"))
    begins = max(0 if series.in_epochs and exact else 1, series.usual * 1.5)
    if TRAINERS[trainer].interval and record.intervals == {first}:  # a short run may log one step only
        begins = max(begins, first)
    resumed = _in_epochs(record.resumed, groups) if groups.get("epoch") else record.resumed
    if first > begins and not any(first - series.usual - ROUNDED <= step < first for step in resumed):
        return f"{series.words()}: nothing shows why the metrics do not begin with step 1"
    if missing := series.missing():
        return missing
    from_0 = first == 0 and (series.every_step or TRAINERS[trainer].counts_from_0)
    counted = int(groups.get("count") or 0)  # of this run alone, which may go on after the step before the first
    said = float(groups.get("last") or 0) or (max(first, 1) - 1 + counted if counted else 0)
    last = said or float(groups.get("epoch") or series.total or 0)
    wanted = max(last, record.furthest if trainer in _MENTIONING else 0)
    if said and series.last + bool(counted and from_0) > last:
        return f"the end reports {last:g} steps, but step {series.last:g} is logged"
    between = max(series.average, 0.02) if groups.get("epoch") else max(series.usual, 1)
    done = series.last + from_0
    if wanted and round(wanted - done, 6) >= between:
        return f"the last step with metrics is {series.last:g} of {wanted:g}"
    return ""


def _in_epochs(steps: Collection[int], end: Mapping[str, str | None]) -> list[float]:
    """Return after which epoch a run goes on, of ``steps``; ``end``: its epochs, running time and speed, which tell all steps."""
    every = round(float(end["seconds"] or 0) * float(end["speed"] or 0))
    return [step / every * float(end["epoch"] or 0) for step in steps] if every else []


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
