"""A job folder with checkpoints of some size, for ``bench_seal.sh``, and one seal of it with a new key."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.times import now
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result
from mvp_helpers.seal.seals import Seals

SHARDS = 8
PIECE = 1 << 24


def make(root: Path, gigabytes: float) -> None:
    """Create a job that has ended, with ``SHARDS`` shards of random bytes; print its folder."""
    folder = job_folder.claim(SharedRoot(root), Result(submission_id="job", workload="ppo", state="CLAIMED"))
    pieces = [os.urandom(PIECE) for _ in range(4)]
    for shard in range(SHARDS):
        with (folder.checkpoints / f"model_rank_{shard}.pt").open("wb") as stream:
            for at in range(int(gigabytes * 1e9 / SHARDS / PIECE)):
                stream.write(pieces[(at + shard) % len(pieces)])
    job_folder.write(folder, Result(submission_id="job", workload="ppo", state="SUCCEEDED", claimed_at=now(), ended_at=now()))
    print(folder.path)


def seal(folder: Path) -> None:
    job = JobFolder(folder)
    with tempfile.TemporaryDirectory() as keys:
        Seals(Path(keys), "bench").seal_now(job)
    job.seal.unlink()


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), float(sys.argv[3]))
    else:
        seal(Path(sys.argv[2]))
