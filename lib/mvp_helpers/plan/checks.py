"""Check a composed job before anything is claimed: rules that the trainer would enforce after minutes, or never."""

from __future__ import annotations

from math import prod
from typing import Any

from ..base.errors import BadInput
from ..cluster import network
from ..cluster.cluster_file import GPU_SELECTORS, Cluster
from ..trainers import verl_config
from ..trainers.checkpoint import Resume
from ..trainers.hydra import select
from . import reward
from .compose import Composed
from .resolve import Inputs
from .workloads import BatchRule


def check(cluster: Cluster, inputs: Inputs, composed: Composed, source: str) -> None:
    """Raise BadInput for the first rule that the job breaks; see the functions below for the rules."""
    world_size = composed.nnodes * composed.processes_per_node
    if composed.reward:
        reward.check_source(composed.reward, source)
    _check_rows(composed, source)
    for rule in inputs.workload.batch_rules:
        _check_batch(rule, composed.config, world_size, source)
    _check_environment(cluster, composed.env_vars, source)
    if inputs.resume:
        _check_resume(inputs.resume, composed, world_size, source)


def _check_rows(composed: Composed, source: str) -> None:
    """The training data fill one batch: verl drops an incomplete one, and would end without a step."""
    rows, batch = composed.training_rows, composed.settings.train_batch_size
    if rows is not None and batch and rows < batch:
        raise BadInput(
            f"{source}: the training data have {rows} rows, fewer than one batch ({verl_config.TRAIN_BATCH_SIZE}={batch}): "
            "training would end without a step",
            hint=f"a smaller {verl_config.TRAIN_BATCH_SIZE} in trainer_overrides, or a dataset with more rows",
        )


def _check_batch(rule: BatchRule, config: dict[str, Any], world_size: int, source: str) -> None:
    """A product of config values divides by, or is at least, the product of others."""
    names = [*rule.product, *rule.divisible_by, *rule.at_least]
    lifted = rule.unless and select(config, rule.unless)
    applies = all(select(config, key) == value for key, value in rule.only_if.items())
    if lifted or not applies:
        return
    origin = f"{source}: trainer_overrides"
    given = {name: world_size if name == "world_size" else verl_config.number(config, name, origin) for name in names}
    numbers = {name: number for name, number in given.items() if number is not None}
    if len(numbers) < len(given):
        return

    def times(names: list[str]) -> int:
        return prod(numbers[name] for name in names)

    values = ", ".join(f"{name}={number}" for name, number in numbers.items())
    product = f"{source}: {' * '.join(rule.product)}"
    hint = "change trainer_overrides"
    if rule.divisible_by and times(rule.product) % times(rule.divisible_by):
        raise BadInput(f"{product} must be divisible by {' * '.join(rule.divisible_by)} ({values})", hint=hint)
    if rule.at_least and times(rule.product) < times(rule.at_least):
        raise BadInput(f"{product} must be at least {' * '.join(rule.at_least)} ({values})", hint=hint)


def _check_environment(cluster: Cluster, env_vars: dict[str, str], source: str) -> None:
    """Ray alone chooses GPUs, Gloo gets one interface, and every entry of PYTHONPATH is the same place on every host."""
    if cluster.device == "cuda" and (chosen := [name for name in GPU_SELECTORS if name in env_vars]):
        raise BadInput(
            f"{source}: env_vars.{chosen[0]} (the JobSpec's, the cluster file's or the workload's): Ray gives every process of a "
            "job its GPUs, and would count them wrongly",
            hint="leave it out; which GPUs a worker has is set where its Ray node is started",
        )
    interface = env_vars.get(network.GLOO, "")
    if any(mark in interface for mark in network.NOT_ONE_NAME):
        raise BadInput(
            f"{source}: env_vars.{network.GLOO} {interface!r}: Gloo takes exactly one name of an interface",
            hint="one name that every host has; or leave it out: each host has its own (network.interface in the cluster file)",
        )
    for part in env_vars["PYTHONPATH"].split(":"):
        if not part.startswith("/"):
            raise BadInput(f"{source}: env_vars.PYTHONPATH: '{part}' is not an absolute path")


def _check_resume(resume: Resume, composed: Composed, world_size: int, source: str) -> None:
    """The checkpoint was written by as many processes as will read it, and steps remain after it."""
    origin = f"{source}: resume_from: step {resume.step} of job '{resume.submission_id}'"
    if resume.world_size != world_size:
        raise BadInput(
            f"{origin} was written by {resume.world_size} trainer processes; this job would have {world_size} "
            f"({composed.nnodes} nodes with {composed.processes_per_node})",
            hint=f"set {verl_config.NNODES} and {verl_config.PROCESSES_PER_NODE} as in that job",
        )
    settings = composed.settings
    total = verl_config.steps_total(
        settings.total_training_steps, settings.total_epochs, settings.train_batch_size, composed.training_rows
    )
    if total is not None and total <= resume.step:
        raise BadInput(
            f"{origin} leaves nothing to train: this job ends at step {total}",
            hint=f"more {verl_config.TOTAL_EPOCHS} or {verl_config.TOTAL_TRAINING_STEPS}: both count from the very first step",
        )
