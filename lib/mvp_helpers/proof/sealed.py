"""The check of a job's seal: that its folder is as it was when it was sealed. The other checks rest on this one."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import MvpError
from ..base.terminal import cut
from ..base.times import clock, seconds_of
from ..record import seal_request
from ..seal.contents import Difference
from ..seal.seals import NotSealed, Seal
from .evidence import Fail, Job, Skip

MOST_NAMED = 8
"""Names in a reason, of each kind of difference; the evidence has all of them."""
LONGEST_NAME = 200
WHERE = "docs/evidence.md says what a seal proves"


def sealed(job: Job, _: Sequence[Job]) -> str:
    """The seal is one that the cluster's key made, and no file changed, is missing or was added since."""
    try:
        seal = job.seals.read(job.folder)
    except NotSealed:
        raise Skip(_why_not(job)) from None
    except MvpError as error:
        job.cite_whole(job.folder.seal, error.what)
        # A host that cannot check signatures proves nothing about the job.
        raise (Fail if error.exit_code == 1 else Skip)(error.what) from None
    difference = job.seals.compare(seal, job.folder)
    if difference:
        for word, names in _kinds(difference):
            for name in names:
                job.cite_whole(job.folder.path / name, f"{word} since it was sealed")
        raise Fail(_describe(difference))
    if unread := seal.contents.unread:
        raise Fail(f"not sealed, the sealer could not read it: {_named([f'{name} ({why})' for name, why in unread.items()])}")
    job.cite_whole(job.folder.seal, f"{len(seal.contents.files)} files, in {len(seal.statements)} statements")
    return _history(seal)


def _why_not(job: Job) -> str:
    if not job.result.started_at:
        return "never sealed: the job never ran"
    if seal_request.is_there(job.folder, job.seals.cluster):
        return "not sealed yet: the head's sealer has not handled the job runner's request (./scripts/01_up.sh starts the sealer)"
    return (
        "never sealed: its job runner was gone, or of an earlier version, and did not request a seal; "
        f"./scripts/54_verify.sh {job.folder.submission_id} --seal seals the files that are there now"
    )


def _kinds(difference: Difference) -> list[tuple[str, list[str]]]:
    kinds = [("changed", difference.changed), ("missing", difference.missing), ("added", difference.added)]
    return [(word, names) for word, names in kinds if names]


def _describe(difference: Difference) -> str:
    return "; ".join(f"{word} since it was sealed: {_named(names)}" for word, names in _kinds(difference))


def _named(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(cut(name.replace("\n", "\\n"), LONGEST_NAME) for name in names[:MOST_NAMED]) + more


def _history(seal: Seal) -> str:
    """Return when and how the job was sealed, and what was sealed later."""
    first, count = seal.first, len(seal.contents.files)
    after = clock(max(0.0, seconds_of(first["sealed_at"]) - seconds_of(first["job"]["ended_at"])))
    if first["kind"] == "end":
        text = f"{count} files as sealed at {first['sealed_at']}, {after} after the job's end"
    else:
        when = f"{first['sealed_at']}, {after} after the job's end"
        text = f"{count} files as sealed on request at {when}: what changed before is unknown"
    removed = sorted({"/".join(name.split("/")[:2]) for statement in seal.statements for name in statement.removed})
    moments = [statement.predicate["sealed_at"] for statement in seal.statements if statement.kind == "removed"]
    added = [(len(statement.contents.files), statement.kind) for statement in seal.statements[1:]]
    by_command = sum(files for files, kind in added if kind == "added")
    on_request = sum(files for files, kind in added if kind == "later")
    text += f"; {by_command} of them added later by commands of the toolkit" if by_command else ""
    text += f"; {on_request} of them sealed later on request" if on_request else ""
    text += f"; removed on request since, the last at {moments[-1]}: {', '.join(removed) or 'nothing sealed'}" if moments else ""
    return f"{text}; {WHERE}"
