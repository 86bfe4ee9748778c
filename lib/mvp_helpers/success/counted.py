"""What a log counts or states of its work - items, folds, seeds, bars - beside the last one that it shows.

Pure over lines without colours and prefixes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

_DONE_OF = re.compile(
    r"(?<![\d.])(?P<done>\d{1,9}) ?(?:/|of) ?(?P<all>\d{1,9})(?![\d.])[\w ()%]{0,30}"
    r"\b(?:done|completed?|finished|processed|converted|answered|uploaded|downloaded|copied|ready)\b"
)
_DONE_BEFORE = re.compile(
    r"(?i)\b(?:converted|processed|evaluated|answered|uploaded|downloaded|copied|merged|completed)\b\W{1,3}(?P<done>\d{1,9})"
    r" ?(?:/|of) ?(?P<all>\d{1,9})(?![\d.])"
)
_LABELLED_BAR = re.compile(r"^(?P<label>[^%|\d]{0,80}?):? *(?P<percent>\d{1,3})%\|")
"""A bar of tqdm, by its label."""
_FOLDS = re.compile(
    r"(?i)\b(?P<of>\d{1,3})[- ]folds?\b|\b(?:n_splits|[nk]_folds|num_folds)['\"]?\s{0,3}[:=]\s{0,3}(?P<stated>\d{1,3})\b"
)
_FOLD = re.compile(r"(?i)\b(?P<what>fold|round)\W{0,3}(?P<fold>\d{1,3})\b(?: ?(?:/|of) ?(?P<of>\d{1,3})\b)?")
_PART_OF = re.compile(
    r"(?i)\b(?P<what>seed|run|trial|generation|stage|phase|repeat|experiment)\W{0,3}(?P<fold>\d{1,3})"
    r" ?(?:/|of) ?(?P<of>\d{1,3})\b"
)
"""How many folds there are to be, and one of them, or of other parts."""
_SEEDS = re.compile(r"(?i)\bseeds?\b\W{1,4}(?P<seeds>\d{1,9}(?:(?:, ?| )\d{1,9})+)\b")
_SEED = re.compile(r"(?i)\bseed\W{0,3}(?P<seed>\d{1,9})\b(?![, ]+\d)")
"""The seeds with which the work is to be repeated, and one of them."""
_VARIES = re.compile(r"(?<!\S)[^\s\d/.]*+(?:[\d/]|\.(?=\w))\S*")
"""What differs in lines of one kind."""


def shape(text: str) -> str:
    """Return a line without its numbers and names with numbers: lines of one kind have the same."""
    return _VARIES.sub("", text)


def short(lines: Sequence[str]) -> bool:
    """Return whether the last of equal lines that count what is done (``3 of 5 steps done``), or of a bar, leaves any open."""
    last = {shape(text): match for text in lines if (match := _DONE_OF.search(text) or _DONE_BEFORE.search(text))}
    bars = {match["label"]: int(match["percent"]) for text in lines if (match := _LABELLED_BAR.match(text))}
    return any(int(match["done"]) < int(match["all"]) for match in last.values()) or any(done < 100 for done in bars.values())


def parts_left(lines: Sequence[str]) -> str:
    """Return which of the folds, or of other parts that are counted, was the last one, if more were to come; "" otherwise."""
    folds = max((int(match["of"] or match["stated"]) for text in lines if (match := _FOLDS.search(text))), default=0)
    parts: dict[str, list[re.Match[str]]] = {"fold": []}
    for match in itertools.chain.from_iterable(filter(None, (_FOLD.search(text), _PART_OF.search(text))) for text in lines):
        what = match["what"].lower()
        parts.setdefault("fold" if what == "round" else what, []).append(match)
    for what, found in parts.items():
        stated = max([folds if what == "fold" else 0, *(int(match["of"] or 0) for match in found)])
        numbers = [int(match["fold"]) for match in found]
        last = max(numbers, default=0)
        if stated > 1 and last + (0 in numbers) < stated:
            return f"{what} {last} of {stated}"
    return _seeds_left(lines)


def _seeds_left(lines: Sequence[str]) -> str:
    """Return which of the seeds that a line lists is not named again, if others are; "" otherwise."""
    stated = {seed for text in lines if (match := _SEEDS.search(text)) for seed in re.findall(r"\d+", match["seeds"])}
    seen = {match["seed"] for text in lines if not _SEEDS.search(text) for match in _SEED.finditer(text)} if stated else set()
    left = sorted(stated - seen, key=int) if seen & stated else []
    return f"nothing is logged of seed {left[0]}" if left else ""
