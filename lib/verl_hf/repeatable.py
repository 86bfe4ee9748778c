"""Patches that make runs of one configuration and seed equal: with verl alone answers depend on when requests arrive, and their
order in training depends on when they are ready.

Prompts get ids by their step and their place in it, instead of random ones; a request gets a seed from its prompt's id and its
place among the prompt's answers; a batch is trained in the order of its ids. A resumed run goes on as an uninterrupted one.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import uuid
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from .patching import Patch


def _ids_in_order(module: ModuleType) -> None:
    place = (0, 0)  # the trainer's step, and whether its prompts are for validation
    numbers: dict[tuple[int, int], itertools.count[int]] = {}

    def next_id() -> uuid.UUID:
        step, validates = place
        return uuid.UUID(int=step << 64 | validates << 63 | next(numbers.setdefault(place, itertools.count(1))))

    def at(method: Callable[[Any], Any], validates: int) -> Callable[[Any], Any]:
        @functools.wraps(method)
        def noted(self: Any) -> Any:
            nonlocal place
            place = (self.global_steps, validates)
            return method(self)

        return noted

    module.uuid = SimpleNamespace(uuid4=next_id)  # type: ignore[attr-defined]
    module.PPOTrainer._fetch_one_gen_batch = at(module.PPOTrainer._fetch_one_gen_batch, 0)
    module.PPOTrainer._validate = at(module.PPOTrainer._validate, 1)


def _order_of_a_batch(module: ModuleType) -> None:
    original = module.ReplayBuffer._materialize_batch

    @functools.wraps(original)
    def _materialize_batch(self: Any, partition_id: str, selected_prompt_uids: Any, partition_snapshot: dict[str, Any]) -> Any:
        return original(self, partition_id, selected_prompt_uids, dict(sorted(partition_snapshot.items())))

    module.ReplayBuffer._materialize_batch = _materialize_batch


def _seed_of_a_request(module: ModuleType) -> None:
    original = module.AgentLoopWorker._run_agent_loop

    @functools.wraps(original)
    async def _run_agent_loop(self: Any, sampling_params: dict[str, Any], trajectory: dict[str, Any], **kwargs: Any) -> Any:
        place = [str(kwargs.get(name)) for name in ("uid", "session_id", "priority")]
        words = repr((self.config.actor_rollout_ref.rollout.seed, *place))
        seed = int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 1
        return await original(self, {**sampling_params, "seed": seed}, trajectory, **kwargs)

    module.AgentLoopWorker._run_agent_loop = _run_agent_loop


PATCHES = (
    Patch(
        name="ids in order",
        module="verl.trainer.ppo.v1.trainer_base",
        symbol="PPOTrainer._fetch_one_gen_batch",
        parameters=("self",),
        fragment='batch_dict["uid"] = np.array([str(uuid.uuid4())',
        where="verl/trainer/ppo/v1/trainer_base.py:1476 (random ids of prompts)",
        apply=_ids_in_order,
    ),
    Patch(
        name="order of a batch",
        module="verl.trainer.ppo.v1.replay_buffer",
        symbol="ReplayBuffer._materialize_batch",
        parameters=("self", "partition_id", "selected_prompt_uids", "partition_snapshot"),
        fragment="for key, tag in partition_snapshot.items()",
        where="verl/trainer/ppo/v1/replay_buffer.py:394 (a batch in the order in which answers were ready)",
        apply=_order_of_a_batch,
    ),
    Patch(
        name="seed of a request",
        module="verl.experimental.agent_loop.agent_loop",
        symbol="AgentLoopWorker._run_agent_loop",
        parameters=("self", "sampling_params", "trajectory"),
        fragment="await agent_loop.run(sampling_params, **kwargs)",
        where="verl/experimental/agent_loop/agent_loop.py:661 (a request has no seed)",
        apply=_seed_of_a_request,
    ),
)
