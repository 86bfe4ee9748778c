"""The CPU as a verl platform: verl's accelerator interface over the host's processors and memory."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase


def _device_module() -> types.ModuleType:
    """Return ``torch.cpu`` plus the functions of ``torch.cuda`` that verl calls (memory in bytes)."""
    process = psutil.Process()

    def resident(*_: Any, **__: Any) -> int:
        return int(process.memory_info().rss)

    def nothing(*_: Any, **__: Any) -> None:
        return None

    def free_and_total(*_: Any, **__: Any) -> tuple[int, int]:
        memory = psutil.virtual_memory()
        return int(memory.available), int(memory.total)

    def rng_state(*_: Any, **__: Any) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(state: torch.Tensor, *_: Any, **__: Any) -> None:
        torch.set_rng_state(state)

    module = types.ModuleType("verl_cpu.device")
    module.__dict__.update({name: value for name, value in vars(torch.cpu).items() if not name.startswith("__")})
    held = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved")
    module.__dict__.update(dict.fromkeys(held, resident))
    # verl also calls torch.manual_seed, which seeds the CPU; a CPU has no cache to empty.
    idle = ("empty_cache", "ipc_collect", "reset_peak_memory_stats", "set_per_process_memory_fraction")
    module.__dict__.update(dict.fromkeys((*idle, "manual_seed", "manual_seed_all", "set_device"), nothing))
    module.__dict__.update(mem_get_info=free_and_total, get_rng_state=rng_state, set_rng_state=set_rng_state)
    module.__dict__["get_device_name"] = lambda *_: "cpu"
    return module


class PlatformCPU(PlatformBase):
    """verl's platform interface for the CPU; one Ray CPU replaces one GPU."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _device_module()

    def is_available(self) -> bool:
        return True

    def current_device(self) -> str:
        # verl passes this to Tensor.to(): an index would mean an accelerator.
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        return None

    def synchronize(self, device_index: int | None = None) -> None:
        return None

    def manual_seed(self, seed: int) -> None:
        return None

    def manual_seed_all(self, seed: int) -> None:
        return None

    def set_allocator_settings(self, settings: str) -> None:
        return None

    def empty_cache(self) -> None:
        return None

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        return None

    def profiler_stop(self) -> None:
        return None

    def ray_resource_name(self) -> str:
        return "CPU"

    def ray_resource_options(self, num_gpus: float) -> dict[str, float]:
        return {"num_cpus": num_gpus}

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None
