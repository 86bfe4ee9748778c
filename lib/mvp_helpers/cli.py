"""The command line of the helper: runs one verb and turns what it raises into a message and an exit code."""

from __future__ import annotations

import gc
import os
import sys

from .base.errors import MvpError
from .base.terminal import shown


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns its exit code (0 good, 1 failed, 2 bad input, 3 blocked, 4 timed out, 130 interrupted)."""
    # Imports allocate much and free little: with the default threshold (700) garbage collection is a tenth of a verb's start.
    gc.set_threshold(50_000)
    code = 0
    try:
        from .verbs import group  # click may be missing

        code = group.run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except MvpError as error:
        return _report(error)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__package__ or ""):
            raise
        from .cluster import packages

        return _report(packages.lacking(error.name or ""))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (| head): not our failure. What is still buffered goes nowhere, silently.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _report(error: MvpError) -> int:
    print(shown(error.show()), file=sys.stderr)
    return error.exit_code
