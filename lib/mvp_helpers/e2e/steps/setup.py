"""Step "setup": the user's own command that makes the environment ready."""

from __future__ import annotations

from pathlib import Path

from .. import execute
from ..context import Context
from ..step import Step, last_line, step_of


def run(context: Context, place: Path) -> Step:
    """Run it in the same container as everything after it; Blocked when it fails."""
    request, cwd = context.request, context.cwd(context.planned[0])
    log, argv = place / "setup.log", ["bash", "-c", request.setup]
    env = {**context.base, "PYTHONPATH": context.inherited}
    outcome = execute.run(argv, cwd, env, log, context.mark, request.timeout_s, request.stall_s)
    step = step_of("Pass" if outcome.good else "Blocked", f"{request.setup}: {outcome.summary()}", log=log)
    step.command, step.cwd, step.outcome = argv, str(cwd), outcome
    step.limitations.append(f"the environment was prepared by: {request.setup}")
    if not outcome.good and (line := last_line(log)):
        step.reason += f": {line}"
    return step
