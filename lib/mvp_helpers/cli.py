"""The command line of the helper: runs one verb, and turns what it raises into a message and an exit code."""

from __future__ import annotations

import argparse
import importlib
import sys

from .base.errors import Blocked, MvpError

MODULES = {
    "nodes": (
        "cluster",
        "start-node",
        "stop-node",
        "wait-nodes",
        "watchdog",
        "own-address",
        "tool-files",
        "host-facts",
        "all-reduce",
        "prereq",
    ),
    "materials": ("prepare", "snapshot"),
    "jobs": ("submit", "pack-spec", "run-job", "list", "status", "logs", "stop", "stop-here", "end-leftovers"),
    "evidence": ("verify", "verify-versions", "trend", "debug-bundle", "host-report", "pack-bundle", "explain"),
    "e2e": ("e2e", "e2e-summary", "triage"),
}
"""Which verb is in which module of ``verbs``: one verb loads one module."""


def _parser(verb: str) -> argparse.ArgumentParser:
    """The parser of ``verb``; of all verbs when that is none."""
    parser = argparse.ArgumentParser(prog="mvp_helpers", description="What the numbered scripts have done on a host.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    wanted = [name for name, known in MODULES.items() if verb in known] or MODULES
    for name in wanted:
        importlib.import_module(f".verbs.{name}", __package__).add(verbs)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns its exit code (0 good, 1 failed, 2 bad input, 3 blocked, 4 timed out, 130 interrupted)."""
    argv = sys.argv[1:] if argv is None else argv
    args = _parser(argv[0] if argv else "").parse_args(argv)
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
