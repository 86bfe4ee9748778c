"""Checks of what a job owns and took over: a folder of its own, nothing older in it, nothing resumed unasked, reused inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base.times import seconds_of
from .evidence import Job, Skip, files, inside, need, same, short

CLOCK_TOLERANCE_S = 5.0
"""How far the clocks of head, worker and file server may differ."""


def own_folder(job: Job, _: Sequence[Job]) -> str:
    """The folder was claimed once, for this job."""
    name, result = job.folder.submission_id, job.result
    job.cite(job.folder.result, '"claimed_at"')
    job.cite(job.folder.resolved, "job_folder:")
    need(job.plan.submission_id == name, f"resolved.yaml: submission_id {job.plan.submission_id}, but the folder is {name}")
    need(
        same(job.plan.job_folder, job.folder.path),
        f"resolved.yaml: job_folder {job.plan.job_folder}, but this is {job.folder.path}",
    )
    index = job.folder.shared.job_index
    claims = sorted(path.name for path in index.glob(f"*_{name}")) if index.is_dir() else []
    claims = [claim for claim in claims if claim.partition("_")[2] == name]
    need(len(claims) == 1, f"jobs/.index: {len(claims)} claims of this id: {', '.join(claims)}")
    job.cite_whole(index / claims[0], "the only claim of this id")
    need(
        claims[0].partition("_")[0] == result.claimed_at.replace(":", ""),
        f"result.json: claimed_at {result.claimed_at}, but jobs/.index has {claims[0]}",
    )
    return f"one claim in jobs/.index ({result.claimed_at}); result.json and resolved.yaml name this folder"


def nothing_older(job: Job, _: Sequence[Job]) -> str:
    """No checkpoint, log or metrics file is older than the claim of the folder."""
    claimed = seconds_of(job.result.claimed_at)
    job.cite(job.folder.result, '"claimed_at"')
    count = 0
    for path in files(job.folder.checkpoints, job.folder.logs, job.folder.metrics):
        count += 1
        age = claimed - path.stat().st_mtime
        if age > CLOCK_TOLERANCE_S:
            job.cite_whole(path, f"{age:.0f} s older than the claim")
        need(age <= CLOCK_TOLERANCE_S, f"{job.name_of(path)} is {age:.0f} s older than the claim")
    return f"{count} files in checkpoints/, logs/ and metrics.jsonl, none older than claimed_at"


def nothing_resumed(job: Job, _: Sequence[Job]) -> str:
    """The trainer saved into this folder and resumed nothing but what the JobSpec names."""
    if not job.trains:
        raise Skip(f"workload '{job.plan.workload}' is not a trainer")
    target, mode = job.given.get("trainer.default_local_dir"), job.given.get("trainer.resume_mode")
    for key in ("trainer.default_local_dir=", "trainer.resume_mode=", "trainer.resume_from_path="):
        job.cite(job.folder.resolved, key)
    need(bool(target) and inside(Path(str(target)), job.folder.path), f"resolved.yaml: trainer.default_local_dir={target}")
    resume, named = job.plan.resume, job.provenance.get("resumed_from")
    need(mode == ("resume_path" if resume else "disable"), f"resolved.yaml: trainer.resume_mode={mode}")
    first = min(job.metrics.trained, default=None)
    if first is not None:
        job.cite_line(job.folder.metrics, job.metrics.lines[first])
    need(first == job.plan.first_step, f"metrics.jsonl: the first step is {first}, expected {job.plan.first_step}")
    shown = (
        f"resolved.yaml: trainer.default_local_dir={target}, trainer.resume_mode={mode}; metrics.jsonl: the first step is {first}"
    )
    if not resume:
        need(not named, f"provenance.json: resumed_from {named}, but the plan resumes nothing")
        return f"nothing resumed: {shown}"
    path, source = str(job.given.get("trainer.resume_from_path")), f"step {resume.step} of {resume.submission_id}"
    wanted = job.folder.shared.job(resume.submission_id).checkpoints / f"global_step_{resume.step}"
    need(same(path, wanted), f"resolved.yaml: trainer.resume_from_path={path}, but resume names {source}")
    recorded = named and f"step {named['step']} of {named['submission_id']}"
    job.cite(job.folder.provenance, '"resumed_from"')
    need(recorded == source, f"provenance.json: resumed_from {recorded}, but resolved.yaml resumes {source}")
    return f"resumed {source}, as provenance.json says: {shown}"


def inputs_reused(job: Job, before: Sequence[Job]) -> str:
    """Model and data are those of an earlier job, made before it was claimed."""
    own = job.provenance["inputs"]
    if not own:
        raise Skip("the job uses neither model nor data")
    if not before:
        raise Skip("the first of the jobs given: reuse shows from the second on")
    shared = {name: previous for name, facts in own.items() if (previous := _last_user(facts["path"], before))}
    if not shared:
        raise Skip("no job before it used the same " + " or ".join(own))
    for name, previous in shared.items():
        mine, theirs = own[name], _inputs_by_path(previous)[own[name]["path"]]
        first = next(earlier for earlier in before if mine["path"] in _inputs_by_path(earlier))
        where = f"provenance.json: {name} {mine['path']}"
        job.cite(job.folder.provenance, str(mine["identity"]))
        need(
            bool(mine["identity"]) and mine["identity"] == theirs["identity"],
            f"{where} has identity {short(mine['identity'])}, in {previous.folder.submission_id} {short(theirs['identity'])}",
        )
        need(
            bool(mine["made_at"]) and seconds_of(mine["made_at"]) < seconds_of(first.result.claimed_at),
            f"{where} was made at {mine['made_at']}, after {first.folder.submission_id} was claimed ({first.result.claimed_at})",
        )
    inputs = ", ".join(f"{name} {short(own[name]['identity'])} made {own[name]['made_at']}" for name in shared)
    others = ", ".join(sorted({previous.folder.submission_id for previous in shared.values()}))
    return f"provenance.json: {inputs}: the same as in {others}, made before it was claimed"


def _last_user(path: str, before: Sequence[Job]) -> Job | None:
    return next((job for job in reversed(before) if path in _inputs_by_path(job)), None)


def _inputs_by_path(job: Job) -> dict[str, dict[str, Any]]:
    return {facts["path"]: facts for facts in job.provenance["inputs"].values()}
