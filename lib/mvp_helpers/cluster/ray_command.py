"""Ray's own command line in four fifths of its CPU time.

``python3 -m mvp_helpers.cluster.ray_command ARGV...`` does what ``ray ARGV...`` does.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence


def argv(arguments: Sequence[str]) -> list[str]:
    """Return the command that does what ``ray`` followed by ``arguments`` does, with the Ray of this interpreter."""
    return [sys.executable, "-m", "mvp_helpers.cluster.ray_command", *arguments]


if __name__ == "__main__":
    # Ray's imports allocate much and free little: with the default threshold (700) a fifth of their time is garbage collection.
    gc.set_threshold(50_000)
    from ray.scripts.scripts import main

    sys.argv[0] = "ray"
    try:
        main()
    finally:
        gc.freeze()  # at its end Python would search all modules for cycles, to free nothing
