"""Compose what a job runs with: merge the layers of overrides and of environment variables, and resolve the trainer's config."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ..base.errors import BadInput
from ..cluster.cluster_file import Cluster
from ..prepare import parquet
from ..trainers import hydra, verl_config
from ..trainers.hydra import select
from ..trainers.hydra_memory import Memory
from ..trainers.verl_config import Settings
from . import environment, limits, workloads
from .jobspec import JobSpec
from .resolve import Inputs
from .reward import RewardFunction
from .workloads import Workload


@dataclass(frozen=True, kw_only=True)
class Composed:
    """The trainer's overrides and config, and the environment of the job's processes."""

    own: list[str]
    """The JobSpec's own overrides, as texts."""
    overrides: list[str]
    """All overrides, merged: the trainer's arguments."""
    config: dict[str, Any]
    """What they compose to; empty for a workload without a Hydra config."""
    settings: Settings
    nnodes: int
    processes_per_node: int
    training_rows: int | None
    """Rows that the trainer reads for training; None where that cannot be known."""
    reward: RewardFunction | None
    logger: str
    """What is added to the loggers that the JobSpec names, and why; "" where nothing is."""
    env_vars: dict[str, str]


def compose(spec: JobSpec, cluster: Cluster, inputs: Inputs, source: str, *, remember: bool) -> Composed:
    """Merge and compose. Later layers win: workload, device, cluster file, defaults, the JobSpec's own, forced ones.

    With ``remember`` an accepted set of overrides is recorded under the shared root.

    Raises:
        BadInput: overrides that the config does not accept, a value that verl cannot use, or a reward function that this config
            has no option for.
        Blocked: the config cannot be composed here.
    """
    own = hydra.texts(spec.trainer_overrides, f"{source}: trainer_overrides")
    limits.check_overrides(own, source)
    _check_forced(inputs.workload, own, source)  # before Hydra reads them: its own settings take effect there, too
    wiring: list[str] = []
    config = _config(cluster, inputs, own, wiring, source, remember=remember)
    reward = inputs.reward
    if reward:
        wiring = _wiring(inputs, config, own, source)
        config = _config(cluster, inputs, own, wiring, source, remember=remember)
        reward = _with_call(reward, wiring, config)
    added, logger = _loggers(inputs, config, own)
    origin = f"{source}: trainer_overrides"
    settings = verl_config.settings(config, origin)
    shape = inputs.shape if inputs.workload.hydra else None
    return Composed(
        own=own,
        overrides=hydra.merge(_merged(cluster, inputs, own, wiring, inputs.placeholders), added),
        config=config,
        settings=settings,
        nnodes=settings.nnodes or (shape.nnodes if shape else 1),
        processes_per_node=settings.processes_per_node or (shape.processes if shape else 1),
        training_rows=_training_rows(config, origin),
        reward=reward,
        logger=logger,
        env_vars=environment.variables(spec, cluster, inputs),
    )


def _check_forced(workload: Workload, own: list[str], source: str) -> None:
    """The JobSpec changes no override that keeps the job in its own folder, nor how Hydra itself runs."""
    forced = {hydra.key_of(text) for text in [*workload.forced, *workload.resume]}
    for text in own:
        key = hydra.key_of(text)
        if hydra.is_for_hydra(text) or any(f"{key}.".startswith(f"{kept}.") for kept in forced):
            raise BadInput(
                f"{source}: trainer_overrides: '{key}' keeps the job in its own folder and cannot be changed",
                hint=f"leave '{key}' out",
            )


def _merged(cluster: Cluster, inputs: Inputs, own: list[str], wiring: list[str], placeholders: dict[str, str]) -> list[str]:
    workload = inputs.workload
    defaults = [f"{key}={value}" for key, value in workload.defaults.items()]
    toolkit = [*workload.overrides, *inputs.device.overrides, *cluster.trainer_overrides, *defaults, *wiring]
    forced = [*workload.forced, *(workload.resume if inputs.resume else [])]
    return hydra.merge(
        [workloads.render(text, placeholders) for text in toolkit],
        own,  # not rendered: a brace in a user's value is the user's
        [workloads.render(text, placeholders) for text in forced],
    )


