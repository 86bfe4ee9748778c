"""What the benchmarks need to know about the running cluster, and shared roots full of synthetic finished jobs."""

from __future__ import annotations

import concurrent.futures
import json
import os
import secrets
import shlex
import sys
import time
import urllib.request
from pathlib import Path

import msgspec

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.times import moment_of, now
from mvp_helpers.cluster import cluster_file, ray_api
from mvp_helpers.record import job_folder, retention
from mvp_helpers.record.job_folder import Result

AT_ONCE = 6
"""Trivial jobs at a time: each takes a process on a worker."""


def variables() -> None:
    """Shell assignments that make Ray's own commands reach the cluster."""
    loaded = cluster_file.from_environment()
    values = {"DASHBOARD": loaded.dashboard, "GCS": loaded.gcs_address, **ray_api.environment(loaded)}
    for name, value in values.items():
        print(f"export {name}={shlex.quote(value)}")


def root(folder: Path, count: int) -> None:
    """Fill ``folder`` with ``count`` finished jobs (as the job runner leaves them); print a cluster file that points to it."""
    loaded = cluster_file.from_environment()
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


def fill(count: int) -> None:
    """Run ``count`` trivial jobs on Ray, ``AT_ONCE`` at a time, each with the folder of a job that ended well."""
    loaded = cluster_file.load(os.environ["MVP_CLUSTER"])
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for done in range(0, count, retention.AT_ONCE):
            some = min(retention.AT_ONCE, count - done)
            list(pool.map(lambda _: _trivial_job(loaded), range(some)))
            # Between jobs, for their folders get their last word only when Ray has spoken its own.
            retention.sweep(loaded, ray_api.of(loaded))
            print(f"{done + some} of {count} jobs", file=sys.stderr)


def _trivial_job(loaded: cluster_file.Cluster) -> None:
    api, name = ray_api.of(loaded, timeout_s=120), f"trivial-{secrets.token_hex(6)}"
    result = Result(submission_id=name, workload="nothing", state="CLAIMED")
    folder = job_folder.claim(SharedRoot(Path(loaded.shared_root)), result)
    folder.submit_cmd.write_text(f"ray job submit --address {api.address} --submission-id {name}\n")
    asked = {"entrypoint": "true", "submission_id": name, "entrypoint_resources": {loaded.worker_resource: 1}}
    request = urllib.request.Request(f"{api.address}/api/jobs/", json.dumps(asked).encode(), {"Content-Type": "application/json"})
    request.add_header("Authorization", f"Bearer {ray_api.read_token(loaded)}")
    urllib.request.urlopen(request, timeout=120).close()
    while (record := api.job(name) or {})["status"] not in ray_api.ENDED:
        time.sleep(0.2)
    if record["status"] != "SUCCEEDED":
        raise SystemExit(f"{name}: {json.dumps(record)}")
    (folder.debug / "20260131T000000Z-succeeded").mkdir()
    result.state, result.ended_at = "SUCCEEDED", now()
    job_folder.write(folder, result)


def records() -> None:
    """Print how many job folders there are, and how many jobs are on Ray's list."""
    loaded = cluster_file.load(os.environ["MVP_CLUSTER"])
    folders = sum(1 for _ in SharedRoot(Path(loaded.shared_root)).job_index.iterdir())
    print(f"cluster '{loaded.name}': {folders} job folders, {len(ray_api.of(loaded).jobs())} jobs on Ray's list", file=sys.stderr)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["variables"]:
            variables()
        case ["root", folder, count]:
            root(Path(folder), int(count))
        case ["fill", count]:
            fill(int(count))
        case ["records"]:
            records()
