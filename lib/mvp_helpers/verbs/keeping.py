"""What ended jobs keep on the disk: their checkpoints, and whole job folders. ID is a submission_id."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ..base.errors import BadInput
from . import columns, job, say
from .values import Count

if TYPE_CHECKING:
    from ..base.paths import JobFolder, SharedRoot
    from ..cluster.cluster_file import Cluster
    from ..keep.listing import Row
    from ..keep.remove_jobs import Doomed
    from ..keep.resumers import IsRunning

HINT = "./scripts/57_checkpoints.sh --help"
KEEP = Count(1, example=2)


@click.command("checkpoints")
@click.argument("submission_id", metavar="[ID]", required=False)
@click.option("--all", "all_jobs", is_flag=True, help="The totals of all jobs.")
@click.option("--keep", type=KEEP, help="Only those that would be removed, as ID:STEP.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def checkpoints(submission_id: str | None, all_jobs: bool, keep: int | None, as_json: bool) -> None:
    """Print the checkpoints of a job or of its chain, or the totals of all jobs."""
    import msgspec

    from ..keep import totals

    if all_jobs == bool(submission_id):
        raise BadInput("expected one job id, or --all" if not all_jobs else "--all and a job id exclude each other", hint=HINT)
    if all_jobs and keep is not None:
        raise BadInput("--keep and --all exclude each other", hint=HINT)
    if submission_id is None:
        found = totals.totals(_shared())
        document = {"jobs": msgspec.to_builtins(found), "bytes": sum(total.bytes for total in found)}
        print(json.dumps(document) if as_json else totals.table(found, columns()))
        return
    from ..keep import listing

    loaded, folder = job(submission_id)
    folders, rows, surplus = _examine(loaded, folder, keep)
    if keep is not None:
        say(listing.table(surplus, columns()) if surplus else f"nothing to remove: {submission_id} has no checkpoint beyond that")
        print("".join(f"{row.name}\n" for row in surplus), end="")
    elif as_json:
        print(json.dumps({"jobs": [each.submission_id for each in folders], "checkpoints": msgspec.to_builtins(rows)}))
    elif rows:
        print(listing.table(rows, columns()))
    else:
        say(f"no checkpoints in {', '.join(str(each.checkpoints) for each in folders)}")


@click.command("remove-checkpoints")
@click.argument("submission_id", metavar="ID")
@click.argument("names", metavar="ID:STEP...", nargs=-1, required=True)
@click.option("--keep", type=KEEP, required=True, help="What the removal is limited by.")
def remove_checkpoints(submission_id: str, names: tuple[str, ...], keep: int) -> None:
    """Remove checkpoints that checkpoints --keep has listed; print their names."""
    from ..base.shared_storage import writing
    from ..keep import prune
    from ..record import removals
    from ..seal.seals import Seals

    loaded, folder = job(submission_id)
    with writing(folder.shared.jobs), removals.locked(folder.shared):
        _, _, surplus = _examine(loaded, folder, keep)
        request = f"57_checkpoints.sh {submission_id} --keep {keep}"
        for row in prune.remove(names, surplus, folder.shared, Seals.of(loaded), request):
            print(row.name)


@click.command("export-checkpoint")
@click.argument("name", metavar="ID[:STEP]")
@click.argument("target", metavar="DIR")
@click.option("--merge-lora", is_flag=True, help="Merge the LoRA adapter into the weights.")
def export_checkpoint(name: str, target: str, merge_lora: bool) -> None:
    """Make Hugging Face weights of a checkpoint in DIR, prove that they load, and print the folder."""
    from ..keep import export

    submission_id, step = export.split(name)
    found = export.find(job(submission_id)[1], step, target, merge_lora=merge_lora)
    proof = export.export(found, say)
    say(f"{proof.architecture}, {proof.parameters:,} parameters, {proof.dtype}; '{proof.prompt}' → '{proof.generated}'")
    if proof.adapter:
        say(f"the weights are those of the base model; the LoRA adapter is in {proof.adapter}/, not merged (--merge-lora)")
    print(found.target)


@click.command("remove-jobs")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Only say what would be removed.")
def remove_jobs(ids: tuple[str, ...], check: bool) -> None:
    """Remove the folders of ended jobs, for good; print their ids."""
    from ..base.shared_storage import writing
    from ..keep import remove_jobs, resumers
    from ..keep.sizes import shown_size
    from ..record import removals

    jobs = [job(submission_id, maybe_gone=True) for submission_id in dict.fromkeys(ids)]
    loaded, folders, shared = jobs[0][0], [folder for _, folder in jobs], jobs[0][1].shared
    running = _is_running(loaded)

    def examine() -> list[Doomed]:
        return remove_jobs.check(folders, resumers.every(shared, running), running)

    if check:
        doomed = examine()
        for each in doomed:
            say(f"{each.id}  {each.workload}  {each.state}  {shown_size(each.bytes)}")
    else:
        with writing(shared.jobs), removals.locked(shared):
            doomed = examine()
            remove_jobs.remove(doomed, shared, loaded.name)
    for each in doomed:
        print(each.id)


def _shared() -> SharedRoot:
    from pathlib import Path

    from ..base.paths import SharedRoot
    from ..cluster import cluster_file

    return SharedRoot(Path(cluster_file.from_environment().shared_root))


def _examine(loaded: Cluster, folder: JobFolder, keep: int | None) -> tuple[list[JobFolder], list[Row], list[Row]]:
    """Return the folders of a job's chain, their checkpoints, and with ``keep`` those that may be removed."""
    from ..keep import listing, prune, resumers

    running = _is_running(loaded) if keep is not None else resumers.is_running
    folders, users = listing.attempts(folder), resumers.every(folder.shared, running)
    rows = listing.rows(folders, users)
    if keep is None:
        return folders, rows, []
    active = frozenset(each.submission_id for each in folders if running(each))
    return folders, rows, prune.surplus(rows, keep, users, active)


def _is_running(loaded: Cluster) -> IsRunning:
    """Return what says whether a job runs: its folder, and Ray when that records no end."""
    from ..base.errors import MvpError
    from ..cluster import ray_api
    from ..record import job_folder, reconcile

    api = ray_api.of(loaded, timeout_s=3)

    def is_running(folder: JobFolder) -> bool:
        try:
            result = job_folder.read(folder)
            return not (result.ended or reconcile.settle(folder, result, api).ended)
        except (MvpError, OSError):  # nobody knows: it may run
            return folder.path.is_dir()

    return is_running
