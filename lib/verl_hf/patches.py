"""Patches that generation with ``transformers`` needs on any device: its rollout in verl's registries, a critic that needs no
flash attention, and equal runs."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from . import repeatable
from .patching import Patch, set_default

POLL_SECONDS = 0.1


def _critic_attention(module: ModuleType) -> None:
    # verl/utils/model.py:649 loads the critic with flash_attention_2 whatever critic.model.override_config says, and shows the
    # missing package as "not a value head model".
    def load_valuehead_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        """Load a token classification model with one label as the critic, with the attention its config asks for.

        Its head is not in the checkpoint: it gets the same random weights in every run and process.
        """
        import torch
        from transformers import AutoModelForTokenClassification

        asked = getattr(model_config, "_attn_implementation", None)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            return AutoModelForTokenClassification.from_pretrained(
                local_path,
                dtype=torch_dtype,
                config=model_config,
                attn_implementation="sdpa" if asked in (None, "flash_attention_2") else asked,
                trust_remote_code=trust_remote_code,
            )

    module.load_valuehead_model = load_valuehead_model  # type: ignore[attr-defined]


def _poll_faster(module: ModuleType) -> None:
    # verl/trainer/ppo/v1/replay_buffer.py:144 sleeps two seconds between looks at finished rollouts and no config key reaches it:
    # most of a small CPU run would be that sleep. (A custom sampler could set it, but verl then drops algorithm.filter_groups.)
    set_default(module.ReplayBuffer.__init__, "poll_interval", POLL_SECONDS)


def _rollout_class(module: ModuleType) -> None:
    # verl/workers/rollout/base.py:89: the registry of rollout classes has no public way in.
    module._ROLLOUT_REGISTRY[("hf", "async")] = "verl_hf.rollout.ServerAdapter"


def _rollout_replica(module: ModuleType) -> None:
    def load() -> type:
        from .rollout import HfReplica

        return HfReplica

    module.RolloutReplicaRegistry.register("hf", load)


PATCHES = (
    Patch(
        name="critic attention",
        module="verl.utils.model",
        symbol="load_valuehead_model",
        parameters=("local_path", "torch_dtype", "model_config", "trust_remote_code"),
        fragment='attn_implementation="flash_attention_2"',
        where="verl/utils/model.py:649 (flash attention is hard-coded for the critic)",
        apply=_critic_attention,
    ),
    Patch(
        name="poll faster",
        module="verl.trainer.ppo.v1.replay_buffer",
        symbol="ReplayBuffer.__init__",
        parameters=("self", "poll_interval"),
        fragment="poll_interval: float = 2.0",
        where="verl/trainer/ppo/v1/replay_buffer.py:144 (a fixed wait of 2 s in every step)",
        apply=_poll_faster,
    ),
    Patch(
        name="rollout class",
        module="verl.workers.rollout.base",
        symbol="get_rollout_class",
        parameters=("rollout_name", "mode"),
        fragment="_ROLLOUT_REGISTRY[(rollout_name, mode)]",
        where="verl/workers/rollout/base.py:89 (a private registry of rollout classes)",
        apply=_rollout_class,
    ),
    Patch(
        name="rollout replica",
        module="verl.workers.rollout.replica",
        symbol="RolloutReplicaRegistry.register",
        parameters=("name", "loader"),
        fragment="cls._registry[name] = loader",
        where="verl/workers/rollout/replica.py:318 (the public registry of rollout servers)",
        apply=_rollout_replica,
    ),
    *repeatable.PATCHES,
)
