"""A daemon that restarts a host's Ray node after it died, because its link was cut for too long or the head was restarted.

``stop-node`` ends it first.
"""

from __future__ import annotations

import time

from ..base.errors import MvpError
from . import daemon, ray_node
from .cluster_file import Cluster
from .daemon import Daemon

LOOK_S = 2.0
"""Seconds between two checks of the node's processes."""
ASK_S = 20.0
"""Seconds between two queries whether the head still lists the node as alive."""
FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 60.0
"""The wait after a failed start doubles with every further failure, up to this."""


def of(cluster: Cluster, name: str) -> Daemon:
    """Return the watchdog of host ``name``. Raises BadInput when the cluster has no such host."""
    return Daemon.of(cluster, name, "watchdog")


def watch(cluster: Cluster, name: str) -> None:
    """Keep host ``name``'s node joined until SIGTERM; return at once when another watchdog runs."""
    of(cluster, name).run(lambda: _keep_joined(cluster, name))


def _keep_joined(cluster: Cluster, name: str) -> None:
    wait, asked = FIRST_WAIT_S, time.monotonic()
    while True:
        time.sleep(LOOK_S)
        ask = time.monotonic() - asked > ASK_S
        asked = time.monotonic() if ask else asked
        if not (why := ray_node.lost(cluster, name, ask_head=ask)):
            continue
        daemon.log(f"{why}: starting it again")
        try:
            daemon.log(ray_node.start(cluster, name))
            wait = FIRST_WAIT_S
        except (MvpError, OSError) as error:
            daemon.log(f"{error.show() if isinstance(error, MvpError) else error}; again after {wait:.0f} s")
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_S)
