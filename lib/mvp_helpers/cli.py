"""The command line of the helper: each verb parses its arguments and calls one action. Results on stdout, talk on stderr."""

from __future__ import annotations

import argparse
import sys

from .errors import MvpError


def say(text: str) -> None:
    """One line for the person watching."""
    print(text, file=sys.stderr, flush=True)


def _cluster(args: argparse.Namespace) -> int:
    from . import cluster

    print(cluster.load(args.name).to_shell(), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mvp_helpers", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    verb = verbs.add_parser("cluster", help="a cluster file as shell assignments, for eval")
    verb.add_argument("name", help="a name in templates/ray/, or the path of a cluster file")
    verb.set_defaults(action=_cluster)

    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns its exit code (0 good, 1 failed, 2 bad input, 3 blocked, 4 timed out, 130 interrupted)."""
    args = _parser().parse_args(argv)
    try:
        code = args.action(args)
    except MvpError as error:
        print(error.show(), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (| head): not our failure.
        sys.stderr.close()
        return 0
    return int(code or 0)
