"""What lines say of a run: how far it was to go, where it goes on, that it ended, what it claims."""

from __future__ import annotations

import re

from ..log_text.log_lines import ByWords
from ..trainers.patterns.of_trainers import TRAINERS
from . import metric_checks

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
    r"(?:(?:num|max|n|total)?[_-]?(?:train(?:ing)?[_-])?epoche?s)['\"]?\s{0,3}(?:[:=]\s{0,3}|\s)"
    r"(\d{1,6})(?![\w.]*\d)|batch[ _]size\W{1,3}\d+, (?:train(?:ing)?|total) epoch: (\d{1,6})\b"
    r"|^\W*(?:start\w* )?(?:training|fine-?tuning)\b(?: [a-z]\w*){0,4} ?(?:for|\((?:[^()=]{1,60}, )?) ?(\d{1,6}) epochs\b"
)
"""How many epochs a script was started with."""
_EPOCH_WORDS = (
    *("pochs", "poches", "POCHS"),
    *(", training epoch: ", ", train epoch: ", ", total epoch: "),
)
_ITERATIONS = (
    r"(?i)(?:^|(?<=[\s,{(\[\"'-]))max[_-](?:train[_-])?(?:iters|iterations|steps)['\"]?\s{0,3}(?:[:=]\s{0,3}|\s)"
    r"(\d{1,9})(?![\w.]*\d)|\b(?:total optimization steps = |Config param steps: )(\d{1,9})(?![\w.,]*\d)"
)
"""How many steps."""
_ITERATION_WORDS = (
    "otal optimization steps = ",
    "Config param steps: ",
    *(f"max{gap}{what}" for gap in "_-" for what in ("iters", "iterations", "steps", f"train{gap}iters", f"train{gap}steps")),
)
WORDS = (
    *{word for lines in TRAINERS.values() for word in (*lines.resumed_words, *lines.mention_words, *lines.interval_words)},
    *{word for lines in TRAINERS.values() for kind in lines.ended_well for word in kind.words},
    *(*metric_checks.WORDS, *_EPOCH_WORDS, *_ITERATION_WORDS, *_CLAIM_WORDS, *_LOSS_WORDS),
)
"""Lines that prove or contradict a success contain one of these, except lines of metrics."""

NOT_RESUMED = re.compile(
    r"(?i)\b(?:not?|if|would|could|cannot|skip\w*|fail\w*|unable|error|ignored?)\b[^/]*\bresum|\bresum.*\b(?:failed|ignored|if|not)\b"
)
"""A line that mentions resuming a run without having done so."""
OF_RUNS = ByWords(
    ((what, re.compile(pattern)), words)
    for what, pattern, words in (
        *(("furthest", lines.mentions, lines.mention_words) for lines in TRAINERS.values()),
        *(("after", lines.position, lines.mention_words) for lines in TRAINERS.values()),
        *(("after", lines.resumed, lines.resumed_words) for lines in TRAINERS.values()),
        *(("interval", lines.interval, lines.interval_words) for lines in TRAINERS.values()),
        *(("before", lines.goes_on, lines.mention_words) for lines in TRAINERS.values()),
        *(("end", kind.pattern, kind.words) for lines in TRAINERS.values() for kind in lines.ended_well),
        ("epochs", _EPOCHS, _EPOCH_WORDS),
        ("steps", _ITERATIONS, _ITERATION_WORDS),
        ("claim", _CLAIM, _CLAIM_WORDS),
        ("loss", _LOSS, _LOSS_WORDS),
    )
    if pattern
)
"""What lines say of a run: the furthest step, the one before or after which it goes on, its end; and their patterns."""


def numbers(pattern: re.Pattern[str], text: str) -> list[int]:
    """Return the groups that match, of every match of ``pattern``."""
    return [int(group) for match in pattern.finditer(text) for group in match.groups() if group]
