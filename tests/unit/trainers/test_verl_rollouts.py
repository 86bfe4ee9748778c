"""The kept rollouts: the last steps, within their size, as verl writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mvp_helpers.trainers import verl_rollouts as rollouts


def write(folder: Path, steps: range, size: int = 100) -> None:
    folder.mkdir(exist_ok=True)
    for step in steps:
        row = {"input": "p", "output": "x" * size, "gts": "42", "score": 1.0, "step": step, "uid": f"{step}_0_0"}
        (folder / f"{step}.jsonl").write_text(json.dumps(row) + "\n")


@pytest.mark.parametrize(("spare_newest", "last"), [(False, [8, 9, 10]), (True, [8, 9, 10])])
def test_only_the_last_steps_stay(tmp_path: Path, spare_newest: bool, last: list[int]) -> None:
    write(tmp_path, range(1, 11))
    (tmp_path / "note.txt").touch()
    rollouts.prune(tmp_path, 3, spare_newest=spare_newest)
    assert list(rollouts.by_step(tmp_path)) == last
    assert (tmp_path / "note.txt").exists()


def test_the_oldest_go_until_the_rest_fits(tmp_path: Path) -> None:
    write(tmp_path, range(1, 11), size=1000)
    rollouts.prune(tmp_path, 10, most=3500)
    assert list(rollouts.by_step(tmp_path)) == [8, 9, 10]


def test_a_single_step_that_is_too_large_is_cut_after_a_line_at_the_end_and_not_while_it_is_written(tmp_path: Path) -> None:
    row = json.dumps({"input": "p", "output": "x" * 100, "score": 0}) + "\n"
    (tmp_path / "1.jsonl").write_text(row * 100)
    rollouts.prune(tmp_path, 5, spare_newest=True, most=1000)
    assert (tmp_path / "1.jsonl").read_text() == row * 100
    rollouts.prune(tmp_path, 5, most=1000)
    assert (tmp_path / "1.jsonl").read_text() == row * (1000 // len(row))


def test_a_folder_that_is_missing_or_a_link_is_left_alone(tmp_path: Path) -> None:
    rollouts.prune(tmp_path / "none", 1)
    (tmp_path / "1.jsonl").symlink_to("/etc/passwd")
    rollouts.prune(tmp_path, 0)
    assert (tmp_path / "1.jsonl").is_symlink() and rollouts.by_step(tmp_path) == {}


def test_lines_that_are_not_answers_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "7.jsonl"
    path.write_bytes(
        b'{"input": "p", "output": "a", "gts": [1], "score": "0.5"}\nnot json\n{"input": 1}\n\xff\n{"input": "q", "output": "b"}'
    )
    first, second = rollouts.read(path, 7)
    assert (first.number, first.ground_truth, first.score) == (1, [1], 0.5)
    assert (second.number, second.prompt, second.score) == (5, "q", None)
