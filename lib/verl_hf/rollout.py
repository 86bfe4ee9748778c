"""verl's rollout backend with ``transformers``, ``actor_rollout_ref.rollout.name=hf``.

verl 0.9.1 generates through a server per replica: an actor that answers requests (``RolloutServer``), started by ``HfReplica``
and fed with new weights by a ``ServerAdapter`` in the training worker of the same rank. Weights travel as full tensors through
Ray's object store.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import ray
import torch
from verl.plugin.platform import get_platform
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutMode, RolloutReplica, TokenOutput

from .generation import Completion, Sampling, TokenModel, columns

# Long enough to collect the requests of one batch, short compared with a generation.
GATHER_SECONDS = 0.02
BUCKET_BYTES = 256 << 20


def server_name(replica_rank: int) -> str:
    """Return the server's Ray actor name; every Ray job has its own namespace, so names of two jobs cannot clash."""
    return f"verl_hf_rollout_{replica_rank}"


class RolloutServer:
    """Answer generation requests in batches; an asynchronous Ray actor on its training worker's node."""

    def __init__(self, config: Any, model_path: str, trust_remote_code: bool, replica_rank: int) -> None:
        threads = os.environ.get("OMP_NUM_THREADS", "1")
        torch.set_num_threads(max(1, int(threads) if threads.isdigit() else 1))
        self.config = config
        self.replica_rank = replica_rank
        self.global_steps: int | None = None
        self.model = TokenModel(
            model_path,
            dtype=getattr(torch, config.dtype),
            trust_remote_code=trust_remote_code,
            device=get_platform().device_name,
        )
        self._seeds = random.Random(int(config.seed) + replica_rank)
        self._waiting: dict[tuple[Sampling, int], list[tuple[list[int], int, asyncio.Future[Completion]]]] = defaultdict(list)
        self._busy = asyncio.Lock()

    async def address(self) -> str:
        """Return a name for verl's load balancer; nothing listens there."""
        return f"{ray.util.get_node_ip_address()}:{server_name(self.replica_rank)}"

    async def generate(
        self,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        request_id: str,
        image_data: Any = None,
        video_data: Any = None,
    ) -> TokenOutput:
        """Return one completion of ``prompt_ids``. Raises ValueError for images, videos and unsupported sampling parameters."""
        if image_data or video_data:
            raise ValueError("rollout.name=hf generates from text only, but the request has images or videos")
        budget = min(self.config.response_length, self.config.prompt_length + self.config.response_length - len(prompt_ids))
        sampling = Sampling.from_verl(sampling_params, max_tokens=budget, ignore_eos=bool(self.config.ignore_eos))
        seed = sampling_params.get("seed")
        answer: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        alike = sampling, columns(len(prompt_ids))
        self._waiting[alike].append((list(prompt_ids), self._seeds.getrandbits(63) if seed is None else int(seed), answer))
        await asyncio.sleep(GATHER_SECONDS)
        async with self._busy:
            # The first request generates for all waiting ones; the others find their answer ready.
            if not answer.done():
                await self._serve(alike)
        completion = await answer
        return TokenOutput(
            token_ids=completion.token_ids,
            log_probs=completion.log_probs,
            stop_reason="completed" if completion.ended else "length",
            num_preempted=0,
            extra_fields={"global_steps": self.global_steps},
        )

    async def _serve(self, alike: tuple[Sampling, int]) -> None:
        """Generate for all waiting requests with the same sampling and width, at most ``max_num_seqs`` at a time."""
        waiting = self._waiting.pop(alike)
        for start in range(0, len(waiting), self.config.max_num_seqs):
            prompts, seeds, answers = zip(*waiting[start : start + self.config.max_num_seqs], strict=True)
            try:
                completions = await asyncio.to_thread(self.model.generate, prompts, alike[0], seeds)
            except Exception as error:  # pass it to every waiting request, or the trainer would wait forever
                for answer in answers:
                    if not answer.cancelled():
                        answer.set_exception(error)
            else:
                for answer, completion in zip(answers, completions, strict=True):
                    if not answer.cancelled():
                        answer.set_result(completion)

    async def update_weights(self, tensors: dict[str, torch.Tensor], global_steps: int | None, last: bool) -> None:
        """Load a part of the trainer's weights, never during a generation. Errors: see TokenModel.load_weights."""
        async with self._busy:
            self.model.load_weights(tensors, last=last)
            if last:
                self.global_steps = global_steps

    async def nothing(self, *_: Any, **__: Any) -> None:
        """Do nothing for verl's calls about GPU memory and profiling. A weight update waits for requests, so none is aborted."""

    wake_up = sleep = abort_all_requests = resume_generation = clear_kv_cache = nothing
    release_kv_cache = resume_kv_cache = start_profile = stop_profile = set_global_steps = nothing


