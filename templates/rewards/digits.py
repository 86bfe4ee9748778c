"""A reward that even a model with random weights can learn from: the share of digits among an answer's characters."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """One answer's reward, from 0 to 1. See right_number.py for how verl calls it."""
    return sum(character.isdigit() for character in solution_str) / max(1, len(solution_str))
