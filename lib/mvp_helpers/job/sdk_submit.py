"""``ray job submit`` through Ray's Python SDK: the same options, and the same request to the cluster.

A process of its own, like Ray's command: importing the SDK costs 0.9 s and a call of it cannot be cancelled, so ``submit`` treats
both alike. The cluster's token comes from the environment (``ray_api.command_environment``), never from the command line.
"""

from __future__ import annotations

import gc
import json
import shlex
import sys

import click


@click.command("mvp_helpers.job.sdk_submit", help=__doc__)
@click.option("--address", required=True)
@click.option("--submission-id", required=True)
@click.option("--entrypoint-resources", required=True, metavar="JSON")
@click.option("--entrypoint-num-cpus", type=float, required=True)
@click.option("--runtime-env-json", required=True, metavar="JSON")
@click.option("--no-wait", is_flag=True)
@click.argument("entrypoint", nargs=-1, required=True)
def main(
    address: str,
    submission_id: str,
    entrypoint_resources: str,
    entrypoint_num_cpus: float,
    runtime_env_json: str,
    no_wait: bool,
    entrypoint: tuple[str, ...],
) -> None:
    """Submit; print the id. Exit code 1 and Ray's reason on stderr when Ray does not accept the job."""
    gc.set_threshold(50_000)  # as in ray_command
    from ray.job_submission import JobSubmissionClient

    try:
        accepted = JobSubmissionClient(address).submit_job(
            entrypoint=shlex.join(entrypoint),
            submission_id=submission_id,
            runtime_env=json.loads(runtime_env_json),
            entrypoint_num_cpus=entrypoint_num_cpus,
            entrypoint_resources=json.loads(entrypoint_resources),
        )
    except Exception as error:  # whatever Ray raises: its message is the answer
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
    print(accepted)


if __name__ == "__main__":
    main()