class HfReplica(RolloutReplica):
    """Start one RolloutServer on the node of its training worker."""

    async def launch_servers(self) -> None:
        """Start the server. Raises ValueError for a layout that this backend does not support."""
        if self.world_size != 1:
            raise ValueError(f"rollout.name=hf: one process per replica, got {self.world_size}; set tensor_model_parallel_size=1")
        if self.rollout_mode != RolloutMode.HYBRID:
            raise ValueError(f"rollout.name=hf shares its process with the trainer (hybrid mode), got {self.rollout_mode}")
        node_id, gpus = await self.workers[0].__ray_call__.remote(_place)
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)
        # It reserves no CPU and no share of a GPU: it works while the trainer waits.
        options = {"num_cpus": 0, "scheduling_strategy": here, "max_concurrency": self.max_concurrency}
        if gpus:  # those of its trainer, as verl's own rollouts do; Ray must not hide them
            env_vars = dict.fromkeys(get_platform().ray_noset_envvars(), "1") | {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
            options["runtime_env"] = {"env_vars": env_vars}
        actor = ray.remote(RolloutServer).options(name=server_name(self.replica_rank), **options)
        trust_remote_code = bool(self.model_config.get("trust_remote_code", False))
        server = actor.remote(self.config, self.model_config.path, trust_remote_code, self.replica_rank)
        self.servers = [server]
        self._server_handle = server
        self._server_address = await server.address.remote()


def _place(_worker: Any) -> tuple[str, list[str]]:
    """Return the node of the Ray worker that runs this, and the GPUs that Ray gave it."""
    context = ray.get_runtime_context()
    return context.get_node_id(), context.get_accelerator_ids().get("GPU", [])


class ServerAdapter(BaseRollout):
    """Send the training worker's weights to the server of the same rank."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = replica_rank if replica_rank >= 0 else int(os.environ["RANK"])

    async def resume(self, tags: list[str]) -> None:
        """Do nothing: nothing was released."""

    async def release(self) -> None:
        """Do nothing: no memory is shared with a GPU engine."""

    @torch.no_grad()
    async def update_weights(
        self,
        weights: Generator[tuple[str, torch.Tensor], None, None],
        wire_format: str = "named_tensors",
        *,
        global_steps: int | None = None,
        peft_config: Any = None,
        **_: Any,
    ) -> None:
        """Send all weights, in buckets. Raises ValueError for deltas and for LoRA adapters that are not merged."""
        if wire_format != "named_tensors":
            raise ValueError(f"rollout.name=hf takes whole tensors, not wire_format={wire_format}")
        if peft_config is not None:
            raise ValueError("rollout.name=hf takes no LoRA adapters: set actor_rollout_ref.model.lora.merge=True")
        server = ray.get_actor(server_name(self.replica_rank))
        bucket: dict[str, torch.Tensor] = {}
        # Gathering a tensor is a collective: every rank must iterate over all tensors, in order.
        for name, tensor in weights:
            bucket[name] = tensor.detach().cpu().clone()
            if sum(part.nbytes for part in bucket.values()) >= BUCKET_BYTES:
                await server.update_weights.remote(bucket, global_steps, False)
                bucket = {}
        await server.update_weights.remote(bucket, global_steps, True)