def _config(
    cluster: Cluster, inputs: Inputs, own: list[str], wiring: list[str], source: str, *, remember: bool
) -> dict[str, Any]:
    workload, code = inputs.workload, inputs.code
    if not workload.hydra or not code:
        return {}
    if not code.content:  # without a snapshot, judge only what the overrides themselves say
        return hydra.sketch(_merged(cluster, inputs, own, wiring, inputs.placeholders))
    # The folder of the job is replaced by a constant: every job has another one, and no answer would ever be found again.
    anywhere = inputs.placeholders | dict.fromkeys(
        ("job_folder", "checkpoints", "metrics", "resume_path", "rollouts"), "JOB_FOLDER"
    )
    return hydra.compose(
        code.path / workload.hydra.config_dir,
        workload.hydra.config_name,
        _merged(cluster, inputs, own, wiring, anywhere),
        origin=f"{source}: trainer_overrides",
        memory=Memory(inputs.shared.override_cache, code.content, record=remember),
    )


def _loggers(inputs: Inputs, config: dict[str, Any], own: list[str]) -> tuple[list[str], str]:
    """Return the overrides that add verl's file logger and the tracker, with the tracker's name of the run; and a sentence."""
    names = verl_config.loggers(config) if any("{metrics}" in text for text in inputs.workload.env_vars.values()) else None
    if names is None:
        return [], ""
    added: list[str] = []
    reasons: list[str] = []
    if inputs.tracked and inputs.tracked.tracker not in names:
        added.append(inputs.tracked.tracker)
        reasons.append("tracking names it")
    if verl_config.FILE_LOGGER not in names:
        added.append(verl_config.FILE_LOGGER)
        reasons.append("status, stalls and proofs are read from metrics.jsonl, which it writes")
    overrides = [verl_config.with_loggers([*names, *added])] if added else []
    if inputs.tracked and verl_config.RUN_NAME not in {hydra.key_of(text) for text in own}:
        overrides.append(f"{verl_config.RUN_NAME}={inputs.tracked.run}")
    why = "; ".join(f"'{name}' is added to [{', '.join(names)}]: {why}" for name, why in zip(added, reasons, strict=True))
    return overrides, why


def _training_rows(config: dict[str, Any], origin: str) -> int | None:
    """Count the rows of the files that the config names for training, which a JobSpec's overrides may have changed."""
    try:
        counts = [parquet.rows(Path(file)) for file in verl_config.training_files(config)]
    except (OSError, ValueError):  # missing, or another format
        return None
    most = verl_config.most_rows(config, origin)
    return (min(sum(counts), most) if most else sum(counts)) if counts else None


def _wiring(inputs: Inputs, config: dict[str, Any], own: list[str], source: str) -> list[str]:
    """Return the overrides that name the reward function to this version of verl.

    Raises BadInput when its config has no such option, or when the JobSpec's own overrides set it too.
    """
    workload = inputs.workload
    if inputs.code and not inputs.code.content and workload.reward:
        return workload.reward[0]
    for texts in workload.reward:
        keys = [hydra.key_of(text) for text in texts]
        if all(last in (select(config, parent) or {}) for parent, _, last in (key.rpartition(".") for key in keys)):
            if repeated := {hydra.key_of(text) for text in own}.intersection(keys):
                raise BadInput(
                    f"{source}: trainer_overrides: reward_fn_path already sets '{min(repeated)}'", hint="leave one of them out"
                )
            return texts
    reason = "takes no reward function" if not workload.reward else "finds no option for it in the config of this code snapshot"
    raise BadInput(f"{source}: reward_fn_path: workload '{workload.name}' {reason}", hint="leave reward_fn_path out")


def _with_call(reward: RewardFunction, wiring: list[str], config: dict[str, Any]) -> RewardFunction:
    """Return ``reward`` with what the config says about its calls: further arguments, and which manager makes them."""
    option = hydra.key_of(wiring[0]).rpartition(".")[0]
    kwargs = select(config, f"{option}.{verl_config.REWARD_KWARGS}") or {}
    return msgspec.structs.replace(reward, kwargs=kwargs, one_by_one=verl_config.calls_reward_one_by_one(config))
