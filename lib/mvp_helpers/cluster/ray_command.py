"""Ray's own command line: in four fifths of its CPU time, and aimed at this cluster whatever else runs on the head.

``python3 -m mvp_helpers.cluster.ray_command ARGV...`` does what ``ray ARGV...`` does. What ``aimed`` needs is imported there.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cluster_file import Cluster

OURS = {"start": "./scripts/01_up.sh", "stop": "./scripts/02_down.sh"}
"""Commands that would leave nodes without a record, or end Ray nodes of other clusters; and what to run instead."""


def argv(arguments: Sequence[str]) -> list[str]:
    """Return the command that does what ``ray`` followed by ``arguments`` does, with the Ray of this interpreter."""
    return [sys.executable, "-m", "mvp_helpers.cluster.ray_command", *arguments]


def aimed(cluster: Cluster, words: Sequence[str], inherited: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return argv and environment of Ray's command ``words`` for this cluster. No network access.

    Raises:
        BadInput: a command that the toolkit replaces.
        Blocked: the head's Python has no Ray.
    """
    from ..base.errors import BadInput, Blocked
    from . import ray_api

    if words[0] in OURS:
        raise BadInput(f"'ray {words[0]}' does not use this cluster's hosts and records", hint=OURS[words[0]])
    if not importlib.util.find_spec("ray"):
        raise Blocked(f"Ray is not installed for {sys.executable}", hint=cluster.kind.install_hint(cluster.python))
    addresses = {
        "RAY_ADDRESS": cluster.gcs_address,
        # The commands "job …" reach the dashboard instead.
        "RAY_API_SERVER_ADDRESS": cluster.dashboard,
    }
    return argv(words), dict(inherited) | ray_api.command_environment(cluster) | addresses


if __name__ == "__main__":
    # Ray's imports allocate much and free little: with the default threshold (700) a fifth of their time is garbage collection.
    gc.set_threshold(50_000)
    from ray.scripts.scripts import main

    sys.argv[0] = "ray"
    try:
        main()
    finally:
        gc.freeze()  # at its end Python would search all modules for cycles, to free nothing
