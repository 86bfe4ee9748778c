"""What verl starts on the Ray cluster beside its training processes, with the resources that each of them needs.

Taken from verl 0.9.1 and TransferQueue 0.1.11. An actor that names no CPUs needs one free CPU to be placed and then holds none.
For a CPU that never becomes free Ray waits without a word (https://github.com/volcengine/verl/issues/7656).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from . import verl_config
from .hydra import select

STORAGE_UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
REWARD_WORKERS = "reward.num_workers"
AGENT_WORKERS = "actor_rollout_ref.rollout.agent.num_workers"
ROLLOUT = "actor_rollout_ref.rollout"
ROLLOUT_CPUS = 2
"""CPUs that verl requests with each GPU of a rollout that has GPUs of its own (``RolloutReplica.init_standalone``)."""
SERVERS_WITHOUT_CPU = frozenset({"hf"})
"""Rollouts whose server needs no CPU to start: that of our plugins."""
WITHOUT_VERL = frozenset({"TransferQueueController", "SimpleStorageUnit", "RayObjectRefStorage"})
"""Classes of actors that never import verl: those of TransferQueue."""

Place = Literal["anywhere", "on the workers in turn", "with the trainers"]


class Actors(msgspec.Struct, frozen=True, kw_only=True):
    """Actors of one kind. ``cpus`` is what each holds; with 0 it needs one free CPU to start."""

    what: str
    number: int
    cpus: int = 0
    place: Place = "anywhere"
    key: str = ""
    """The config key with ``number``; "" when no option changes it."""
    squared: bool = False
    """Whether each of ``number`` processes starts ``number`` of them."""

    @property
    def count(self) -> int:
        return self.number**2 if self.squared else self.number


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Processes with an accelerator each: ``groups`` times ``processes`` that must share a node."""

    what: str
    groups: int
    processes: int
    cpus: int
    """Requested with each process."""


class Starts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the trainer starts beside its training processes."""

    actors: list[Actors] = []
    pools: list[Pool] = []


def starts(config: dict[str, Any], cpus_per_process: int, origin: str = "config") -> Starts:
    """Return what verl starts with this composed config. SFT starts nothing beside its training processes.

    Raises BadInput, beginning with ``origin``, for a number that verl cannot use.
    """
    if select(config, ROLLOUT) is None:
        return Starts()
    actors = [Actors(what="task runner", number=1), *_queue(config, origin)]
    engine = str(select(config, f"{ROLLOUT}.name"))
    if engine not in SERVERS_WITHOUT_CPU:
        actors.append(Actors(what=f"{engine} servers", number=_replicas(config, origin), place="with the trainers"))
    if reward_workers := _number(config, REWARD_WORKERS, origin):
        actors.append(Actors(what="reward workers", number=reward_workers, key=REWARD_WORKERS))
        if next((name for key in verl_config.REWARD_MANAGERS if (name := select(config, key))), None) == "remote":
            remote = Actors(what="remote reward workers", number=reward_workers, cpus=1, key=REWARD_WORKERS, squared=True)
            actors.append(remote)
    if agents := _number(config, AGENT_WORKERS, origin):
        actors.append(Actors(what="agent-loop workers", number=agents, key=AGENT_WORKERS))
    return Starts(actors=actors, pools=_pools(config, cpus_per_process, origin))


def _queue(config: dict[str, Any], origin: str) -> list[Actors]:
    """Return the TransferQueue's actors: always part of the V1 trainer, by its switch part of the older one."""
    used = select(config, "trainer.use_v1") or select(config, "transfer_queue.enable")
    if not used or select(config, "transfer_queue.backend.storage_backend") != "SimpleStorage":
        return []
    return [
        Actors(what="TransferQueue controller", number=1, cpus=1),
        Actors(
            what="TransferQueue storage units",
            number=_number(config, STORAGE_UNITS, origin),
            cpus=1,
            place="on the workers in turn",
            key=STORAGE_UNITS,
        ),
    ]


def _pools(config: dict[str, Any], cpus_per_process: int, origin: str) -> list[Pool]:
    """Return the pools of processes with accelerators of their own: reward model, teacher, a rollout apart from the training."""
    pools = []
    for what, key, enabled in (
        ("reward model", "reward.reward_model", "reward.reward_model.enable_resource_pool"),
        ("teacher", "distillation", "distillation.enabled"),
    ):
        if select(config, enabled) is True:
            groups, processes = _number(config, f"{key}.nnodes", origin), _number(config, f"{key}.n_gpus_per_node", origin)
            pools.append(Pool(what=what, groups=groups, processes=processes, cpus=cpus_per_process))
    if select(config, "trainer.use_v1") and select(config, "trainer.v1.trainer_mode") == "separate_async":
        given = _number(config, f"{ROLLOUT}.nnodes", origin) * _number(config, f"{ROLLOUT}.n_gpus_per_node", origin)
        on_node = min(_replica(config, origin), _number(config, f"{ROLLOUT}.n_gpus_per_node", origin) or 1)
        pools.append(Pool(what="rollout", groups=given // on_node, processes=on_node, cpus=ROLLOUT_CPUS))
    return pools


def _replica(config: dict[str, Any], origin: str) -> int:
    """Return the processes of one rollout replica."""
    sizes = [
        _number(config, f"{ROLLOUT}.{kind}_parallel_size", origin) or 1 for kind in ("tensor_model", "data", "pipeline_model")
    ]
    return sizes[0] * sizes[1] * sizes[2]


def _replicas(config: dict[str, Any], origin: str) -> int:
    processes = _number(config, verl_config.NNODES, origin) * _number(config, verl_config.PROCESSES_PER_NODE, origin)
    return max(1, processes // _replica(config, origin))


def _number(config: dict[str, Any], key: str, origin: str) -> int:
    return verl_config.number(config, key, origin, least=0, most=verl_config.MOST_PROCESSES) or 0
