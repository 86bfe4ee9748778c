"""How far a run is: the phases, their names for people, and the lines of a log that begin each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from ..trainers.patterns.of_trainers import TRAINERS

Phase = Literal["start", "build", "train", "done"]
PHASES: tuple[Phase, ...] = ("start", "build", "train", "done")
"""Before the model is built; until the first step begins; until the run reports its end; after that."""
WORDS: dict[str, str] = {
    "start": "before the model was built",
    "build": "while the model was built",
    "train": "in training",
    "done": "after the last step",
}
"""The phases for a person."""
OutlivedBy = Literal["steps", "phase", "nothing"]
OUTLIVED_STEPS = 2
"""A run has outlived an error when it has done this many more steps (one may have been in progress)."""


class Mark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line that contains one of ``any`` and matches ``regex`` begins ``phase``; the group ``step`` is the step just done.

    After training, ``start`` means that another run begins in the same log.
    """

    phase: Phase
    any: Annotated[list[str], msgspec.Meta(min_length=1)]
    regex: str = ""
    trainer: str = ""
    """The trainer that prints it; "" for other programs."""
    after_end: bool = False
    """It means another run only after the end of one; a helper of a run may print it, too."""

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.regex)


def trainer_marks() -> list[Mark]:
    """Return the marks that follow from the lines of every known trainer."""
    return [
        Mark(phase=phase, any=list(kind.words), regex=kind.pattern, trainer=name)
        for name, trainer in TRAINERS.items()
        for phase, kinds in zip(PHASES, (trainer.begins, trainer.built, trainer.stepped, trainer.finished), strict=True)
        for kind in kinds
    ]


@dataclass(frozen=True)
class Progress:
    """How far a run is: its phase, and the last step done."""

    phase: Phase = "start"
    step: int | None = None

    def outlives(self, then: Progress, by: OutlivedBy) -> bool:
        """Return whether a run that is this far has outlived what happened ``then``; ``by`` says what proves that."""
        if by == "nothing":
            return False
        # A finished step proves that everything had been built, and the end proves that nothing was missing.
        trained = self.phase == "done" or (self.phase == "train" and bool(self.step))
        if self.phase != then.phase and (by == "phase" or trained):
            return True
        return by == "steps" and self.step is not None and self.step >= (then.step or 0) + OUTLIVED_STEPS


def later(phase: Phase, other: Phase) -> bool:
    """Return whether ``phase`` comes after ``other``."""
    return PHASES.index(phase) > PHASES.index(other)
