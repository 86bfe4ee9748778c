"""When a job counts as stalled, and the record of its stalls in ``result.json``.

The job runner decides and records; whoever follows a job applies the same rule.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec

from ..base.errors import BadInput
from ..base.paths import JobFolder
from ..base.times import clock
from . import control
from .metrics import Metrics

FACTOR, LEAST_S = 5.0, 60.0
"""Without a limit of its own a job is stalled after this many usual steps, and not before this many seconds."""
START_S = 900.0
MOST_BUNDLES = 3
"""Stalls of one job that get a bundle each; later ones are recorded without."""
MOST_RECORDED = 20
EVENT = "stalled"

OnStall = Literal["report", "stop"]
Described = msgspec.Meta


class StallLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``stall`` of a JobSpec: after how many seconds without a new step a job is stalled, and what happens then."""

    after_s: Annotated[
        Annotated[float, Described(ge=1)] | None,
        Described(description="Seconds without a new step; default: 5 usual steps, at least 60."),
    ] = None
    start_s: Annotated[
        float, Described(ge=1, description="Seconds until the first step, and from the last one to the end; default 900.")
    ] = START_S
    on_stall: Annotated[
        OnStall,
        Described(description="report: take a bundle and go on. stop: then also ask the trainer to save, and end the job."),
    ] = "report"


class Stall(msgspec.Struct, kw_only=True):
    """One stall, in ``result.json``. Times are UTC, ISO 8601; ``step`` is the last step before it."""

    step: int
    noticed_at: str
    limit_s: float
    cause: str = ""
    """What the bundle's analysis says; empty until it is there."""
    bundle: str = ""
    """The bundle's folder, relative to the job folder."""
    resumed_at: str | None = None
    """When the next step came."""

    @property
    def over(self) -> bool:
        return self.resumed_at is not None


def check(limits: StallLimits, source: str) -> None:
    """Raise BadInput for a limit that is not a finite number: YAML can write ``.nan`` and ``.inf``."""
    for name in ("after_s", "start_s"):
        if (value := getattr(limits, name)) is not None and not math.isfinite(value):
            raise BadInput(f"{source}: stall.{name} is {value}, not a number of seconds", hint="600")


def check_step(limits: StallLimits, usual_s: float | None, source: str, submission_id: str) -> None:
    """Raise BadInput for a limit below ``usual_s``, the usual step of job ``submission_id``, which this one goes on from."""
    if limits.after_s is not None and usual_s is not None and limits.after_s <= usual_s:
        raise BadInput(
            f"{source}: stall.after_s {limits.after_s:g} is shorter than a step of job '{submission_id}' ({usual_s:.1f} s)",
            hint=f"at least {math.ceil(FACTOR * usual_s)}, or leave it out",
        )


def usual_step_s(folder: JobFolder, metrics: Metrics) -> float | None:
    """Return the usual seconds of a step, from the job's metrics, else as its trainer reported them; None when not known."""
    usual = metrics.usual_step_s()
    if usual is not None or not metrics.trained:
        return usual
    trainer = control.trainer(folder)
    return trainer.step_s if trainer else None


def limit_s(limits: StallLimits, metrics: Metrics, usual: float | None, steps_total: int | None) -> float:
    """Return after how many seconds without a new step the job is stalled; ``usual`` are the seconds of a usual step."""
    if not metrics.trained:
        return limits.start_s
    from_steps = None if usual is None else max(LEAST_S, FACTOR * usual)
    if limits.after_s is not None and (usual is None or limits.after_s > usual):
        limit = limits.after_s
    else:
        limit = limits.start_s if from_steps is None else from_steps
    # The end of a training: saving, and whatever the trainer does after its last step.
    return max(limit, limits.start_s) if steps_total and metrics.last >= steps_total else limit


def describe(stall: Stall, silent_s: float | None = None) -> str:
    """Return one line: ``no step after step 12: rank 1 on worker-1, pid 4711, is stopped…; debug/…-stalled``."""
    since = f"after step {stall.step}" if stall.step else "yet"
    head = f"no step {since}" + (f" for {clock(silent_s)}" if silent_s is not None else f" within {clock(stall.limit_s)}")
    return f"{head}: {stall.cause or 'a bundle is being taken'}" + (f"; {stall.bundle}" if stall.bundle else "")
