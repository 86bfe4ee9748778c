"""verl plugin: runs the unmodified verl (PPO, GRPO, SFT) on a CPU.

verl imports it by itself when ``VERL_USE_EXTERNAL_MODULES=verl_cpu`` is set and this folder's parent is on ``PYTHONPATH``.
The package has no entry point on purpose: verl loads entry points in every run and hides their errors, but an error in a module
named in the variable ends ``import verl``. Also set ``VERL_PLATFORM=cpu``: if the plugin is not loaded, verl then stops with
``Unknown platform 'cpu'``.

Raises:
    PluginError: a GPU is visible, another platform is asked for or already in use, or this verl has no platform registry.
    PatchError: this verl has changed where the plugin patches it (raised when the module concerned is imported).
"""

from __future__ import annotations

from verl_hf.errors import PatchError, PluginError

from .activation import activate

__all__ = ["PatchError", "PluginError"]

activate()
