"""The command line of the helper: each verb parses its arguments and calls one action. Results on stdout, talk on stderr."""

from __future__ import annotations

import argparse
import sys

from .errors import Blocked, MvpError


def say(text: str) -> None:
    """One line for the person watching."""
    print(text, file=sys.stderr, flush=True)


def _cluster(args: argparse.Namespace) -> int:
    from . import cluster

    print(cluster.load(args.name).to_shell(), end="")
    return 0


def _start_node(args: argparse.Namespace) -> int:
    import signal

    from . import cluster, ray_node

    # Scripts start workers in the background, where bash ignores SIGINT, and pass Ctrl-C on as SIGTERM.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    print(ray_node.start(cluster.from_environment(), args.host, early=args.early))
    return 0


def _stop_node(args: argparse.Namespace) -> int:
    from . import cluster, ray_node

    print(ray_node.stop(cluster.from_environment(), args.host))
    return 0


def _wait_nodes(args: argparse.Namespace) -> int:
    from . import cluster, ray_node

    loaded = cluster.from_environment()
    if args.now:
        print(ray_node.state(loaded))
    else:
        ray_node.wait(loaded)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mvp_helpers", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    verb = verbs.add_parser("cluster", help="a cluster file as shell assignments, for eval")
    verb.add_argument("name", help="a name in templates/ray/, or the path of a cluster file")
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

    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns its exit code (0 good, 1 failed, 2 bad input, 3 blocked, 4 timed out, 130 interrupted)."""
    args = _parser().parse_args(argv)
    try:
        code = args.action(args)
    except MvpError as error:
        print(error.show(), file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__package__ or ""):
            raise
        missing = Blocked(f"{sys.executable} has no module '{error.name}'", hint="./scripts/12_install_py_deps.sh")
        print(missing.show(), file=sys.stderr)
        return missing.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (| head): not our failure.
        sys.stderr.close()
        return 0
    return int(code or 0)
