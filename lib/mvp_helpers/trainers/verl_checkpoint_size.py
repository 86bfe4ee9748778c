"""How large verl's checkpoints get, and how many of them a run leaves, from its composed config and the model's parameters."""

from __future__ import annotations

import math
from typing import Any

from . import verl_checkpoints, verl_config
from .hydra import select

BYTES = {"fp32": 4, "float32": 4, "bf16": 2, "bfloat16": 2, "fp16": 2, "float16": 2}
STATES_PER_PARAMETER = 2
"""Adam's: the means of the gradient and of its square, in the type of the parameters."""
MEGATRON_OPTIMIZER_BYTES = 12
"""A parameter's fp32 copy and Adam's two states."""
LORA_RANKS = ("lora_rank", "lora.rank")


def parts(config: dict[str, Any]) -> dict[str, str]:
    """Return the config key of each model that a checkpoint contains, with the key of its path."""
    if select(config, "actor_rollout_ref") is None:
        return {"": "model.path"} if select(config, "engine") is not None else {}
    critic = select(config, "critic.enable")
    with_critic = select(config, "algorithm.adv_estimator") == "gae" if critic is None else bool(critic)
    return {"actor_rollout_ref.actor": "actor_rollout_ref.model.path"} | ({"critic": "critic.model.path"} if with_critic else {})


def bytes_per_parameter(config: dict[str, Any], part: str) -> float:
    """Return the bytes that a checkpoint has for each parameter of the model of ``part`` (a key of ``parts``)."""
    key = f"{part}." if part else ""
    contents = select(config, f"{key}checkpoint.save_contents") or ["model", "optimizer", "extra"]
    megatron = select(config, f"{key}strategy") == "megatron"
    engine = {"": "engine", "critic": "critic.fsdp"}.get(part, f"{part}.fsdp_config")
    each = 2 if megatron else BYTES.get(str(select(config, f"{engine}.model_dtype")), 4)
    model = {"": "model", "critic": "critic.model"}.get(part, "actor_rollout_ref.model")
    adapters = any(select(config, f"{model}.{rank}") for rank in LORA_RANKS)
    optimizer = MEGATRON_OPTIMIZER_BYTES if megatron else STATES_PER_PARAMETER * each
    sizes = {"model": each, "optimizer": 0 if adapters else optimizer, "hf_model": each}
    return float(sum(size for name, size in sizes.items() if name in contents))


def saves(config: dict[str, Any], steps_total: int | None, first_step: int) -> int | None:
    """Return how many checkpoints the run writes; None where that cannot be known."""
    frequency = select(config, verl_config.SAVE_FREQ)
    if isinstance(frequency, int) and frequency <= 0:
        # SFT saves its last step whatever the frequency is.
        return 0 if select(config, "actor_rollout_ref") is not None else 1
    if steps_total is None or not isinstance(frequency, int):
        return None
    return math.ceil(steps_total / frequency) - (first_step - 1) // frequency


def at_once(saves: int | None, kept: int | None) -> int | None:
    """Return how many checkpoints are on disk at the worst moment; None where that cannot be known.

    verl removes the oldest before it writes the next one, except where it keeps only one: then the old one goes last.
    """
    most = None if kept is None else max(kept, 2)
    known = [number for number in (saves, most) if number is not None]
    return min(known, default=None)


def kept(config: dict[str, Any]) -> int | None:
    """Return how many of the newest checkpoints verl keeps; None: all of them."""
    return verl_checkpoints.kept({key: str(select(config, key)) for key in verl_checkpoints.RETENTION})
