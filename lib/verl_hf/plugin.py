"""The module that verl imports on a GPU cluster without vLLM: adds the rollout ``hf`` to verl's own ``nvidia`` platform.

verl imports it by itself when ``VERL_USE_EXTERNAL_MODULES=verl_hf.plugin`` is set and the folder above is on ``PYTHONPATH``.

Raises:
    PluginError: ``VERL_PLATFORM`` is not ``nvidia``: verl could choose another platform without a word.
    PatchError: this verl has changed where the plugin patches it (raised when the module concerned is imported).
"""

from __future__ import annotations

import os

from .errors import PluginError
from .patches import PATCHES
from .patching import arm

if (wanted := os.environ.get("VERL_PLATFORM", "").strip().lower()) != "nvidia":
    raise PluginError(f"verl_hf.plugin was loaded with VERL_PLATFORM={wanted or '(not set)'}: set VERL_PLATFORM=nvidia")
arm(PATCHES)
