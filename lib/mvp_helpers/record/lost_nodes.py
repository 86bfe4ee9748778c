"""Wait for Ray to give up a node that has died: it lists such a node as alive for up to a minute."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..base.errors import MvpError
from ..cluster.ray_api import RayApi

LONGEST_S = 70.0
"""Ray's health check gives up a node that is frozen or cut off after about 65 s, and one whose processes are gone after 15 s."""
ASK_S = 1.0


def wait(api: RayApi, hurry: Callable[[], bool], limit_s: float = LONGEST_S, ask_s: float = ASK_S) -> list[str]:
    """Wait until every node that Ray lists as alive has reported since the call; return the ids of those that were given up.

    Nodes report every 5 s. Ends early when ``hurry`` returns True or Ray does not answer, and after ``limit_s`` seconds.
    """
    end = time.monotonic() + limit_s
    try:
        before = reports = api.node_reports()
        while time.monotonic() < end and not hurry() and any(reports.get(node) == at for node, at in before.items()):
            time.sleep(ask_s)
            reports = api.node_reports()
    except MvpError:
        return []
    return sorted(before.keys() - reports.keys())
