"""All paths under the shared root and in a job folder (see shared-layout.md)."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SharedRoot:
    """Paths under ``SHARED_ROOT`` (an absolute path, the same on every host of a cluster)."""

    root: Path

    @property
    def jobs(self) -> Path:
        return self.root / "jobs"

    def job(self, submission_id: str) -> JobFolder:
        return JobFolder(self.jobs / submission_id)

    @property
    def job_index(self) -> Path:
        """Folder of empty files ``<UTC time>_<id>``: lists the newest jobs without opening every job folder."""
        return self.jobs / ".index"

    @property
    def active_jobs(self) -> Path:
        """Folder of empty files ``<id>``, one for each job that has not ended."""
        return self.jobs / ".active"

    def removed_job(self, submission_id: str) -> Path:
        """Return the file that says when and by whom a job was removed; it stays, so that the id is never used again."""
        return self.jobs / ".removed" / f"{submission_id}.json"

    def unsealed(self, cluster: str) -> Path:
        """Return the folder of empty files ``<id>``, one for each job of that cluster that has ended and is to be sealed."""
        return self.jobs / ".unsealed" / cluster

    @property
    def datasets(self) -> Path:
        return self.root / "datasets"

    @property
    def models(self) -> Path:
        return self.root / "common" / "models"

    @property
    def verl_code(self) -> Path:
        return self.root / "common" / "code" / "verl"

    @property
    def baselines(self) -> Path:
        """Folder of baselines, ``<name>.json``: what some equal runs reached (see ``gates/baseline.py``)."""
        return self.root / "common" / "baselines"

    @property
    def bisections(self) -> Path:
        """Folder of bisections, one folder for each search (see ``bisect/record.py``)."""
        return self.root / "common" / "bisect"

    @property
    def override_cache(self) -> Path:
        """Cache of composed Hydra configs, by content of snapshot and overrides."""
        return self.root / "common" / "cache" / "overrides"

    def head(self, cluster: str) -> Path:
        """Return the file with the address of the cluster's head since its last start."""
        return self.root / "ray" / cluster / "head.json"

    def gpus(self, cluster: str, host: str) -> Path:
        """Return the file with the GPUs that a worker was found with; it remains after the cluster was stopped."""
        return self.root / "ray" / cluster / host / "gpus.json"

    @property
    def hf_cache(self) -> Path:
        return self.root / "hf"

    @property
    def user_code(self) -> Path:
        return self.root / "user" / "code"

    @property
    def user_secrets(self) -> Path:
        """Folder with one file (mode 0600) per secret, named like the environment variable it becomes."""
        return self.root / "user" / "secrets"

    @property
    def masks(self) -> Path:
        """Hashes of the values of all jobs' secrets: for what is collected when the values are gone (``masking/known.py``)."""
        return self.user_secrets / ".masks"

    @property
    def folders(self) -> dict[Path, int]:
        """Return the folders that exist once a cluster is up, with their modes: as in /tmp, everybody may add to 01777."""
        common, user = self.root / "common", self.root / "user"
        ours = (self.datasets, self.hf_cache, self.jobs, self.root / "ray")
        shared = (self.root / "outputs", common, self.models, common / "datasets", common / "code", user, self.user_code)
        return dict.fromkeys(ours, 0o755) | dict.fromkeys(shared, 0o1777) | {self.user_secrets: 0o700}


