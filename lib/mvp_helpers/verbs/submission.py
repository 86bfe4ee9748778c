"""From a JobSpec to a running job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from . import say
from .values import Override, Seconds

if TYPE_CHECKING:
    from ..plan.plan import Via


@click.command("submit")
@click.option("--spec-name", required=True, metavar="FILE", help="The file's name, for messages; its ending says JSON or YAML.")
@click.option("--wait/--no-wait", default=False, help="Follow the job and exit with its outcome (default: --no-wait).")
@click.option("--timeout", type=Seconds(), help="With --wait: give up after this many seconds (exit code 4); the job continues.")
@click.option(
    "--pending-timeout",
    type=Seconds(),
    default=120.0,
    help="Give up when Ray has not started the job after this many seconds (default 120).",
)
@click.option(
    "--via", type=click.Choice(["cli", "sdk"]), default="cli", help="Submit with ray job submit (default) or Ray's Python SDK."
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    type=Override(),
    metavar="KEY=VALUE",
    help="A trainer override to add to the JobSpec's; may be repeated.",
)
@click.option("--packed", is_flag=True, help="Stdin contains the output of pack-spec.")
@click.option("--dry-run", is_flag=True, help="Print the plan and stop.")
def submit(
    spec_name: str,
    wait: bool,
    timeout: float | None,
    pending_timeout: float,
    via: Via,
    overrides: tuple[str, ...],
    packed: bool,
    dry_run: bool,
) -> int:
    """Submit the JobSpec on stdin; run this on the head. Prints the submission_id."""
    from ..base.errors import Blocked
    from ..cluster import cluster_file
    from ..job import job_secrets, submit
    from ..plan import jobspec, limits, plan

    loaded = cluster_file.from_environment()
    given = sys.stdin.buffer.read(-1 if packed else limits.DOCUMENT.size + 1)  # pack-spec has cut its own input
    environment, data = job_secrets.unpack(given, packed)
    data = jobspec.with_overrides(data, spec_name, overrides)
    if dry_run:
        planned, missing = submit.preview(data, spec_name, loaded, environment)
        print(plan.describe(planned, via, missing), end="")
        if missing:
            raise Blocked(f"{spec_name}: this plan cannot be submitted yet: see 'missing' at its end")
        return 0
    planned, api = submit.submit(data, spec_name, loaded, say, environment, via=via)
    print(planned.submission_id, flush=True)
    if not wait:
        return 0
    from ..base.paths import JobFolder
    from ..job import follow
    from ..record.job_folder import Result
    from ..retry import cause
    from ..retry import follow as follow_chain

    def follow_one(folder: JobFolder, left_s: float | None) -> Result:
        return follow.follow(folder, api, timeout_s=left_s, pending_timeout_s=pending_timeout, say=say)

    return cause.exit_code(*follow_chain.to_the_end(planned.folder, follow_one, say, timeout))


@click.command("pack-spec")
@click.option("--spec-name", required=True, metavar="FILE", help="The file's name; its ending says JSON or YAML.")
def pack_spec(spec_name: str) -> None:
    """Print the JobSpec on stdin together with the secrets that it names, taken from this environment, for submit --packed."""
    from ..job import job_secrets
    from ..plan import limits

    sys.stdout.buffer.write(job_secrets.pack(sys.stdin.buffer.read(limits.DOCUMENT.size + 1), spec_name))


@click.command("run-job")
@click.argument("folder")
def run_job(folder: str) -> int:
    """Run the job of the job folder FOLDER (Ray starts this on a worker)."""
    from pathlib import Path

    from ..base import paths
    from ..job import run_job

    return run_job.run(paths.JobFolder(Path(folder)))
