#!/usr/bin/env python3
"""A second snapshot of unchanged code beside ``cp -a`` of the same tree, whole processes, in turns.

usage: python3 benchmarks/snapshot_again.py [TREE] [ROUNDS]     (TREE holds verl/; default: the installed package)
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

LIB = Path(__file__).resolve().parents[1] / "lib"
SCRIPT = """if True:
    import sys; from pathlib import Path
    from mvp_helpers.base.paths import SharedRoot; from mvp_helpers.prepare.snapshot import Source, snapshot
    snapshot(Source(Path(sys.argv[1]) if sys.argv[1] else None), SharedRoot(Path(sys.argv[2])))"""


def seconds(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(LIB)})
    return time.perf_counter() - began


def main() -> None:
    tree = sys.argv[1] if len(sys.argv) > 1 else ""
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    spec = find_spec("verl")
    copied = Path(tree) if tree else Path(str(spec and spec.origin)).parent
    with tempfile.TemporaryDirectory() as folder:
        again = (sys.executable, "-c", SCRIPT, tree, f"{folder}/shared")
        first = seconds(*again)
        time.sleep(2.1)  # files younger than two seconds are read again, once
        seconds(*again)
        times: dict[str, list[float]] = {"cp -a": [], "python -c pass": [], "second snapshot": []}
        for _ in range(rounds):
            times["cp -a"].append(seconds("cp", "-a", str(copied), f"{folder}/copy"))
            shutil.rmtree(f"{folder}/copy")
            times["python -c pass"].append(seconds(sys.executable, "-c", "pass"))
            times["second snapshot"].append(seconds(*again))
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)
    print(f"{sum(len(names) for _, _, names in os.walk(copied))} files in {copied}; first snapshot {first * 1e3:.0f} ms")
    for name, values in times.items():
        print(f"{name:16} median {statistics.median(values) * 1e3:6.1f} ms   best {min(values) * 1e3:6.1f} ms")
    print(
        f"second snapshot / cp -a: {statistics.median(times['second snapshot']) / statistics.median(times['cp -a']):.2f} (median)"
    )


if __name__ == "__main__":
    main()
