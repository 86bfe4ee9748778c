"""Ray's own command line: in a third of its CPU time, and aimed at this cluster whatever else runs on the head.

``python3 -m mvp_helpers.cluster.ray_command ARGV...`` does what ``ray ARGV...`` does. What ``aimed`` needs is imported there.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cluster_file import Cluster

OURS = {"start": "./scripts/01_up.sh", "stop": "./scripts/02_down.sh"}
"""Commands that would leave nodes without a record, or end Ray nodes of other clusters; and what to run instead."""

OPTIONAL = {
    "ray.serve.scripts": {"serve"},
    "ray.dashboard.modules.job.cli": {"job"},
    "ray.util.state.state_cli": {"list", "get", "summary", "logs"},
}
"""Modules that ``ray.scripts.scripts`` tolerates to be missing, and the commands that each adds; two thirds of its imports."""
WITHOUT = {"start", "stop", "status"}
"""Commands that need none of them. Any other word, ``--help`` among them, gets Ray's whole command line."""

HEAD_WAIT_S = 30.0
HEAD_POLL_S = 0.1


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


def main_of_ray(command: str) -> Callable[[], object]:
    """Import Ray's command line without the optional modules that ``command`` does not use; return its entry point."""
    optional = {name for name, words in OPTIONAL.items() if command not in words}
    left_out = optional - sys.modules.keys() if command in WITHOUT.union(*OPTIONAL.values()) else set()
    sys.modules.update(dict.fromkeys(left_out))  # type: ignore[arg-type]  # None: importing it raises ImportError
    try:
        scripts = importlib.import_module("ray.scripts.scripts")
        complete = not left_out or command in scripts.cli.commands
    except (ImportError, AttributeError):
        complete = False
    for name in left_out:  # code that runs later may import them
        sys.modules.pop(name, None)
    if not complete:  # another Ray, which needs one of them
        sys.modules.pop("ray.scripts.scripts", None)
        scripts = importlib.import_module("ray.scripts.scripts")
    return scripts.main  # type: ignore[no-any-return]


def await_head(arguments: Sequence[str]) -> None:
    """Wait until the head of ``ray start --address=…`` is in its own node table. Ray does the same, but looks every 2 s."""
    address = next((word.partition("=")[2] for word in arguments if word.startswith("--address=")), "")
    if arguments[:1] != ["start"] or not address:
        return
    deadline = time.monotonic() + HEAD_WAIT_S
    with contextlib.suppress(Exception):  # Ray says itself what is wrong
        client = importlib.import_module("ray._raylet").GcsClient(address=address)
        while not client.get_all_node_info(timeout=HEAD_WAIT_S) and time.monotonic() < deadline:
            time.sleep(HEAD_POLL_S)


if __name__ == "__main__":
    # Ray's imports allocate much and free little: with the default threshold (700) a fifth of their time is garbage collection.
    gc.set_threshold(50_000)
    main = main_of_ray(sys.argv[1] if len(sys.argv) > 1 else "")
    await_head(sys.argv[1:])
    sys.argv[0], __package__ = "ray", ""  # the program's name in Ray's messages
    try:
        main()
    finally:
        gc.freeze()  # at its end Python would search all modules for cycles, to free nothing
