"""The check of a chain's attempt: why it was started, from which checkpoint, and that the chain trained every step."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import BadInput
from ..base.paths import JobFolder
from ..base.times import seconds_of
from ..plan import plan, workloads
from ..record import chain as chains
from ..record import job_folder, metrics, removals
from ..record.chain import Attempt, Chain
from ..retry import cause
from ..trainers import verl_checkpoints
from .evidence import Fail, Job, Skip, need
from .ownership import CLOCK_TOLERANCE_S


def attempt(job: Job, _: Sequence[Job]) -> str:
    """The attempt before it ended for a cause in retry.on, it resumed the newest whole checkpoint, and no step is missing."""
    claimed = job.provenance["attempt"]
    job.cite(job.folder.provenance, '"attempt"')
    chain = chains.find(job.folder.shared, job.folder.submission_id)
    if chain is None:
        raise Fail(f"provenance.json: attempt of chain '{claimed['chain']}', but jobs/.chains has no such attempt")
    number = [attempt.id for attempt in chain.attempts].index(job.folder.submission_id) + 1
    need(
        (claimed["chain"], claimed["number"]) == (chain.id, number),
        f"provenance.json: attempt {claimed['number']} of '{claimed['chain']}', but jobs/.chains says {number} of '{chain.id}'",
    )
    if number == 1:
        return f"the first of {len(chain.attempts)} attempts"
    earlier = chain.attempts[: number - 1]
    shared = job.folder.shared
    if gone := [text for each in earlier if (text := removals.find_job(shared, each.id))]:
        raise Skip(f"attempt {number} of '{chain.id}'; nothing is left to compare it with: {'; '.join(gone)}")
    _check_previous(job, chain, earlier[-1])
    _check_checkpoint(job, earlier)
    steps = _steps(job, earlier)
    return f"attempt {number} of '{chain.id}', after '{earlier[-1].id}' ({earlier[-1].cause}: {earlier[-1].why}); {steps}"


def _check_previous(job: Job, chain: Chain, previous: Attempt) -> None:
    """The attempt before ended before this one was claimed, and its own folder gives a cause that is in retry.on."""
    folder = job.folder.shared.job(previous.id)
    try:
        result = job_folder.read(folder)
    except BadInput as error:
        raise Fail(error.what) from None
    job.cite(folder.result, '"state"')
    ended = result.ended_at is not None and seconds_of(result.ended_at) <= seconds_of(job.result.claimed_at) + CLOCK_TOLERANCE_S
    need(result.ended and ended, f"'{previous.id}' is {result.state}, ended at {result.ended_at}, after this one was claimed")
    cause_of_end = cause.of(folder, result).cause
    need(
        cause_of_end is not None and cause_of_end in chain.retry.on,
        f"'{previous.id}' ended by '{cause_of_end or 'itself'}', which is not in retry.on ({', '.join(chain.retry.on)})",
    )


def _check_checkpoint(job: Job, earlier: Sequence[Attempt]) -> None:
    """It resumed the newest whole checkpoint of the earlier attempts, or began anew because there was none."""
    wholes = {attempt.id: _last_whole(job.folder.shared.job(attempt.id)) for attempt in earlier}
    newest, resume = max(wholes.values(), default=0), job.plan.resume
    if resume is None or resume.submission_id not in wholes:
        need(newest == 0, f"resolved.yaml: it resumed none of the earlier attempts, but one has a checkpoint of step {newest}")
        return
    job.cite(job.folder.resolved, "resume:")
    # It may have been removed since: by the chain, once it has saved enough newer ones as its limit says, or on request.
    limited = verl_checkpoints.kept(job.given) is not None
    on_request = resume.step in removals.of(job.folder.shared.job(resume.submission_id))
    removed = newest < resume.step and (limited or on_request)
    need(
        resume.step == newest or removed,
        f"resolved.yaml: it resumed step {resume.step}, but the newest whole checkpoint is {newest}",
    )


def _last_whole(folder: JobFolder) -> int:
    try:
        layout = workloads.load(plan.read(folder).workload).checkpoint
        return verl_checkpoints.last_whole(folder, layout).step if layout else 0
    except BadInput:
        return 0


def _steps(job: Job, earlier: Sequence[Attempt]) -> str:
    """Every step from the first to this attempt's last is in the metrics of one attempt, the latest that trained it."""
    folders = [*(job.folder.shared.job(attempt.id) for attempt in earlier), job.folder]
    first = plan.read(folders[0]).first_step
    trained = {step for folder in folders for step in metrics.read(folder.metrics).trained}
    last = max(trained, default=0)
    missing = sorted(set(range(first, last + 1)) - trained)
    need(not missing, f"metrics.jsonl of the chain's attempts: no step {', '.join(map(str, missing[:5]))}")
    return f"steps {first} to {last} are in the metrics of the chain, each taken from the latest attempt that trained it"
