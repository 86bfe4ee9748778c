"""Try a user's reward function once: verl loads it, and it is called as verl's reward managers call it.

The trial runs in a process of its own, because the code in it is the user's: ``python -m mvp_helpers.plan.reward_trial`` with the
question as JSON (see ``try_out``), the file for the answer, and the file for stacks if this process dies.
"""

from __future__ import annotations

import contextlib
import faulthandler
import inspect
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from ..base import files, processes
from ..trainers import verl_config
from . import reward
from .reward import RewardFunction

LIMIT_S = 60
"""How long loading and one call may take."""
START_S = 240
"""How long the import of verl may take, on a machine under load."""
SOLUTION = "This answer was made up to try the reward function.\n#### 42"
_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+)', re.MULTILINE)


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of loading and calling a reward function once: a ``problem`` with file and line, or the ``score``."""

    score: float | None = None
    problem: str = ""
    at: str = ""
    """``file:line`` of the problem in the user's code."""


def try_out(wanted: RewardFunction, train_file: str | None, user_code: Path, limit_s: float = LIMIT_S) -> Trial:
    """Load the function with verl and call it on the first row of ``train_file``, in a process of its own.

    The output of the user's code goes to our own stdout and stderr. A crash or a call that never returns is a problem too,
    reported with the line where it happened.
    """
    with tempfile.TemporaryDirectory() as folder:
        report, stack_file = Path(folder) / "report.json", Path(folder) / "stacks.txt"
        question = msgspec.json.encode([wanted, train_file, str(user_code), limit_s]).decode()
        code = _run_trial([question, str(report), str(stack_file)], START_S + limit_s)
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(report.read_bytes(), type=Trial)
        stacks = stack_file.read_text(errors="replace") if stack_file.exists() else ""
    at = _users_line(stacks, wanted, user_code)
    if code is None:
        return Trial(problem=f"cannot be tried: verl was not imported within {START_S} s", at=at)
    if stacks.startswith("Timeout"):
        return Trial(problem=f"was not loaded and called once within {limit_s:g} s", at=at)
    problem = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended the process with exit code {code}"
    return Trial(problem=problem, at=at)


def _run_trial(arguments: list[str], limit_s: float) -> int | None:
    """Run this module as a process; return its exit code, or None when it took longer than ``limit_s``."""
    argv = [sys.executable, "-m", "mvp_helpers.plan.reward_trial", *arguments]
    # A session of its own, to end every process that it starts; it dies with a precheck that is stopped.
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=processes.die_with_parent)
    try:
        return child.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _users_line(stacks: str, wanted: RewardFunction, user_code: Path) -> str:
    """Return ``file:line`` of the user's innermost frame in the output of ``faulthandler``, which lists the innermost first."""
    for file, line in _FRAME.findall(stacks):
        if _is_users(file, wanted.file, user_code):
            return f"{file}:{line}"
    return reward.defined_at(wanted)


def _is_users(file: str, reward_file: str, user_code: Path) -> bool:
    real = Path(os.path.realpath(file))
    return str(real) == reward_file or real.is_relative_to(user_code.resolve())


class Wrong(Exception):
    """The function was loaded or called, but the result cannot be used."""


