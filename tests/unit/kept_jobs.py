"""Jobs with checkpoints, alone and as attempts of a chain."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
from saved_checkpoints import save
from toys import plan_of

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.plan import plan
from mvp_helpers.record import chain as chains
from mvp_helpers.record import job_folder
from mvp_helpers.record.chain import Attempt, Chain, Retry
from mvp_helpers.record.job_folder import Result, State
from mvp_helpers.trainers.checkpoint import Resume

Run = Callable[..., tuple[int, str, str]]
"""Runs a verb; returns its exit code, stdout and stderr."""


def make_job(
    shared: SharedRoot, name: str, *steps: int, state: State = "FAILED", resumes: tuple[str, int] | None = None
) -> JobFolder:
    """A job that has saved whole checkpoints of these steps, and resumed that step of that job."""
    folder = job_folder.claim(shared, Result(submission_id=name, workload="ppo", state="CLAIMED"))
    the_plan, provenance = plan_of(name, shared.root), {}
    if resumes:
        source, step = resumes
        path = shared.job(source).checkpoints / f"global_step_{step}"
        resume = Resume(submission_id=source, step=step, path=str(path), world_size=2)
        the_plan = msgspec.structs.replace(the_plan, resume=resume)
        provenance = {"resumed_from": {"submission_id": source, "step": step, "path": str(path)}}
    folder.resolved.write_text(plan.to_yaml(the_plan))
    folder.provenance.write_text(json.dumps(provenance))
    for step in steps:
        save(folder.checkpoints, step, ("actor",))
    ended_at = None if state == "RUNNING" else "2026-01-31T10:15:00.000Z"
    job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), state=state, ended_at=ended_at))
    return folder


def make_chain(shared: SharedRoot, *ids: str, ended: bool = True) -> None:
    attempts = [Attempt(id=each, state="FAILED", cause="host") for each in ids]
    chains.write(shared, Chain(cluster="local", retry=Retry(on=["host"]), attempts=attempts))
    if ended:
        found = chains.find(shared, ids[0])
        assert found
        chains.end(shared, found, "enough")


def kept(folder: JobFolder) -> list[int]:
    return sorted(int(path.name.removeprefix("global_step_")) for path in folder.checkpoints.glob("global_step_*"))
