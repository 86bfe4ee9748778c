"""Seconds per step of finished jobs, and where they go, from their folders: ``python benchmarks/step_seconds.py JOB_FOLDER...``.

RL trainers log their own timing; the SFT trainer has only its progress bar (whole seconds, from the first step to the last).
The first step warms up and is listed separately.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from pathlib import Path

SHARE = 0.08
"""Smaller parts of a step are not named."""


def rl_steps(steps: list[dict[str, float]]) -> tuple[float, float, dict[str, float]]:
    """First step, median of the others, and the median of each timed part (seconds)."""
    total = [data["timing_s/step"] for data in steps]
    parts = {
        key.removeprefix("timing_s/"): statistics.median([data.get(key, 0.0) for data in steps[1:]])
        for key in steps[-1]
        if key.startswith("timing_s/") and key != "timing_s/step" and "/" not in key.removeprefix("timing_s/")
    }
    return total[0], statistics.median(total[1:]), parts


def sft_steps(log: str) -> tuple[float, float, dict[str, float]]:
    """First step, and the mean of the others, from the progress bar ``| 3/20 [00:04<00:28, 1.52s/it]``."""
    bars = re.findall(r"Epoch [^\r\n]*?\| ([1-9]\d*)/\d+ \[(\d+):(\d+)<[^,]*, +([\d.]+)(s/it|it/s)\]", log)
    (first, _, _, rate, unit), (last, minutes, seconds, _, _) = bars[0], bars[-1]
    warm_up = float(rate) if unit == "s/it" else 1 / float(rate)
    return warm_up, (int(minutes) * 60 + int(seconds) - warm_up) / (int(last) - int(first)), {}


def main() -> None:
    print(f"{'job':<28} {'steps':>5} {'first s':>8} {'s/step':>7}  parts of a step")
    for folder in map(Path, sys.argv[1:]):
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        timed = [row["data"] for row in rows if "timing_s/step" in row["data"]]
        first, usual, parts = rl_steps(timed) if timed else sft_steps((folder / "logs" / "driver.log").read_text())
        large = sorted(((value, name) for name, value in parts.items() if value > SHARE * usual), reverse=True)
        largest = ", ".join(f"{name} {value:.2f}" for value, name in large)
        print(f"{folder.name:<28} {max(row['step'] for row in rows):>5} {first:>8.1f} {usual:>7.2f}  {largest}")


if __name__ == "__main__":
    main()
