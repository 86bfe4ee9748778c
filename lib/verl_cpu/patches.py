"""The patches of a CPU run: those of the rollout (``verl_hf``), and three for places where verl 0.9.1 requires an accelerator.

``python -m verl_cpu`` checks all of them at once.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from verl_hf import patches as rollout
from verl_hf.patching import Patch, set_default


def _gloo_by_default(module: ModuleType) -> None:
    # verl/utils/distributed.py:89 asks torch for "cpu:gloo,<device>:<backend>", and torch refuses a device named twice.
    # (Line 63 is the same for torchrun, unused here.)
    set_default(module.initialize_global_process_group_ray, "backend", "gloo")


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
    *rollout.PATCHES,
)
