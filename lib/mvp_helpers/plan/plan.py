"""The plan: everything a submission will do, as data; kept as ``config/resolved.yaml`` of the job folder."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..base import documents
from ..base.documents import Damaged
from ..base.errors import BadInput
from ..base.paths import JobFolder
from ..record.chain import Retry
from ..record.stall import StallLimits
from ..tracking.trackers import Tracked
from ..trainers import verl_config
from ..trainers.checkpoint import Resume
from ..trainers.verl_actors import Starts
from .disk import Checkpoints
from .reward import RewardFunction

SETUP_HOOK = "mvp_helpers.worker_setup.of_job"
EARLIER_HOOK = "mvp_helpers.job.job_secrets.setup_worker"

Via = Literal["cli", "sdk"]
VIAS: tuple[Via, ...] = ("cli", "sdk")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What the job is, every path it uses, and the trainer's exact argv."""

    submission_id: str
    workload: str
    source: str
    cluster: str
    device: str
    host_driver: str
    shared_root: str
    job_folder: str
    code_path: str | None
    code_id: str | None
    model: str | None
    dataset: str | None
    data_files: dict[str, str]
    reward: RewardFunction | None = None
    address: str
    entrypoint_resources: dict[str, int | float]
    entrypoint_num_cpus: int | float
    entrypoint: list[str]
    nnodes: int
    processes_per_node: int
    shape: str = ""
    """Why so many nodes and processes: the GPUs of each worker, or the overrides."""
    defaults_suit: str = ""
    """Which models and cards the workload's defaults are made for, and why."""
    cpus_per_process: int = 1
    starts: Starts = Starts()
    """What the trainer starts on the cluster beside its training processes."""
    save_freq: int | None
    checkpoints: Checkpoints | None = None
    """An estimate of its checkpoints; None where it saves nothing or they are unknown."""
    train_batch_size: int | None
    total_epochs: int | None
    total_training_steps: int | None
    training_rows: int | None = None
    logger: str = ""
    """What is added to the loggers that the JobSpec names, and why."""
    argv: list[str]
    imports: list[str]
    env_vars: dict[str, str]
    """Of the trainer and its Ray workers."""
    runner_env_vars: dict[str, str] = {}
    """Of the job runner; empty in plans of earlier versions, whose runners had the trainer's."""
    setup_hook: str = ""
    """What Ray runs first in each Ray worker; empty in plans of earlier versions, which had a hook for secrets alone."""
    secrets: list[str] = []
    """Names only; see ``job_secrets``."""
    resume: Resume | None = None
    """The checkpoint to resume; None: training starts at step 1, whatever the trainer finds."""
    stop_wait_s: int
    save_by: float | None = None
    """Unix time before which the trainer must have saved and ended."""
    stall: StallLimits = StallLimits()
    tracking: Tracked | None = None
    """The tracker that the JobSpec names, and its run."""
    keep_rollouts: int = 0
    """Of how many last steps the rollouts are kept in the job folder."""
    retry: Retry | None = None
    warnings: list[str] = []
    """Warnings about risks that do not forbid the submission."""

    @property
    def world_size(self) -> int:
        return self.nnodes * self.processes_per_node

    @property
    def first_step(self) -> int:
        return self.resume.step + 1 if self.resume else 1

    @property
    def overrides(self) -> list[str]:
        """The trainer's Hydra overrides: what follows ``python3 -m <module>``."""
        return self.argv[3:] if self.argv[1:2] == ["-m"] else []

    @property
    def given(self) -> dict[str, str]:
        """The trainer's overrides, by key."""
        pairs = (text.partition("=") for text in self.argv if "=" in text)
        return {key.lstrip("+"): value.strip("'\"") for key, _, value in pairs}

    @property
    def folder(self) -> JobFolder:
        return JobFolder(Path(self.job_folder))

    def runtime_env(self) -> dict[str, Any]:
        """Return Ray's ``runtime_env`` of the trainer and its Ray workers."""
        hook = self.setup_hook or (EARLIER_HOOK if self.secrets else "")
        return {"env_vars": self.env_vars} | ({"worker_process_setup_hook": hook} if hook else {})

    def job_config(self, given: str = "{}") -> str:
        """Return Ray's config of the job for the trainer: what Ray has ``given`` the runner, with the trainer's runtime_env."""
        config = msgspec.json.decode(given)
        ours, rays = self.runtime_env(), config.get("runtime_env") or {}
        env_vars = {**(rays.get("env_vars") or {}), **self.env_vars}
        return msgspec.json.encode({**config, "runtime_env": {**rays, **ours, "env_vars": env_vars}}).decode()

    def submit_argv(self, via: Via = "cli") -> list[str]:
        """Return the exact command that submits the job: ``ray job submit``, or the same through Ray's Python SDK."""
        encode = msgspec.json.encode
        runtime_env = {"env_vars": self.runner_env_vars} if self.runner_env_vars else self.runtime_env()
        command = ("ray", "job", "submit") if via == "cli" else (self.entrypoint[0], "-m", "mvp_helpers.job.sdk_submit")
        return [
            *(*command, "--address", self.address, "--submission-id", self.submission_id),
            *("--entrypoint-resources", encode(self.entrypoint_resources).decode()),
            *("--entrypoint-num-cpus", f"{self.entrypoint_num_cpus:g}"),
            *("--runtime-env-json", encode(runtime_env).decode()),
            *("--no-wait", "--", *self.entrypoint),
        ]

    def steps_total(self) -> int | None:
        """Count the optimiser steps from the first; None where that cannot be known."""
        return verl_config.steps_total(self.total_training_steps, self.total_epochs, self.train_batch_size, self.training_rows)


def read(folder: JobFolder) -> Plan:
    """Read the plan of a job folder. Raises BadInput when it is missing or damaged."""
    try:
        return msgspec.convert(documents.read_yaml(folder.resolved), documents.learned(Plan))
    except (OSError, Damaged, msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(f"cannot read {folder.resolved}: {error}") from None


def to_yaml(plan: Plan) -> str:
    """Return the text of ``config/resolved.yaml``."""
    import yaml

    return str(yaml.dump(msgspec.to_builtins(plan), sort_keys=False, allow_unicode=True, width=1000))


def describe(plan: Plan, via: Via = "cli", missing: Sequence[str] = ()) -> str:
    """Return the whole plan for a person, as YAML, with the runtime_env, the final command line, and the missing inputs."""
    import yaml

    extra = {"runtime_env": plan.runtime_env(), "submit_cmd": shlex.join(plan.submit_argv(via))}
    extra |= {"missing": list(missing)} if missing else {}
    return to_yaml(plan) + str(yaml.dump(extra, sort_keys=False, allow_unicode=True, width=100_000))
