"""``python -m verl_cpu``: check that every patch fits the installed verl, by importing the patched modules."""

from __future__ import annotations

import importlib
import sys

import verl

from verl_hf.errors import PatchError

from .patches import PATCHES


def main() -> int:
    """Print how many patches fit; return exit code 0 when all fit, 1 otherwise."""
    misfits = 0
    for patch in PATCHES:
        try:
            importlib.import_module(patch.module)
        except PatchError as error:
            misfits += 1
            print(f"failed: {error}", file=sys.stderr)
    print(f"verl {verl.__version__}: {len(PATCHES) - misfits} of {len(PATCHES)} patches fit")
    return 1 if misfits else 0


if __name__ == "__main__":
    sys.exit(main())
