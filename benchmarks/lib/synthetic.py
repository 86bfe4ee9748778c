"""What the benchmarks need to know about the running cluster, and shared roots full of synthetic finished jobs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import msgspec

from mvp_helpers import cluster, ray_api
from mvp_helpers.job_folder import Result
from mvp_helpers.paths import SharedRoot
from mvp_helpers.times import moment_of


def variables() -> None:
    """Shell assignments that make Ray's own commands reach the cluster."""
    loaded = cluster.from_environment()
    values = {"DASHBOARD": loaded.dashboard, "GCS": loaded.gcs_address, **ray_api.environment(loaded)}
    for name, value in values.items():
        print(f"export {name}={shlex.quote(value)}")


def root(folder: Path, count: int) -> None:
    """Fill ``folder`` with ``count`` finished jobs (as the job runner leaves them); print a cluster file that points to it."""
    loaded = cluster.from_environment()
    shared = SharedRoot(folder)
    shared.job_index.mkdir(parents=True)
    shared.active_jobs.mkdir()
    for at in range(count):
        name = f"job-{at}"
        moments = {key: moment_of(1_750_000_000 + at) for key in ("claimed_at", "started_at", "ended_at")}
        result = Result(submission_id=name, workload="ppo", state="SUCCEEDED", steps_done=20, steps_total=20, **moments)
        shared.job(name).path.mkdir()
        shared.job(name).result.write_bytes(msgspec.json.encode(result))
        (shared.job_index / f"{result.claimed_at.replace(':', '')}_{name}").touch()
    file = folder / "cluster.json"
    file.write_text(msgspec.structs.replace(loaded, shared_root=str(folder), state_dir=str(loaded.state)).to_json())
    print(file)


if __name__ == "__main__":
    if sys.argv[1] == "variables":
        variables()
    else:
        root(Path(sys.argv[2]), int(sys.argv[3]))
