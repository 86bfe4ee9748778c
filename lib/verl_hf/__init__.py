"""verl plugin: generation with ``transformers`` (``actor_rollout_ref.rollout.name=hf``) in place of vLLM, on a GPU or a CPU.

This package itself does nothing when it is imported: ``verl_cpu`` uses its modules. Its plugin for GPUs is ``verl_hf.plugin``.
"""

from __future__ import annotations
