"""``ray job submit`` through Ray's Python SDK: the same options, and the same request to the cluster.

Its own process, as Ray's command is: importing the SDK costs 0.9 s and a call of it cannot be given up, so ``submit`` treats both
alike. The cluster's token comes from the environment (``ray_api.environment``), never from the command line.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mvp_helpers.job.sdk_submit", description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--submission-id", required=True)
    parser.add_argument("--entrypoint-resources", type=json.loads, required=True)
    parser.add_argument("--entrypoint-num-cpus", type=float, required=True)
    parser.add_argument("--runtime-env-json", type=json.loads, required=True)
    parser.add_argument("--no-wait", action="store_true", required=True)
    parser.add_argument("entrypoint", nargs="+")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Submit; prints the id. Exit code 1 and Ray's reason on stderr when Ray does not take the job."""
    args = _arguments(argv)
    from ray.job_submission import JobSubmissionClient

    try:
        accepted = JobSubmissionClient(args.address).submit_job(
            entrypoint=shlex.join(args.entrypoint),
            submission_id=args.submission_id,
            runtime_env=args.runtime_env_json,
            entrypoint_num_cpus=args.entrypoint_num_cpus,
            entrypoint_resources=args.entrypoint_resources,
        )
    except Exception as error:  # whatever Ray raises: its message is the answer
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(accepted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
