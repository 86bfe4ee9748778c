"""A cluster's hosts and their Ray nodes."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import Verbs


def _cluster(args: argparse.Namespace) -> int:
    from .. import cluster

    addresses = dict(pair.partition("=")[::2] for pair in args.at)
    loaded = cluster.load(args.name, addresses, args.here)
    if args.here:
        loaded.host(args.here)
    print(loaded.to_shell(), end="")
    return 0


def _start_node(args: argparse.Namespace) -> int:
    import signal

    from .. import cluster, ray_node

    # Scripts start workers in the background, where bash ignores SIGINT, and pass Ctrl-C on as SIGTERM.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    print(ray_node.start(cluster.from_environment(), args.host, early=args.early))
    return 0


def _stop_node(args: argparse.Namespace) -> int:
    from .. import cluster, ray_node

    print(ray_node.stop(cluster.from_environment(), args.host))
    return 0


def _wait_nodes(args: argparse.Namespace) -> int:
    from .. import cluster, ray_node

    loaded = cluster.from_environment()
    if args.now:
        print(ray_node.state(loaded))
    else:
        ray_node.wait(loaded)
    return 0


def _host_facts(args: argparse.Namespace) -> int:
    import msgspec

    from .. import cluster, prereq

    look = prereq.canaries if args.read else prereq.host_facts
    # One write a host: all hosts' lines go into one pipe at the same time.
    os.write(1, msgspec.json.encode(look(cluster.from_environment(), args.host, args.canary)) + b"\n")
    return 0


def _prereq(args: argparse.Namespace) -> int:
    import msgspec

    from .. import cluster, prereq

    loaded = cluster.from_environment()
    rounds = [
        [msgspec.json.decode(line, type=prereq.Facts) for line in part.splitlines() if line.strip()]
        for part in sys.stdin.read().split("\n\n", 1)
    ]
    checks = prereq.decide(loaded, rounds[0], rounds[1], prereq.tool_versions())
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(checks), indent=2).decode())
    else:
        print(prereq.table(checks))
    return 0 if all(check.ok for check in checks) else 3


def add(verbs: Verbs) -> None:
    """The parsers of all of them."""
    verb = verbs.add_parser("cluster", help="a cluster file as shell assignments, for eval")
    verb.add_argument("name", help="a name in templates/ray/, or the path of a cluster file")
    verb.add_argument(
        "--at", action="append", default=[], metavar="HOST=IP", help="the address of a host that has none in the file"
    )
    verb.add_argument("--here", default="", metavar="HOST", help="the host that this machine is: no ssh to it")
    verb.set_defaults(action=_cluster)

    verb = verbs.add_parser("start-node", help="start this host's Ray node, or repair it")
    verb.add_argument("host", help="its name in the cluster file")
    verb.add_argument("--early", action="store_true", help="return for a head as soon as workers can join")
    verb.set_defaults(action=_start_node)

    verb = verbs.add_parser("stop-node", help="end this host's Ray node and everything that runs on it")
    verb.add_argument("host", help="its name in the cluster file")
    verb.set_defaults(action=_stop_node)

    verb = verbs.add_parser("wait-nodes", help="wait until every host's Ray node is alive with its resources")
    verb.add_argument("--now", action="store_true", help="do not wait: print up, partly up or down")
    verb.set_defaults(action=_wait_nodes)

    verb = verbs.add_parser("host-facts", help="what this host is and has, as one line of JSON (for 00)")
    verb.add_argument("host", help="its name in the cluster file")
    verb.add_argument("--canary", required=True, help="names the canary files of this check")
    verb.add_argument("--read", action="store_true", help="second round: whose canaries does this host see?")
    verb.set_defaults(action=_host_facts)

    verb = verbs.add_parser("prereq", help="decide from the hosts' facts on stdin (for 00)")
    verb.add_argument("--json", action="store_true")
    verb.set_defaults(action=_prereq)
