"""Score kept answers again with a reward function, without a cluster; in a process of its own, as it is the user's code."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from ..base import files, processes
from ..base.errors import BadInput
from ..base.project import PROJECT
from ..plan import reward, reward_trial
from ..plan.plan import Plan
from ..plan.reward import RewardFunction
from ..trainers.verl_rollouts import Rollout

LIMIT_S = 1800.0
"""How long all answers together may take."""


class Rescored(msgspec.Struct, frozen=True, kw_only=True):
    """One answer with its ``old`` score, which the job had, and the new one."""

    step: int
    number: int
    old: float | None
    new: float


class _Answer(msgspec.Struct, kw_only=True):
    scores: list[float] = []
    problem: str = ""


def rescore(
    function: RewardFunction, rows: Sequence[Rollout], the_plan: Plan, user_code: Path, answer_s: int = reward_trial.LIMIT_S
) -> list[Rescored]:
    """Call the function for each answer, as verl does; it has ``answer_s`` seconds for each.

    Raises BadInput when it cannot be loaded, raises, returns no score, or takes too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder) / "question.json", Path(folder) / "answer.json"
        train = the_plan.data_files.get("train")
        question.write_bytes(msgspec.json.encode([function, list(rows), train, str(user_code), answer_s]))
        argv = [sys.executable, "-m", __name__, str(question), str(answer)]
        try:
            run = subprocess.run(
                argv,
                env={**os.environ, "PYTHONPATH": str(PROJECT / "lib")},
                stdin=subprocess.DEVNULL,
                stdout=2,  # what it prints is not our result
                timeout=LIMIT_S,
                preexec_fn=processes.die_with_parent,
            )
        except subprocess.TimeoutExpired:
            what = f"{function.file}:{function.name} did not score {len(rows)} answers in {LIMIT_S:g} s"
            raise BadInput(what, hint="--step N scores those of one step") from None
        try:
            outcome = msgspec.json.decode(answer.read_bytes(), type=_Answer)
        except (OSError, msgspec.MsgspecError):
            raise BadInput(f"{function.file}:{function.name} ended its process (exit code {run.returncode})") from None
    if outcome.problem:
        raise BadInput(outcome.problem, hint="nothing was changed: the job keeps its own scores")
    return [
        Rescored(step=row.step, number=row.number, old=row.score, new=new) for row, new in zip(rows, outcome.scores, strict=True)
    ]


def summary(scores: Sequence[Rescored]) -> str:
    """Return the comparison in lines: means by step, and how many answers have another score."""
    lines = ["STEP  ANSWERS  MEAN WAS  MEAN IS  CHANGED"]
    steps = sorted({each.step for each in scores})
    for step in [*steps, None] if len(steps) > 1 else steps:
        own = [each for each in scores if step in (None, each.step)]
        old = [each.old for each in own if each.old is not None]
        was = f"{statistics.fmean(old):.4g}" if old else "-"
        changed = sum(each.old is None or abs(each.old - each.new) > 1e-6 for each in own)
        name = "all" if step is None else str(step)
        lines.append(f"{name:<4}  {len(own):<7}  {was:<8}  {statistics.fmean(each.new for each in own):<7.4g}  {changed}")
    return "\n".join(lines)


def _load(wanted: RewardFunction, user_code: str) -> Any:
    """Return the function, imported as verl does it: a file by its path, a module by its name."""
    sys.path.insert(0, user_code)
    if wanted.path.startswith(reward.PACKAGE):
        module: Any = importlib.import_module(wanted.path.removeprefix(reward.PACKAGE))
    else:
        spec = importlib.util.spec_from_file_location("custom_module", wanted.file)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules["custom_module"] = module
        spec.loader.exec_module(module)
    return getattr(module, wanted.name)


class _Sources:
    """The rows of the training data, by ground truth: verl's rollouts do not name the data source."""

    def __init__(self, train: str | None) -> None:
        self._rows: dict[str, list[dict[str, Any]]] = {}
        with contextlib.suppress(ImportError, OSError, ValueError, KeyError, TypeError):
            from pyarrow import parquet

            present = parquet.read_schema(train).names
            columns = [name for name in ("data_source", "prompt", "reward_model", "extra_info") if name in present]
            for row in parquet.read_table(train, columns=columns).to_pylist():
                self._rows.setdefault(str(row["reward_model"]["ground_truth"]), []).append(row)

    def of(self, rollout: Rollout) -> dict[str, Any]:
        rows = self._rows.get(str(rollout.ground_truth), [])
        asked = [row for row in rows if str((row.get("prompt") or [{}])[-1].get("content", "\0")).strip() in rollout.prompt]
        return (asked or rows or [{}])[0]


def _score(function: Any, rollout: Rollout, source: dict[str, Any], kwargs: dict[str, Any]) -> float:
    answer = function(
        data_source=source.get("data_source", ""),
        solution_str=rollout.answer,
        ground_truth=rollout.ground_truth,
        extra_info={**(source.get("extra_info") or {}), "num_turns": 2, "rollout_reward_scores": {}},
        **kwargs,
    )
    if inspect.iscoroutine(answer):
        import asyncio

        answer = asyncio.run(answer)
    return reward_trial.score_of(answer)


class _TooSlow(BaseException):
    """An answer took too long. Not an Exception: the function may catch those."""


def _allow(seconds: int) -> None:
    """Raise _TooSlow in this thread after that time; 0 lets it take as long as it likes."""

    def too_slow(number: int, frame: FrameType | None) -> None:
        raise _TooSlow(f"took more than {seconds} s")

    signal.signal(signal.SIGALRM, too_slow)  # each time: the function may set its own
    signal.alarm(seconds)


def _answer(wanted: RewardFunction, rows: list[Rollout], train: str | None, user_code: str, answer_s: int) -> _Answer:
    scores: list[float] = []
    at = ""
    try:
        _allow(answer_s)
        function = _load(wanted, user_code)
        _allow(0)
        sources = _Sources(train)
        for row in rows:
            at = f" (step {row.step}, answer {row.number})"
            _allow(answer_s)
            scores.append(_score(function, row, sources.of(row), wanted.kwargs))
        _allow(0)
        return _Answer(scores=scores)
    except BaseException as error:  # also sys.exit
        _allow(0)
        place = reward_trial.place(error, wanted, Path(user_code))
        what = str(error) if isinstance(error, (reward_trial.Wrong, _TooSlow)) else f"{type(error).__name__}: {error}"
        return _Answer(problem=f"{place}: {what[:300]}{at}".replace("\n", " "))


def main(question: str, answer: str) -> None:
    asked = msgspec.json.decode(Path(question).read_bytes(), type=tuple[RewardFunction, list[Rollout], str | None, str, int])
    files.write_bytes(Path(answer), msgspec.json.encode(_answer(*asked)))
    sys.stdout.flush()
    os._exit(0)  # threads that the function left behind would delay the end


if __name__ == "__main__":
    main(*sys.argv[1:])
