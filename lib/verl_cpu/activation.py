"""Switch a process to the CPU plugin, at import."""

from __future__ import annotations

import os

from verl_hf.errors import PluginError
from verl_hf.patching import arm

UNLOAD = "unset VERL_USE_EXTERNAL_MODULES and VERL_PLATFORM to train on the GPU"


def activate() -> None:
    """Register the CPU platform and arm the patches.

    Raises:
        PluginError: see the package's docstring. No patch has been applied then.
    """
    import torch

    if torch.cuda.is_available():
        raise PluginError(f"verl_cpu was loaded where a GPU is visible: {UNLOAD}, or hide the GPU with CUDA_VISIBLE_DEVICES=''")
    wanted = os.environ.setdefault("VERL_PLATFORM", "cpu").strip().lower()
    if wanted != "cpu":
        raise PluginError(f"verl_cpu was loaded with VERL_PLATFORM={wanted}: set VERL_PLATFORM=cpu, or {UNLOAD}")

    try:
        from verl.plugin.platform import PlatformRegistry, get_platform
    except ImportError as error:
        raise PluginError(f"this verl has no platform registry ({error}); verl_cpu is made for verl 0.9.1") from error

    from . import patches
    from .platform import PlatformCPU

    PlatformRegistry.register(platform="cpu")(PlatformCPU)
    # verl keeps the first platform it resolves for the life of the process.
    platform = get_platform()
    if platform.device_name != "cpu":
        raise PluginError(
            f"verl already runs on '{platform.device_name}' in this process: import verl_cpu before using verl, "
            "or let verl import it (VERL_USE_EXTERNAL_MODULES=verl_cpu)"
        )
    # FSDP engines are registered for cuda and npu only; this is verl's own override of the lookup (workers/engine/base.py).
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")
    arm(patches.PATCHES)
