"""What the model said in the last steps of a job: ``rollouts/<step>.jsonl``, written by verl, pruned by the job runner.

Source: ``_write_generations`` in verl/trainer/ppo/v1/trainer_base.py, with ``trainer.rollout_data_dir``.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import msgspec

from ..base import files
from ..base.documents import Damaged, as_number, from_json

DEFAULT_STEPS, MOST_STEPS = 20, 1000
MOST_BYTES = 64 << 20
"""Of all files together; the file of a single step that is larger is cut."""
LONGEST_LINE = 16 << 20
"""Bytes of an answer with its prompt."""
_NAME = re.compile(r"([0-9]{1,9})\.jsonl")


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """One answer; ``number`` is its line in the file of its step, from 1."""

    step: int
    number: int
    prompt: str
    answer: str
    ground_truth: Any
    score: float | None


def by_step(folder: Path) -> dict[int, Path]:
    """Return the files by step, the oldest step first; none of a folder that is missing."""
    found = {}
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if (match := _NAME.fullmatch(path.name)) and path.is_file() and not path.is_symlink():
                found[int(match[1])] = path
    return dict(sorted(found.items()))


def prune(folder: Path, keep: int, *, spare_newest: bool = False, most: int = MOST_BYTES) -> None:
    """Remove the files of all but the last ``keep`` steps, and the oldest of these until the rest has ``most`` bytes.

    A folder that is a link, or cannot be read or written, stays as it is.
    """
    if folder.is_symlink():
        return
    steps = list(by_step(folder).values())[: -1 if spare_newest else None]
    with contextlib.suppress(OSError):
        for path in steps[: max(0, len(steps) - keep + spare_newest)]:
            path.unlink()
        left = steps[max(0, len(steps) - keep + spare_newest) :]
        sizes = [path.stat().st_size for path in left]
        for path, size in zip(left[:-1], sizes[:-1], strict=True):
            if sum(sizes) <= most:
                return
            path.unlink()
            sizes.remove(size)
        if left and sizes[-1] > most:
            with files.opened(left[-1]) as stream:
                data = stream.read(most)
            files.write_bytes(left[-1], data[: data.rfind(b"\n") + 1])


def read(path: Path, step: int) -> list[Rollout]:
    """Return the answers of a step, in the order of the file; a damaged line is left out. Raises OSError."""
    found = []
    with files.opened(path) as stream:
        for number, line in files.lines(stream, LONGEST_LINE):
            with contextlib.suppress(Damaged):
                found += _rollouts(step, number, from_json(line))
    return found


def _rollouts(step: int, number: int, document: Any) -> list[Rollout]:
    """Return the answer in one line, or nothing."""
    match document:
        case {"input": str(prompt), "output": str(answer), **more}:
            score = as_number(more["score"]) if more.get("score") is not None else None
            truth = more.get("gts")
            return [Rollout(step=step, number=number, prompt=prompt, answer=answer, ground_truth=truth, score=score)]
    return []
