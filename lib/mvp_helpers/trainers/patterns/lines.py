"""What a program's lines are described by: regular expressions for ``re.search`` on one line of text without colours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LineKind:
    """Lines that contain one of ``words`` (a fast search finds those first) and match ``pattern``.

    The group ``step`` of the pattern is the step just done, ``next_step`` the step that begins.
    """

    words: tuple[str, ...]
    pattern: str = ""


@dataclass(frozen=True)
class StepLine:
    """Text with the metrics of a training step; it contains ``word`` and matches ``pattern``, perhaps several times in a line.

    The group ``metrics`` is the text with the values; ``note`` is one that proves no step. ``step`` or ``epoch`` (a fraction) is
    which step it is, ``total`` how many there are; where steps start again with every epoch, ``round`` is the epoch from 0, and
    ``total`` counts the steps of one. A script's steps may do so or not: ``in_epoch`` is its epoch, perhaps of ``epochs``.
    Without either, the step is the one that the last line with ``begun`` began; after a line with ``epoch_begun`` (from 1) these
    begin with 1 again.
    """

    word: str
    pattern: str
    trained: str = ""
    """A metric that only training logs; a line without it (of a validation) does not show that the step was trained."""


@dataclass(frozen=True)
class LogPatterns:
    """One trainer's lines; "" and () where the trainer prints no such line."""

    begins: tuple[LineKind, ...] = ()
    """A run begins."""
    logged: tuple[StepLine, ...] = ()
    """The metrics of a training step."""
    ends_at_total: bool = False
    """A script that counts from 0 up to the number of its steps, not to the one before."""
    every_step: bool = False
    """Each step is logged, not only each n-th."""
    redrawn: bool = False
    """Its bar may show a step more than once."""
    mentions: str = ""
    """A step that the run reached or was to reach, in the group that matches, whatever else the line reports."""
    mention_words: tuple[str, ...] = ()
    """Every such line, and every bar of ``position``, contains one of them."""
    ended_well: tuple[LineKind, ...] = ()
    """The trainer's launcher reports that its command succeeded; this alone does not show which step was the last."""

    built: tuple[LineKind, ...] = ()
    """The model has been, or is being, built."""
    stepped: tuple[LineKind, ...] = ()
    """A training step is done, or begins; step 0 is done when the first one begins."""
    finished: tuple[LineKind, ...] = ()
    """The run has reached its end."""
    metrics_word: str = ""
    """Every line of metrics contains this word, so that a fast search can find them."""
    metrics: str = ""
    """The beginning of a line of metrics, ``step:N - key:value - ...``; the group ``step`` is the step."""
    percent: str = ""
    """A progress bar; the group ``percent`` says how far it is."""
    under_way: str = ""
    """A line that is only a progress bar, neither at its beginning nor at its end; the group ``step`` is done."""
    saved_step: str = ""
    """A checkpoint's path, which mentions the step in the group."""
    saved_step_words: tuple[str, ...] = ()
    """Every such path contains one of them."""
    interval: str = ""
    """The run was started to log each n-th step; the group is n."""
    interval_words: tuple[str, ...] = ()
    """Every such line contains one of them."""
    resumed: str = ""
    """A checkpoint was loaded; the group that matches is its step."""
    resumed_words: tuple[str, ...] = ()
    """Every such line contains one of them."""
    position: str = ""
    """A progress bar when it is first drawn; the group is the step that it begins after."""
    goes_on: str = ""
    """The run goes on with the step in the group that matches."""
    counts_from_0: bool = False
    """The first step may be 0."""
    first_part: str = ""
    """What a log contains of the first part of a run whose step numbers continue those of an earlier run."""
    from_scratch: str = ""
    """No checkpoint, or not all of one, was loaded."""
    optimizer_read: str = ""
    """The optimizer's state was read from a checkpoint; the groups ``step`` and ``model`` are those in its path."""
    trainable: str = ""
    """The number (or percentage) of trainable parameters, in the group that matches."""
    sample: tuple[str, ...] = ()
    """Beginnings of the lines in which a reward manager prints a prompt, then its answer, and last what was expected."""