def load(wanted: RewardFunction) -> Any:
    """Return the function as verl's own loader gives it to the trainer. Raises what the user's code raises."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    option = verl_config.reward_option(wanted.path, wanted.name, wanted.kwargs)
    function = get_custom_reward_fn(OmegaConf.create(option))
    if wanted.path.startswith(reward.PACKAGE):
        module = wanted.path.removeprefix(reward.PACKAGE)
        file = str(sys.modules[module].__file__)
        if os.path.realpath(file) != wanted.file:
            raise Wrong(f"the module '{module}' comes from {file}, which hides the user's module of that name")
    return function


def call(function: Any, row: dict[str, Any]) -> float:
    """Return the score of ``SOLUTION`` for a row of training data, called as verl does: by keyword; in a thread unless async.

    Raises Wrong when the result is not a score, and whatever the function raises.
    """
    arguments: dict[str, Any] = {
        "data_source": row["data_source"],
        "solution_str": SOLUTION,
        "ground_truth": row["reward_model"]["ground_truth"],
        "extra_info": {**(row.get("extra_info") or {}), "num_turns": 2, "rollout_reward_scores": {}},
    }
    if inspect.iscoroutinefunction(function):
        import asyncio  # 24 ms, for every job that imports this module and has no such function

        answer = asyncio.run(function(**arguments))
    else:
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(function, **arguments).result()
    return score_of(answer)


def score_of(answer: Any) -> float:
    """Return the number in a reward function's result: a number, or a dictionary with a number as "score". Raises Wrong."""
    verb = "returned"
    if isinstance(answer, dict):
        if "score" not in answer:
            raise Wrong(f"returned a dictionary without 'score': its keys are {', '.join(map(str, answer)) or 'none'}")
        verb, answer = "returned as 'score'", answer["score"]
    if inspect.isawaitable(answer):
        raise Wrong("returned a coroutine: verl awaits only functions defined with async def")
    try:
        if isinstance(answer, (str, bytes)) or not hasattr(answer, "__float__"):
            raise TypeError
        score = float(answer)
    except (TypeError, ValueError):
        raise Wrong(f"{verb} {_short(answer)} ({type(answer).__name__}), which is not a number") from None
    if not math.isfinite(score):
        raise Wrong(f"{verb} {score}")
    return score


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def first_row(train_file: str) -> dict[str, Any]:
    """Read the first row of a parquet file. Raises Wrong when it lacks a column that verl passes to the function."""
    from pyarrow import parquet

    columns = ("data_source", "reward_model", "extra_info")
    with parquet.ParquetFile(train_file) as file:
        present = [name for name in columns if name in file.schema_arrow.names]
        rows = next(file.iter_batches(batch_size=1, columns=present)).to_pylist()
    row: dict[str, Any] = rows[0]
    if "data_source" not in row or "ground_truth" not in (row.get("reward_model") or {}):
        raise Wrong(f"cannot be called: {train_file} lacks data_source or reward_model.ground_truth")
    return row


def place(error: BaseException, wanted: RewardFunction, user_code: Path) -> str:
    """Return ``file:line`` of the innermost frame of the user's code in ``error``, or of the text that does not parse."""
    line = ""
    chain: BaseException | None = error
    while chain is not None:
        for frame in traceback.extract_tb(chain.__traceback__):
            if _is_users(frame.filename, wanted.file, user_code):
                line = f"{frame.filename}:{frame.lineno}"
        if isinstance(chain, SyntaxError) and chain.filename and _is_users(chain.filename, wanted.file, user_code):
            line = f"{chain.filename}:{chain.lineno}"
        chain = chain.__cause__
    return line or reward.defined_at(wanted)


def examine(wanted: RewardFunction, train_file: str | None, user_code: Path) -> Trial:
    """Load the function; call it when verl's call is known and there is data. The traceback of a failure goes to stderr."""
    try:
        function = load(wanted)
        if not wanted.one_by_one or train_file is None:
            return Trial()
        return Trial(score=call(function, first_row(train_file)))
    except Wrong as error:
        return Trial(problem=str(error), at=place(error, wanted, user_code))
    except BaseException as error:  # also sys.exit
        traceback.print_exc()
        root: BaseException = error
        while root.__cause__ is not None:  # verl wraps errors of the loading
            root = root.__cause__
        return Trial(problem=f"{type(root).__name__}: {root}"[:500], at=place(error, wanted, user_code))


def main(question: str, report: str, stacks: str) -> None:
    wanted, train_file, user_code, limit_s = msgspec.json.decode(question, type=tuple[RewardFunction, str | None, str, float])
    import verl.trainer.ppo.reward  # noqa: F401 - does not count against the time limit

    with open(stacks, "w") as stack_stream:
        faulthandler.enable(stack_stream)
        faulthandler.dump_traceback_later(limit_s, exit=True, file=stack_stream)
        trial = examine(wanted, train_file, Path(user_code))
        files.write_bytes(Path(report), msgspec.json.encode(trial))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # threads that the user's code left behind would delay the exit


if __name__ == "__main__":
    main(*sys.argv[1:])
