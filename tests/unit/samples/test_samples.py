"""What people see of the kept answers: the chosen ones, side by side, within the width; and scores by another function."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from toys import plan_of

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.plan import reward
from mvp_helpers.samples import choose, rescore, show
from mvp_helpers.samples.width import width
from mvp_helpers.trainers.verl_rollouts import Rollout

LONG = "word " * 2000
TURNS = "system\nYou are helpful.\nuser\nWhat is 6·7?\nassistant\nLet me ask.\ntool\n42\nassistant\n"


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    """Three steps: the prompt "again" is answered in each, better every time; the others only once."""
    job = SharedRoot(tmp_path).job("job1")
    job.rollouts.mkdir(parents=True)
    for step, score in ((3, 0.0), (4, 0.5), (5, 1.0)):
        rows = [
            ("again", f"answer {step}", score),
            (TURNS, LONG, -1.0),
            (f"今日は{step}" * 30, "答え🙂" * 90, 2.0),
            (f"none {step}", "", None),
        ]
        lines = [{"input": prompt, "output": answer, "gts": "42", "score": value, "step": step} for prompt, answer, value in rows]
        (job.rollouts / f"{step}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return job


def scores(groups: list[list[Rollout]]) -> list[list[float | None]]:
    return [[row.score for row in group] for group in groups]


def test_the_worst_and_the_best_are_of_one_step_with_the_same_prompt_of_others_beside(folder: JobFolder) -> None:
    answers = choose.kept(folder)
    assert scores(choose.groups(answers, None, "worst", 2)) == [[-1, -1, -1], [0, 0.5, 1]]
    assert scores(choose.groups(answers, 3, "best", 1)) == [[2]]
    assert [[row.step for row in group] for group in choose.groups(answers, 4, "first", 1)] == [[3, 4, 5]]
    assert scores(choose.groups(answers, None, "changed", 1)) == [[0, 0.5, 1]]


def test_a_step_that_was_not_kept_a_job_that_kept_none_and_no_prompt_twice_are_bad_input(folder: JobFolder) -> None:
    answers = choose.kept(folder)
    with pytest.raises(BadInput, match="step 9 is not among the kept ones: 3-5"):
        choose.groups(answers, 9, "first", 5)
    with pytest.raises(BadInput, match="no prompt was answered in two of the kept steps: 5"):
        choose.groups({5: answers[5]}, None, "changed", 5)
    with pytest.raises(BadInput, match="job 'none' kept no samples"):
        choose.kept(folder.shared.job("none"))
    assert choose.spans({1: 0, 2: 0, 3: 0, 7: 0, 9: 0, 10: 0}) == "1-3, 7, 9-10"


@pytest.mark.parametrize("columns", [40, 80, 160])
@pytest.mark.parametrize("full", [False, True])
def test_no_line_is_wider_than_the_terminal_whatever_the_characters(folder: JobFolder, columns: int, full: bool) -> None:
    page = show.page(choose.groups(choose.kept(folder), None, "first", 5), columns, full=full)
    assert max(map(width, page.split("\n"))) <= columns
    assert full or len(page.split("\n")) < 130


def test_answers_are_side_by_side_and_turns_readable(folder: JobFolder) -> None:
    page = show.page(choose.groups(choose.kept(folder), None, "first", 2), 80).split("\n")
    assert f"{'step 3, answer 1: score 0':38} │ step 5, answer 1: score 1" in page
    assert f"{'answer 3':38} │ answer 5" in page
    assert "expected: 42" in page
    at = page.index("[user]")
    assert page[at : at + 2] == ["[user]", "What is 6·7?"]
    assert any(line.count("more lines") == 2 for line in page)


def function(folder: JobFolder, body: str) -> reward.RewardFunction:
    file = folder.shared.user_code / "mine.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):\n    {body}\n")
    return reward.find("user/code/mine.py", folder.shared, "--rescore")


def again(folder: JobFolder, body: str, answer_s: int = 60) -> list[rescore.Rescored]:
    rows = [row for rows in choose.kept(folder).values() for row in rows]
    return rescore.rescore(function(folder, body), rows, plan_of("job1"), folder.shared.user_code, answer_s)


def test_another_function_scores_every_answer_and_the_means_are_compared(folder: JobFolder) -> None:
    made = again(folder, "print('noise'); return {'score': len(solution_str) + (ground_truth == '42')}")
    assert [each.new for each in made[:1]] == [9] and len(made) == 12
    assert rescore.summary(made).splitlines()[-1].split() == ["all", "12", "0.5", "2570", "12"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 1 / len(solution_str)", r"mine.py:2: ZeroDivisionError: division by zero \(step 3, answer 4\)"),
        ("return 'good'", r"returned 'good' \(str\), which is not a number \(step 3, answer 1\)"),
        ("return float('nan')", r"returned nan \(step 3, answer 1\)"),
        ("no_such_name = missing", r"mine.py:2: NameError: name 'missing' is not defined"),
        ("import os; os._exit(7)", "ended its process .exit code 7."),
        ("raise SystemExit(3)", r"mine.py:2: SystemExit: 3 \(step 3, answer 1\)"),
    ],
)
def test_a_function_that_raises_is_one_line(folder: JobFolder, body: str, message: str) -> None:
    with pytest.raises(BadInput, match=message) as raised:
        again(folder, body)
    assert "\n" not in raised.value.what


@pytest.mark.parametrize(
    "hangs", ["while True: pass", "import time; time.sleep(3600)", "import asyncio; asyncio.run(asyncio.sleep(3600))"]
)
def test_a_function_that_hangs_is_named_with_its_line_also_when_it_catches_what_ends_it(folder: JobFolder, hangs: str) -> None:
    with pytest.raises(BadInput, match=r"mine.py:3: took more than 2 s \(step 3, answer 1\)"):
        again(folder, f"try:\n        {hangs}\n    except Exception: return 0.0", answer_s=2)


def test_a_thread_that_the_function_leaves_behind_is_not_waited_for(folder: JobFolder) -> None:
    made = again(folder, "import threading, time; threading.Thread(target=time.sleep, args=(3600,)).start(); return 1")
    assert {each.new for each in made} == {1.0}


def test_the_data_source_comes_from_the_training_data(folder: JobFolder, tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [
        {"data_source": "other", "prompt": [{"role": "user", "content": "another"}], "reward_model": {"ground_truth": "42"}},
        {"data_source": "mine", "prompt": [{"role": "user", "content": "again"}], "reward_model": {"ground_truth": "42"}},
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train.parquet")
    the_plan = msgspec.structs.replace(plan_of("job1"), data_files={"train": str(tmp_path / "train.parquet")})
    first = choose.kept(folder)[3][:1]
    wanted = function(folder, "return float(data_source == 'mine')")
    assert [each.new for each in rescore.rescore(wanted, first, the_plan, folder.shared.user_code)] == [1.0]


def test_a_long_title_and_a_long_ground_truth_stay_within_the_width() -> None:
    row = Rollout(step=1_234_567, number=12_345, prompt="p", answer="a", ground_truth={"x": "y " * 500}, score=-0.33333)
    later = msgspec.structs.replace(row, step=1_234_568)
    short, full = (show.page([[row, later]], 80, full=full).split("\n") for full in (False, True))
    assert max(map(width, [*short, *full])) <= 80
    assert len(short) < 12 and any("more lines" in line for line in short) and len(full) > 12
