"""Patches for the places where verl 0.9.1 has no option, registry or override for a CPU, each with its check.

A patch is applied right after verl imports the module it concerns. It first checks that verl still has what it works around
(symbol, parameters, a distinctive piece of source); if not, it raises PatchError and that import fails, in the driver as in Ray
workers.
``python -m verl_cpu`` checks all of them at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from mvp_verl.imports import after_import

from .errors import PatchError

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Patch:
    """One workaround: the code it expects in verl, and the change it makes to the module after checking that."""

    name: str
    module: str
    symbol: str
    parameters: tuple[str, ...]
    fragment: str
    where: str
    apply: Callable[[ModuleType], None]

    def __call__(self, module: ModuleType) -> None:
        """Check ``module``, then patch it. Raises PatchError and leaves the module as it was."""
        self.check(module)
        self.apply(module)

    def check(self, module: ModuleType) -> None:
        """Raise PatchError if verl no longer has the code that this patch works around."""
        found: Any = module
        for part in self.symbol.split("."):
            found = getattr(found, part, None)
            if found is None:
                raise self._error("is gone")
        try:
            parameters = tuple(inspect.signature(found).parameters)
            source = inspect.getsource(found)
        except (TypeError, ValueError, OSError) as error:
            raise self._error(f"cannot be inspected ({error})") from error
        missing = [name for name in self.parameters if name not in parameters]
        if missing:
            raise self._error(f"has no parameter {', '.join(missing)} (it takes {', '.join(parameters)})")
        if self.fragment not in source:
            raise self._error(f"no longer contains {self.fragment!r}")

    def _error(self, what: str) -> PatchError:
        return PatchError(
            f"verl_cpu, patch '{self.name}': in verl {_verl_version()}, {self.module}.{self.symbol} {what}. "
            f"The patch works around {self.where} of verl 0.9.1. "
            "Use verl 0.9.1 for CPU runs, or compare that place and change or drop the patch in verl_cpu/patches.py."
        )


def _verl_version() -> str:
    import verl

    return str(getattr(verl, "__version__", "(unknown version)"))


def _set_default(function: Any, name: str, value: object) -> None:
    """Change a parameter's default on the function object, so that it also applies to existing references."""
    positional = [p for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    function.__defaults__ = tuple(value if p.name == name else p.default for p in positional if p.default is not p.empty)


def _gloo_by_default(module: ModuleType) -> None:
    # verl/utils/distributed.py:89 asks torch for "cpu:gloo,<device>:<backend>", and torch refuses a device named twice.
    # (Line 63 is the same for torchrun, unused here.)
    _set_default(module.initialize_global_process_group_ray, "backend", "gloo")


def _critic_attention(module: ModuleType) -> None:
    # verl/utils/model.py:649 loads the critic with flash_attention_2 whatever critic.model.override_config says, and shows the
    # missing package as "not a value head model".
    def load_valuehead_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        """Load a token classification model with one label as the critic, with the attention its config asks for."""
        from transformers import AutoModelForTokenClassification

        asked = getattr(model_config, "_attn_implementation", None)
        return AutoModelForTokenClassification.from_pretrained(
            local_path,
            dtype=torch_dtype,
            config=model_config,
            attn_implementation="sdpa" if asked in (None, "flash_attention_2") else asked,
            trust_remote_code=trust_remote_code,
        )

    module.load_valuehead_model = load_valuehead_model  # type: ignore[attr-defined]


def _count_platform_resource(module: ModuleType) -> None:
    # verl/single_controller/ray/base.py:230 counts only "GPU" and "NPU", although its bundles ask for the platform's resource.
    def _check_resource_available(self: Any) -> None:
        import ray
        from verl.plugin.platform import get_platform

        resource = get_platform().ray_resource_name()
        nodes = ray._private.state.available_resources_per_node().values()
        free = sum(node.get(resource, 0) for node in nodes)
        if free < self.get_n_gpus():
            raise ValueError(f"{self.get_n_gpus()} processes need one Ray {resource} each, but only {free:g} are free")

    module.ResourcePoolManager._check_resource_available = _check_resource_available


def _unpinned_offload(module: ModuleType) -> None:
    # verl/workers/engine/fsdp/transformer_impl.py:462 forces CPUOffloadPolicy(pin_memory=True) on the reference policy; pinning
    # needs an accelerator. Only the name in verl's module changes, torch's class stays.
    pinned = module.CPUOffloadPolicy

    def unpinned(pin_memory: bool = False) -> Any:
        return pinned(pin_memory=False)

    module.CPUOffloadPolicy = unpinned  # type: ignore[attr-defined]


def _poll_faster(module: ModuleType) -> None:
    # verl/trainer/ppo/v1/replay_buffer.py:144 sleeps two seconds between looks at finished rollouts and no config key reaches it:
    # most of a small CPU run would be that sleep. (A custom sampler could set it, but verl then drops algorithm.filter_groups.)
    _set_default(module.ReplayBuffer.__init__, "poll_interval", POLL_SECONDS)


def _rollout_class(module: ModuleType) -> None:
    # verl/workers/rollout/base.py:89: the registry of rollout classes has no public way in.
    module._ROLLOUT_REGISTRY[("hf", "async")] = "verl_cpu.rollout.ServerAdapter"


def _rollout_replica(module: ModuleType) -> None:
    def load() -> type:
        from .rollout import CpuReplica

        return CpuReplica

    module.RolloutReplicaRegistry.register("hf", load)


PATCHES = (
    Patch(
        name="gloo by default",
        module="verl.utils.distributed",
        symbol="initialize_global_process_group_ray",
        parameters=("timeout_second", "backend"),
        fragment='backend = backend or f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"',
        where="verl/utils/distributed.py:89 (torch refuses the backend 'cpu:gloo,cpu:gloo')",
        apply=_gloo_by_default,
    ),
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
        name="count the platform's resource",
        module="verl.single_controller.ray.base",
        symbol="ResourcePoolManager._check_resource_available",
        parameters=("self",),
        fragment='node_info.get("GPU", 0) if "GPU" in node_info else node_info.get("NPU", 0)',
        where="verl/single_controller/ray/base.py:230 (only GPU and NPU are counted)",
        apply=_count_platform_resource,
    ),
    Patch(
        name="unpinned offload",
        module="verl.workers.engine.fsdp.transformer_impl",
        symbol="FSDPEngine._build_fsdp_module",
        parameters=("self", "module"),
        fragment="offload_policy = CPUOffloadPolicy(pin_memory=True)",
        where="verl/workers/engine/fsdp/transformer_impl.py:462 (pinned memory needs an accelerator)",
        apply=_unpinned_offload,
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
)


def arm() -> None:
    """Apply every patch when verl imports its module, or now if that is imported already."""
    for patch in PATCHES:
        after_import(patch.module, patch)
