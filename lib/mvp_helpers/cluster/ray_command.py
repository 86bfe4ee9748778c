"""Any command of Ray, aimed at this cluster whatever else runs on the head."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence

from ..base.errors import BadInput, Blocked
from . import ray_api
from .cluster_file import Cluster

OURS = {"start": "./scripts/01_up.sh", "stop": "./scripts/02_down.sh"}
"""Commands that would leave nodes without a record, or end Ray nodes of other clusters; and what to run instead."""


def prepare(cluster: Cluster, words: Sequence[str], inherited: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return argv and environment of Ray's command ``words``. No network access.

    Raises:
        BadInput: a command that the toolkit replaces.
        Blocked: the head's Python has no Ray.
    """
    if words[0] in OURS:
        raise BadInput(f"'ray {words[0]}' knows nothing of this cluster's hosts and records", hint=OURS[words[0]])
    if not importlib.util.find_spec("ray"):
        raise Blocked(f"Ray is not installed for {sys.executable}", hint=cluster.kind.install_hint(cluster.python))
    aimed = {
        "RAY_ADDRESS": cluster.gcs_address,
        # The commands "job …" reach the dashboard instead.
        "RAY_API_SERVER_ADDRESS": cluster.dashboard,
    }
    argv = [sys.executable, "-m", "ray.scripts.scripts", *words]
    return argv, dict(inherited) | ray_api.environment(cluster) | aimed