@dataclass(frozen=True)
class JobFolder:
    """Paths in ``${SHARED_ROOT}/jobs/<submission_id>/``; claimed once, never reused."""

    path: Path

    @property
    def submission_id(self) -> str:
        return self.path.name

    @property
    def shared(self) -> SharedRoot:
        return SharedRoot(self.path.parents[1])

    def check_own(self, place: Path) -> None:
        """Raise OSError when a link leads from ``place`` out of the job folder, perhaps into another job's."""
        real = Path(os.path.realpath(place))
        if not real.is_relative_to(os.path.realpath(self.path)):
            raise OSError(errno.EXDEV, f"a link leads out of the job folder, to {real}", str(place))

    @property
    def secrets(self) -> Path:
        """The values of the job's secrets while it runs; outside the job folder, because people share job folders."""
        return self.shared.user_secrets / ".jobs" / self.submission_id

    @property
    def config(self) -> Path:
        return self.path / "config"

    def job_spec(self, suffix: str = ".json") -> Path:
        """Return the file with the user's JobSpec, byte for byte; ``suffix`` is that of the given file (.json or .yaml)."""
        return self.config / f"job_spec{suffix}"

    @property
    def resolved(self) -> Path:
        return self.config / "resolved.yaml"

    @property
    def runtime_env(self) -> Path:
        return self.config / "runtime_env.json"

    @property
    def submit_cmd(self) -> Path:
        return self.config / "submit_cmd.txt"

    @property
    def provenance(self) -> Path:
        return self.config / "provenance.json"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def driver_log(self) -> Path:
        return self.logs / "driver.log"

    @property
    def log_times(self) -> Path:
        """Times at which the driver log grew (see ``log_times.py``); appended to as long as the job runner lives."""
        return self.logs / "driver.times"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def removals(self) -> Path:
        """One file for each time that checkpoints were removed on request (see ``record/removals.py``)."""
        return self.path / "removed"

    @property
    def debug(self) -> Path:
        return self.path / "debug"

    @property
    def metrics(self) -> Path:
        """One JSON object per step, as verl's file logger writes it: ``{"step": 1, "data": {...}}``."""
        return self.path / "metrics.jsonl"

    @property
    def tracking(self) -> Path:
        """What a tracker keeps in files: TensorBoard's events, W&B's offline runs (see ``tracking/trackers.py``)."""
        return self.path / "tracking"

    @property
    def rollouts(self) -> Path:
        """What the model said in the last steps, ``<step>.jsonl``, as verl writes it (see ``trainers/verl_rollouts.py``)."""
        return self.path / "rollouts"

    @property
    def resources(self) -> Path:
        """Samples of every worker while the job runs, one JSON object for each host and moment (see ``usage/resources.py``)."""
        return self.path / "resources.jsonl"

    @property
    def control(self) -> Path:
        """Requests to the trainer and its answers (see ``record/control.py``); made with the first of them."""
        return self.path / "control"

    @property
    def reports(self) -> Path:
        """Pages about the job (script 56); none is ever written again."""
        return self.path / "reports"

    @property
    def precheck(self) -> Path:
        """What the driver and one Ray process on each worker imported, written before training."""
        return self.path / "precheck.json"

    @property
    def packages(self) -> Path:
        """Every package of the interpreter that trained, with its version, and the GPUs; written by the driver."""
        return self.path / "packages.json"

    @property
    def imports(self) -> Path:
        """One record for each process that imported the trainer's code (see ``mvp_verl/import_record.py``)."""
        return self.path / "imports"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def is_gone(self) -> bool:
        """Whether it was moved or removed; a trainer that goes on may have made a folder in its place."""
        return not os.path.lexists(self.result)

    @property
    def seal(self) -> Path:
        """The signed digests of every other file, one statement a line (see ``seal/``)."""
        return self.path / "seal.intoto.jsonl"


@dataclass(frozen=True)
class E2eRun:
    """Paths in the folder of one end-to-end run; made once, never overwritten: each try of a step has a folder of its own."""

    path: Path

    @property
    def request(self) -> Path:
        """The request, and the state of the checkouts at the start."""
        return self.path / "run.json"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def cache(self) -> Path:
        """What the trainer's libraries compile, for all runs beside this one."""
        return self.path.parent / "cache"

    @property
    def uv(self) -> Path:
        """uv's environments for checkouts that have none, for all runs beside this one."""
        return self.path.parent / "uv"

    def summary(self, suffix: str) -> Path:
        """``txt``, ``md``, ``json`` or ``html``, the page; written again at the end of every resume."""
        return self.path / f"summary.{suffix}"

    def tries(self, step: str) -> list[Path]:
        """Return the folders of a step's tries, oldest first."""
        return sorted((self.path / "steps" / step).glob("try-*"), key=lambda folder: int(folder.name.removeprefix("try-")))

    def next_try(self, step: str) -> Path:
        return self.path / "steps" / step / f"try-{len(self.tries(step)) + 1}"
