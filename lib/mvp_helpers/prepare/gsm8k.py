"""Write GSM8K problems as the parquet files verl reads: one schema for RL, one for SFT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import Failed

INSTRUCTION = 'Let\'s think step by step and output the final answer after "####".'


@dataclass(frozen=True)
class Problem:
    """A question and its worked answer, which ends in ``#### <number>``."""

    question: str
    answer: str

    @property
    def result(self) -> str:
        """Return the number after ``####`` without thousands separators. Raises Failed without one."""
        _, mark, number = self.answer.rpartition("####")
        if not mark or not (number := number.strip().replace(",", "")):
            raise Failed(f"an answer has no final number after '####': {self.answer[:80]!r}")
        return number

    @property
    def prompt(self) -> dict[str, str]:
        return {"role": "user", "content": f"{self.question} {INSTRUCTION}"}


def write_rl(folder: Path, splits: dict[str, Sequence[Problem]]) -> dict[str, int]:
    """Write ``<split>.parquet`` for PPO and GRPO: data_source, prompt, ability, reward_model, extra_info. Return rows by file."""
    import pyarrow as pa

    text, message = pa.string(), pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    schema = pa.schema(
        [
            ("data_source", text),
            ("prompt", message),
            ("ability", text),
            ("reward_model", pa.struct([("style", text), ("ground_truth", text)])),
            ("extra_info", pa.struct([("split", text), ("index", pa.int64()), ("answer", text), ("question", text)])),
        ]
    )

    def row(problem: Problem, split: str, index: int) -> dict[str, Any]:
        return {
            "data_source": "openai/gsm8k",  # verl chooses its scorer by this name
            "prompt": [problem.prompt],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": problem.result},
            "extra_info": {"split": split, "index": index, "answer": problem.answer, "question": problem.question},
        }

    return {
        _write(folder / f"{split}.parquet", schema, [row(problem, split, index) for index, problem in enumerate(problems)]): len(
            problems
        )
        for split, problems in splits.items()
    }


def write_sft(folder: Path, splits: dict[str, Sequence[Problem]]) -> dict[str, int]:
    """Write ``<split>.parquet`` for SFT: messages (one user turn, one assistant turn). Return rows by file name."""
    import pyarrow as pa

    schema = pa.schema([("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])))])
    return {
        _write(
            folder / f"{split}.parquet",
            schema,
            [{"messages": [problem.prompt, {"role": "assistant", "content": problem.answer}]} for problem in problems],
        ): len(problems)
        for split, problems in splits.items()
    }


def _write(path: Path, schema: Any, rows: list[dict[str, Any]]) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path.name
