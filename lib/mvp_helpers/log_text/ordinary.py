"""Lines of a training that need no look of their own, taken many at once: nearly all of a long log.

Such lines differ from others in their digits alone. What a line can mean is therefore remembered by its other characters, its
shape, and only what depends on the digits is read in every line: its step, and whether its numbers are usual ones. A line is
taken only if a look at it would have the same effect, so that what is taken together never changes an answer.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections.abc import Iterable, Sequence

from ..trainers.patterns.of_trainers import VERL
from . import doubts
from .log_lines import Samples, has_any
from .step_record import StepRecord

METRICS, TRAINED, EXPONENT, BAR, CHECKPOINT = 1, 2, 4, 8, 16
"""What a line may be by its shape: metrics, those of a step that was trained, with a number like 1e-05; a progress bar; a report
of a checkpoint that is written."""
MOST_SHAPES, LONGEST_SHAPE = 2048, 1 << 13
"""This many shapes, of this many bytes, are remembered."""
BEGINNING = 128
"""Bytes of a line in which its step is looked for first."""
_DIGITS = b"0123456789.+-" + bytes(range(128, 256))
"""What numbers and progress bars consist of, besides the exponents of numbers (1.5e-07)."""
_STEP = re.compile(rb" step:(\d{1,12}) - ")
_UNDER_WAY = re.compile(rb"(?m)^\d*:\d*:" + VERL.under_way.encode() + rb"$")
_SAVED_STEP = re.compile(VERL.saved_step.encode())
_EXPONENT = re.compile(rb"(?<![A-Za-z_/])[eE]")
"""An exponent in a shape: only letters before a number, not within a word, are one."""
_ZERO_NORM = re.compile(rb"norm:[-+.,0]+(?:[eE][-+]?\d+)?(?:\s|$)")
_ODD_EXPONENTS = tuple(re.compile(letter + rb"(?:\+?\d{3}|-(?:[4-9]\d|\d{3}))") for letter in (b"e", b"E"))
"""Numbers that may be too large, or as good as zero; a pattern for both letters would take five times as long."""
_CHECK, _TABLE = b"PASS", b"+---"
"""What a line of a table of checks contains."""
_REWARDS = b"critic/score/mean:", b"critic/rewards/mean:"
_UNUSUAL = re.compile(
    rb"(?i)nan|[:=(\[](?:inf|non|null|zro|nil\b|na\b|n/a|undfind|#)|[<`*|]|#(?:inf|ind|[qs]nan)|inf(?:inity)?(?=[\s)\],]|$)|[:=(\[]\s+(?:inf(?:inity)?|non|null|nil|na|n/a)(?![a-z_/])"
    rb"|rror|['\"]|norm:\S|%\||loss.* val|grad_norm.* val| val.*(?:loss|grad_norm)"
)
"""What makes a line of metrics more than a report of a step, in a shape without the letter e ("non" is "none")."""


def _without_e(text: bytes) -> bytes:
    """Return the shape of ``text`` without the letters of exponents."""
    return text.translate(None, _DIGITS + b"eE")


class Shapes(dict[bytes, int]):
    """What a line may be, by its shape; 0 if it needs a look of its own, whatever its digits are."""

    def __init__(self, words: Iterable[bytes]) -> None:
        """Begin with no shapes. A line without any of ``words`` has no meaning."""
        super().__init__()
        harmless = {word.encode() for word in (*doubts.CHECKPOINT_WORDS, *VERL.saved_step_words)}
        # Of other words than ASCII a shape shows nothing: ``take`` refuses lines with such characters.
        self._words = [_without_e(word) for word in (*words, _CHECK) if word not in harmless and word.isascii()]
        self._failed = [_without_e(word.encode()) for word in doubts.NOT_SAVED_WORDS]

    def __missing__(self, shape: bytes) -> int:
        short = _without_e(shape)
        # Which numbers have an exponent changes from step to step.
        kind = self._kind(short) if short == shape else self[short]
        if kind & METRICS and _EXPONENT.search(shape):
            kind |= EXPONENT
        if len(self) >= MOST_SHAPES:
            self.clear()
        if len(shape) <= LONGEST_SHAPE:
            self[shape] = kind
        return kind

    def _kind(self, shape: bytes) -> int:
        if b"stp:" in shape:
            if shape.count(b" stp:") != 1 or _UNUSUAL.search(shape) or Samples.BEGIN in shape:
                return 0
            return METRICS | TRAINED if has_any(shape, (b"loss", b"grad_norm")) else METRICS
        if b"Training Progrss:" in shape:
            return BAR
        return 0 if has_any(shape, self._words) or has_any(shape.lower(), self._failed) else CHECKPOINT

    def of(self, lines: Sequence[bytes]) -> list[int]:
        """Return what each of the lines may be."""
        return list(map(self.__getitem__, b"\n".join(lines).translate(None, _DIGITS).split(b"\n")))


def take(record: StepRecord, lines: Sequence[bytes], kinds: Sequence[int]) -> int | None:
    """Add lines of a run in training to its record, and return the last step that they show as done, -1 if they show none.

    Return None, and add none, if one of them needs a look of its own. ``lines`` are like ``12:345:line``, by number and offset.
    """
    found = set(kinds)
    if 0 in found:
        return None
    bars = _those(lines, kinds, BAR, found)
    done = list(map(int, _UNDER_WAY.findall(b"\n".join(bars))))
    checkpoints = b"\n".join(_those(lines, kinds, CHECKPOINT, found))
    if len(done) != len(bars) or not checkpoints.isascii() or _TABLE in checkpoints:
        return None
    if metrics := _those(lines, kinds, METRICS, found):
        steps = _steps(record, metrics, kinds if metrics is lines else [kind for kind in kinds if kind & METRICS])
        if steps is None:
            return None
        done += steps
    saved = map(int, set(_SAVED_STEP.findall(checkpoints)))
    record.furthest = max([record.furthest, *done, *saved])
    return max(done, default=-1)


def _those(lines: Sequence[bytes], kinds: Sequence[int], wanted: int, found: set[int]) -> Sequence[bytes]:
    """Return the lines of the kind ``wanted``; ``found``: all kinds among them."""
    having = {kind & wanted for kind in found}
    if len(having) == 1:
        return lines if having.pop() else ()
    return list(itertools.compress(lines, map(wanted.__and__, kinds)))


def _steps(record: StepRecord, lines: Sequence[bytes], kinds: Sequence[int]) -> list[int] | None:
    """Add lines of metrics, and return their steps; None, and add none, where one needs a look of its own."""
    found = functools.reduce(operator.or_, set(kinds))
    series = record.series.get("verl")
    if found & TRAINED and (series is None or series.first is None):
        return None
    text = b"\n".join(lines)
    texts = _STEP.findall(b"\n".join(map(_beginning, lines)))
    if len(texts) != len(lines):
        texts = _STEP.findall(text)
    if len(texts) != len(lines) or not _usual(record, text, found):
        return None
    steps = list(map(int, texts))
    if of_training := list(itertools.compress(steps, map(TRAINED.__and__, kinds))):
        if series is None or not series.add_next(of_training):
            return None
        record.steps += len(of_training)
        if not record.by_step.full:
            for line in itertools.compress(lines, map(TRAINED.__and__, kinds)):
                record.by_step.add(line.decode())
    return steps


_beginning = operator.itemgetter(slice(BEGINNING))


def _usual(record: StepRecord, text: bytes, found: int) -> bool:
    """Return whether lines of metrics have finite numbers, gradients above zero, and rewards that change nothing."""
    if not text.isascii() or _ZERO_NORM.search(text):
        return False
    if found & EXPONENT and any(odd.search(text) for odd in _ODD_EXPONENTS):
        return False
    if len(record.rewards) > 1 or b"/mean:" not in text:
        return True
    same = b"%b " % "".join(record.rewards).encode()
    return all(text.count(name + same) == text.count(name) for name in _REWARDS)
