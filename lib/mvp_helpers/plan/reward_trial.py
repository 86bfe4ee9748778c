"""Runs as its own process: verl loads the user's reward function, and it is called once, as verl's reward managers call it.

argv: the question as JSON (see ``reward.try_out``), the file for the answer, the file for stacks should this process die.
"""

from __future__ import annotations

import asyncio
import faulthandler
import inspect
import math
import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from ..base import files
from . import reward
from .reward import RewardFunction, Trial

SOLUTION = "This answer was made up to try the reward function.\n#### 42"


class Wrong(Exception):
    """The function can be called, but what it gives cannot be used."""


def load(wanted: RewardFunction) -> Any:
    """The function as the trainer gets it: from verl's own loader, ``kwargs`` bound. Raises whatever the user's code raises."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    option = {"custom_reward_function": {"path": wanted.path, "name": wanted.name, "reward_kwargs": wanted.kwargs}}
    function = get_custom_reward_fn(OmegaConf.create({"reward": option, **option}))  # older versions have it at the top
    if wanted.path.startswith(reward.PACKAGE):
        module = wanted.path.removeprefix(reward.PACKAGE)
        file = str(sys.modules[module].__file__)
        if os.path.realpath(file) != wanted.file:
            raise Wrong(f"the module '{module}' comes from {file}: another one of that name is in its way")
    return function


def call(function: Any, row: dict[str, Any]) -> float:
    """The score for ``SOLUTION`` to a row of training data, called as verl does: by keyword; in a thread unless it is async.

    Raises Wrong when the answer is no score, and whatever the function raises.
    """
    told: dict[str, Any] = {
        "data_source": row["data_source"],
        "solution_str": SOLUTION,
        "ground_truth": row["reward_model"]["ground_truth"],
        "extra_info": {**(row.get("extra_info") or {}), "num_turns": 2, "rollout_reward_scores": {}},
    }
    if inspect.iscoroutinefunction(function):
        answer = asyncio.run(function(**told))
    else:
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(function, **told).result()
    return score_of(answer)


def score_of(answer: Any) -> float:
    """The number in what a reward function returned: a number, or a dictionary with a number as "score". Raises Wrong."""
    what = "returned"
    if isinstance(answer, dict):
        if "score" not in answer:
            raise Wrong(f"returned a dictionary without 'score': its keys are {', '.join(map(str, answer)) or 'none'}")
        what, answer = "returned as 'score'", answer["score"]
    if inspect.isawaitable(answer):
        raise Wrong("returned a coroutine: verl awaits only what is defined with async def")
    try:
        if isinstance(answer, (str, bytes)) or not hasattr(answer, "__float__"):
            raise TypeError
        score = float(answer)
    except (TypeError, ValueError):
        raise Wrong(f"{what} {_short(answer)} ({type(answer).__name__}), which is no number") from None
    if not math.isfinite(score):
        raise Wrong(f"{what} {score}")
    return score


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def first_row(train_file: str) -> dict[str, Any]:
    """The first row of a parquet file; nothing else of it is read. Raises Wrong when it lacks what verl hands to the function."""
    from pyarrow import parquet

    columns = ("data_source", "reward_model", "extra_info")
    with parquet.ParquetFile(train_file) as file:
        present = [name for name in columns if name in file.schema_arrow.names]
        rows = next(file.iter_batches(batch_size=1, columns=present)).to_pylist()
    row: dict[str, Any] = rows[0]
    if "data_source" not in row or "ground_truth" not in (row.get("reward_model") or {}):
        raise Wrong(f"cannot be given data_source and reward_model.ground_truth: {train_file} lacks them")
    return row


def place(error: BaseException, wanted: RewardFunction, user_code: Path) -> str:
    """``file:line`` of the innermost frame of the user's code that ``error`` passed, or of the text that does not parse."""
    found = ""
    chain: BaseException | None = error
    while chain is not None:
        for frame in traceback.extract_tb(chain.__traceback__):
            if reward.is_users(frame.filename, wanted.file, user_code):
                found = f"{frame.filename}:{frame.lineno}"
        if isinstance(chain, SyntaxError) and chain.filename and reward.is_users(chain.filename, wanted.file, user_code):
            found = f"{chain.filename}:{chain.lineno}"
        chain = chain.__cause__
    return found or reward.defined_at(wanted)


def examine(wanted: RewardFunction, train_file: str | None, user_code: Path) -> Trial:
    """Load, and call when the call is known and there is data. The traceback of a failure goes to stderr, whole."""
    try:
        function = load(wanted)
        if not wanted.one_by_one or train_file is None:
            return Trial()
        return Trial(score=call(function, first_row(train_file)))
    except Wrong as error:
        return Trial(problem=str(error), at=place(error, wanted, user_code))
    except BaseException as error:  # sys.exit too
        traceback.print_exc()
        root: BaseException = error
        while root.__cause__ is not None:  # verl wraps what happens while it loads
            root = root.__cause__
        return Trial(problem=f"{type(root).__name__}: {root}"[:500], at=place(error, wanted, user_code))


def main(question: str, report: str, stacks: str) -> None:
    wanted, train_file, user_code, limit_s = msgspec.json.decode(question, type=tuple[RewardFunction, str | None, str, float])
    import verl.trainer.ppo.reward  # noqa: F401 - its time is not the user's

    with open(stacks, "w") as dying:
        faulthandler.enable(dying)
        faulthandler.dump_traceback_later(limit_s, exit=True, file=dying)
        told = examine(wanted, train_file, Path(user_code))
        files.write_bytes(Path(report), msgspec.json.encode(told))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # threads that the user's code left behind would hold it up


if __name__ == "__main__":
    main(*sys.argv[1:])
