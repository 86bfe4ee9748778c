"""An example of a reward function: 1.0 for the right number after "####", 0.0 for anything else.

Nothing is given for form or for coming close, so the mean reward of a step is the share of right answers among those sampled in
it. Copy the file to ${SHARED_ROOT}/user/code/, change it, and name it in a JobSpec:

    reward_fn_path: user/code/right_number.py

A model that never finds a right answer has nothing to learn from such a reward: `make learn` therefore trains the model on worked
answers first, and only then with this.
"""

import re


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """One answer's reward. verl calls this by keyword, in a thread, once for each answer.

    data_source: the row's data set ("openai/gsm8k"); ground_truth: its reward_model.ground_truth, a text.
    solution_str: the model's answer. extra_info: the row's own dictionary; here with question and worked answer.
    Returns a number, or (as here) a dictionary with "score" and whatever else is worth keeping beside it.
    """
    numbers = re.findall(r"####\s*(-?[\d.,]+)", solution_str)
    right = bool(numbers) and numbers[-1].replace(",", "").rstrip(".") == ground_truth
    return {"score": float(right), "answered": float(bool(numbers))}
