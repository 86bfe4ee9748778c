"""Which of a job's answers to show: of one step the first, worst or best; or the prompts whose scores changed most."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from ..base.errors import BadInput
from ..base.paths import JobFolder
from ..trainers import verl_rollouts
from ..trainers.verl_rollouts import Rollout

Order = Literal["first", "worst", "best", "changed"]
Answers = dict[int, list[Rollout]]
"""By step, the oldest first."""


def kept(folder: JobFolder) -> Answers:
    """Return the answers that a job kept. Raises BadInput when there are none."""
    answers: Answers = {}
    for step, path in verl_rollouts.by_step(folder.rollouts).items():
        try:
            if rows := verl_rollouts.read(path, step):
                answers[step] = rows
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}") from None
    if not answers:
        raise BadInput(
            f"job '{folder.submission_id}' kept no samples: {folder.rollouts} has none",
            hint="PPO and GRPO keep those of the last steps, unless their JobSpec has keep_rollouts: 0; SFT generates none",
        )
    return answers


def groups(answers: Answers, step: int | None, order: Order, most: int) -> list[list[Rollout]]:
    """Return groups of answers to the same prompt, each the oldest step first, at most one answer of a step.

    ``step`` (default: the newest) is the one whose answers are chosen; the same prompt's answers of other steps are beside them.
    Raises BadInput for a step that was not kept, or when no prompt was kept in two steps.
    """
    if order == "changed":
        return _changed(answers, most)
    chosen_step = max(answers) if step is None else step
    if chosen_step not in answers:
        raise BadInput(f"step {step} is not among the kept ones: {spans(answers)}", hint=f"--step {max(answers)}")
    chosen = answers[chosen_step]
    if order != "first":
        scored = [row for row in chosen if row.score is not None and row.score == row.score]
        chosen = sorted(scored, key=lambda row: row.score or 0.0, reverse=order == "best")
    others = _first_by_prompt({each: rows for each, rows in answers.items() if each != chosen_step})
    return [sorted([row, *others.get(row.prompt, ())], key=lambda each: each.step) for row in chosen[:most]]


def _first_by_prompt(answers: Mapping[int, Sequence[Rollout]]) -> dict[str, list[Rollout]]:
    """Return the first answer of each step to each prompt."""
    found: dict[str, dict[int, Rollout]] = {}
    for step, rows in answers.items():
        for row in rows:
            found.setdefault(row.prompt, {}).setdefault(step, row)
    return {prompt: list(by_step.values()) for prompt, by_step in found.items()}


def _changed(answers: Answers, most: int) -> list[list[Rollout]]:
    """Return the prompts of several steps whose mean score changed most between the first and the last of these."""
    found = [rows for rows in _first_by_prompt(answers).values() if len(rows) > 1]
    if not found:
        raise BadInput(
            f"no prompt was answered in two of the kept steps: {spans(answers)}",
            hint="keep_rollouts in the JobSpec keeps more steps; a prompt comes again in the next epoch",
        )
    scores: dict[tuple[int, str], list[float | None]] = {}
    for step, rows in answers.items():
        for row in rows:
            scores.setdefault((step, row.prompt), []).append(row.score)
    means = {key: _mean(own) for key, own in scores.items()}

    def change(rows: list[Rollout]) -> float:
        return abs(means[rows[-1].step, rows[-1].prompt] - means[rows[0].step, rows[0].prompt])

    return sorted(found, key=change, reverse=True)[:most]


def _mean(scores: Sequence[float | None]) -> float:
    known = [score for score in scores if score is not None and score == score]
    return statistics.fmean(known) if known else 0.0


def spans(answers: Mapping[int, object]) -> str:
    """Return the kept steps: ``3, 5-20``."""
    texts: list[str] = []
    begin = previous = None
    for step in [*sorted(answers), None]:
        if previous is not None and step != previous + 1:
            texts.append(f"{begin}-{previous}" if begin != previous else str(begin))
            begin = None
        begin = step if begin is None else begin
        previous = step
    return ", ".join(texts)
