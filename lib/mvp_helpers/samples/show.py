"""Answers for people: the prompt over the full width, below it the answers of its steps side by side."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from ..trainers.verl_rollouts import Rollout
from .width import shortened, side_by_side, wrap

NARROWEST = 36
"""Columns of an answer; as many as fit are side by side."""
MOST_BESIDE = 4
PROMPT_LINES, TRUTH_LINES, ANSWER_LINES = 8, 4, 16
BAR = " │ "
_ROLE = re.compile(r"^(system|user|assistant|tool)$", re.MULTILINE)


def page(groups: Sequence[Sequence[Rollout]], columns: int, *, full: bool = False) -> str:
    """Return the groups as lines of at most ``columns``; long prompts and answers are cut in the middle unless ``full``."""
    columns = max(20, columns)
    return "\n".join(line for at, group in enumerate(groups, 1) for line in _group(group, f"{at}/{len(groups)}", columns, full))


def _group(group: Sequence[Rollout], number: str, columns: int, full: bool) -> list[str]:
    last = group[-1]
    head = f"── {number} "
    lines = [head + "─" * (columns - len(head))]
    lines += _part(last.prompt, columns, PROMPT_LINES, full)
    if last.ground_truth is not None:
        lines += _part(f"expected: {last.ground_truth}", columns, TRUTH_LINES, full)
    beside = max(1, min(MOST_BESIDE, len(group), (columns + len(BAR)) // (NARROWEST + len(BAR))))
    # Of more steps than fit the first and the last ones.
    shown = [*group[:1], *group[1:][-(beside - 1) :]] if 1 < beside < len(group) else group[-beside:]
    room = (columns - len(BAR) * (len(shown) - 1)) // len(shown)
    parts = [[*wrap(_title(row), room), *_part(row.answer, room, ANSWER_LINES, full)] for row in shown]
    lines.append("")
    for cells in itertools.zip_longest(*parts, fillvalue=""):
        lines.append(side_by_side(cells, room, BAR))
    return [*lines, ""]


def _title(row: Rollout) -> str:
    score = "no score" if row.score is None else f"score {row.score:.4g}"
    return f"step {row.step}, answer {row.number}: {score}"


def _part(text: str, columns: int, most: int, full: bool) -> list[str]:
    # verl leaves out the special tokens of a chat template: of a turn only the name of its role remains.
    lines = wrap(_ROLE.sub(r"[\1]", text.strip("\n")), columns)
    return lines if full else shortened(lines, most)
