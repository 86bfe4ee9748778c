"""A cluster's hosts and their Ray nodes."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import Verbs


def _cluster(args: argparse.Namespace) -> int:
    from ..cluster import cluster_file

    addresses = dict(pair.partition("=")[::2] for pair in args.at)
    loaded = cluster_file.load(args.name, addresses, args.here)
    if args.here:
        loaded.host(args.here)
    print(loaded.to_shell(), end="")
    return 0


def _start_node(args: argparse.Namespace) -> int:
    import signal

    from ..cluster import cluster_file, ray_node

    # Scripts start workers in the background, where bash ignores SIGINT, and pass Ctrl-C on as SIGTERM.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    loaded = cluster_file.from_environment()
    did = ray_node.start(loaded, args.host, early=args.early)
    print(did, flush=True)
    if args.watchdog:
        from ..cluster import watchdog

        watchdog.start(loaded, args.host)
    if args.stay and did != "already running":
        ray_node.stay(loaded, args.host)
    return 0


def _stop_node(args: argparse.Namespace) -> int:
    from ..cluster import cluster_file, ray_node, watchdog

    loaded = cluster_file.from_environment()
    watchdog.stop(loaded, args.host)
    print(ray_node.stop(loaded, args.host))
    return 0


def _wait_nodes(args: argparse.Namespace) -> int:
    from ..cluster import cluster_file, ray_node

    loaded = cluster_file.from_environment()
    if args.now:
        print(ray_node.state(loaded))
    else:
        ray_node.wait(loaded)
    return 0


def _host_facts(args: argparse.Namespace) -> int:
    import msgspec

    from ..cluster import cluster_file, prereq

    look = prereq.canaries if args.read else prereq.host_facts
    # One write a host: all hosts' lines go into one pipe at the same time.
    os.write(1, msgspec.json.encode(look(cluster_file.from_environment(), args.host, args.canary)) + b"\n")
    return 0


def _all_reduce(args: argparse.Namespace) -> int:
    import signal

    import msgspec

    from ..cluster import all_reduce, cluster_file

    loaded = cluster_file.from_environment()
    if args.free_port:
        print(all_reduce.free_port(loaded))
        return 0
    # In the background bash ignores SIGINT; either way the processes of the test go with us.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    outcome = all_reduce.measure(loaded, args.host, args.port, args.timeout)
    os.write(1, msgspec.json.encode(outcome) + b"\n")
    return 0


def _prereq(args: argparse.Namespace) -> int:
    import shutil

    import msgspec

    from ..base import verdict
    from ..cluster import all_reduce, cluster_file, prereq

    loaded = cluster_file.from_environment()
    parts = [[line for line in part.splitlines() if line.strip()] for part in sys.stdin.read().split("\n\n", 2)]
    facts, second = ([msgspec.json.decode(line, type=prereq.Facts) for line in part] for part in parts[:2])
    checks = prereq.decide(loaded, facts, second, prereq.tool_versions())
    if args.nccl:
        checks.append(prereq.all_reduce_check(loaded, [msgspec.json.decode(line, type=all_reduce.Outcome) for line in parts[2]]))
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(checks), indent=2).decode())
    else:
        # Where no terminal reads it, a line for each check: it may be searched.
        print(verdict.table(checks, shutil.get_terminal_size((10_000, 24)).columns))
    return 0 if verdict.all_met(checks) else 3


def _own_address(args: argparse.Namespace) -> int:
    from ..cluster import addresses, cluster_file

    print(addresses.own(cluster_file.from_environment()))
    return 0


def _tool_files(args: argparse.Namespace) -> int:
    from ..base import project

    sys.stdout.buffer.write(b"".join(os.fsencode(file) + b"\0" for file in project.files()))
    return 0


def _watchdog(args: argparse.Namespace) -> int:
    from ..cluster import cluster_file, watchdog

    watchdog.watch(cluster_file.from_environment(), args.host)
    return 0


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
    verb.add_argument("--stay", action="store_true", help="return when the node has ended; ended by a signal, end the node")
    verb.add_argument("--watchdog", action="store_true", help="leave a process that starts the node again when it dies")
    verb.set_defaults(action=_start_node)

    verb = verbs.add_parser("watchdog", help="keep this host's Ray node joined (start-node --watchdog starts it)")
    verb.add_argument("host", help="its name in the cluster file")
    verb.set_defaults(action=_watchdog)

    verb = verbs.add_parser("own-address", help="the address other hosts reach this one by")
    verb.set_defaults(action=_own_address)

    verb = verbs.add_parser("tool-files", help="the files of this project that are deployed, each ended by a zero byte")
    verb.set_defaults(action=_tool_files)

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

    verb = verbs.add_parser("all-reduce", help="this worker's share of the all-reduce test, as one line of JSON (for 00)")
    verb.add_argument("host", help="its name in the cluster file")
    verb.add_argument("--free-port", action="store_true", help="only print a port where the workers could meet (on the first)")
    verb.add_argument("--port", type=int, default=0, help="where they meet, on the first worker")
    verb.add_argument("--timeout", type=float, default=120, help="give up after so many seconds (default 120)")
    verb.set_defaults(action=_all_reduce)

    verb = verbs.add_parser("prereq", help="decide from the hosts' facts on stdin (for 00)")
    verb.add_argument("--json", action="store_true")
    verb.add_argument("--nccl", action="store_true", help="stdin also holds what all-reduce said on each worker")
    verb.set_defaults(action=_prereq)
