"""The reward of a CPU cluster's defaults: even a model with random weights learns to write digits."""

from __future__ import annotations

from typing import Any


def compute_score(data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, **kwargs: Any) -> float:
    """Return one answer's reward, from 0 to 1: the share of digits among its characters. verl calls this by keyword."""
    return sum(character.isdigit() for character in solution_str) / max(1, len(solution_str))
