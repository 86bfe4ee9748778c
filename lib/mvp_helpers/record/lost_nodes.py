"""Wait for Ray to give up a node that has died: it lists such a node as alive for up to a minute."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from ..base.errors import MvpError
from ..cluster.ray_api import RayApi

LONGEST_S = 70.0
"""Ray's health check gives up a node that is frozen or cut off after about 65 s, and one whose processes are gone after 15 s."""
UNANSWERED_S = 25.0
"""Two calls that a busy head does not answer in time, and a third; a lost head refuses the connection the whole time."""
ASK_S = 1.0
NEW_REPORTS = 2
"""One more than the report that a node that died can have sent before its death, and that a busy head handles only now."""


def wait(
    api: RayApi,
    hurry: Callable[[], bool],
    limit_s: float = LONGEST_S,
    ask_s: float = ASK_S,
    unanswered_s: float = UNANSWERED_S,
) -> list[str]:
    """Wait until each node that Ray lists as alive has reported twice since the call; return the ids of those given up.

    Nodes report every 5 s. Ends early when ``hurry`` returns True, when Ray has not answered for ``unanswered_s`` seconds, and
    after ``limit_s`` seconds.
    """
    answered = time.monotonic()
    end, seen, reports = answered + limit_s, dict[str, set[float]](), dict[str, float]()
    while True:
        with contextlib.suppress(MvpError):
            reports = api.node_reports()
            answered, seen = time.monotonic(), seen or {node: set() for node in reports}
            for node in seen.keys() & reports.keys():
                seen[node].add(reports[node])
            if all(len(seen[node]) > NEW_REPORTS for node in seen.keys() & reports.keys()):
                break
        if hurry() or time.monotonic() > min(end, answered + unanswered_s):
            break
        time.sleep(ask_s)
    return sorted(seen.keys() - reports.keys())
