"""The learning signal: what a run's metrics show, and how they are read from logs and metrics files."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from mvp_helpers.diagnosis import views
from mvp_helpers.learning import learning_signal, metric_lines
from mvp_helpers.trainers.metric_names import VERL


def series(**values: list[float]) -> dict[int, dict[str, float]]:
    names = {name.replace("__", "/"): found for name, found in values.items()}
    return {step + 1: {name: found[step] for name, found in names.items()} for step in range(len(next(iter(names.values()))))}


RISING = [n / 20 for n in range(20)]
NOISE = [0.5, 0.4, 0.6, 0.45, 0.55] * 4


def test_what_was_logged_is_read_from_a_console_whatever_stands_around_it() -> None:
    seen = metric_lines.LogMetrics()
    for piece in (
        b"(TaskRunner pid=1) st",
        b"ep:3 - actor/loss:np.float64(0.25) - critic/score/mean:1e-3 - n:np.int32(2) - a:nan\nTrain",
        b"able percentage: 0.4%\n",
    ):
        seen.feed(piece)
    seen.finish()
    assert (seen.steps[3]["actor/loss"], seen.steps[3]["critic/score/mean"], seen.steps[3]["n"]) == (
        0.25,
        1e-3,
        2,
    ) and math.isnan(seen.steps[3]["a"])
    assert seen.trainable == 0.4


def test_a_metric_line_behind_a_progress_bar_is_read(tmp_path: Path) -> None:
    line = "(TaskRunner pid=1) Epoch 1/4:  12%|#  | 2/16 [02:42<19:00, 81.49s/it]step:2 - train/loss:nan\n"
    seen = metric_lines.LogMetrics()
    seen.feed(line.encode())
    assert math.isnan(seen.finish().steps[2]["train/loss"])
    (tmp_path / "x.log").write_text(line + "KeyError: 7\n")
    assert views.triage_log(tmp_path / "x.log").phase == "train"


def test_metrics_files_of_both_kinds_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"step": 1, "data": {"loss": 1.5, "note": "x"}}\n{"step": 2, "data": {"loss": null}}\n')
    (tmp_path / "b.json").write_text('{"train/reward": {"1": 0.5, "2": 0.75}}')
    assert math.isnan(learning_signal.read_jsonl(tmp_path / "a.jsonl")[2]["loss"]), "verl's file logger writes NaN as null"
    assert learning_signal.read_jsonl(tmp_path / "b.json") == {1: {"train/reward": 0.5}, 2: {"train/reward": 0.75}}


@pytest.mark.parametrize("spelled", ["NaN", "nan", "-Infinity", "tensor(nan)", "None", "inf", "np.float64(nan)"])
def test_a_number_that_a_text_spells_is_one(spelled: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"step": 1, "data": {"actor/loss": spelled, "note": "nano"}}) + "\n")
    (tmp_path / "b.json").write_text(json.dumps({"actor/loss": {"1": spelled}}))
    for file in ("a.jsonl", "b.json"):
        steps = learning_signal.read_jsonl(tmp_path / file)
        assert [*steps[1]] == ["actor/loss"] and not math.isfinite(steps[1]["actor/loss"])
        assert learning_signal.judge(steps, VERL).wrong


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (series(actor__grad_norm=[0.0, 0.0, 1.0] * 6, critic__score__mean=RISING[:18]), "zero 2 steps in a row"),
        (series(rollout_log_probs__mean=[-1.0] * 20, critic__score__mean=RISING), "weights that generate do not change"),
        (series(critic__score__mean=[0.0] * 20), "flat reward"),
        (series(critic__values__mean=[0.1] * 20, critic__score__mean=RISING), "values are flat"),
        (series(response_length__mean=[512.0] * 20, critic__score__mean=RISING), "at its cap of 512"),
        (series(critic__score__mean=RISING[::-1]), "fell"),
        (series(critic__score__mean=[0.5, 0.4, 0.6, 0.5, 0.45]), "expected direction"),
        (series(critic__kl=[math.inf] + [0.1] * 19, critic__score__mean=RISING), "critic/kl is inf at step 1"),
        (series(actor__entropy=RISING), "no trend can be compared"),
        ({}, "no metrics"),
    ],
)
def test_every_way_of_not_learning_fails(steps: dict[int, dict[str, float]], words: str) -> None:
    signal = learning_signal.judge(steps, VERL, wanted=[1, max(steps, default=1)], cap=512)
    assert signal.verdict == "Fail" and any(words in text for text in signal.wrong), signal


def test_a_rise_passes_and_a_small_one_is_said_to_be_possible_chance() -> None:
    signal = learning_signal.judge(series(critic__score__mean=RISING), VERL, wanted=[1, 20])
    assert (signal.verdict, signal.reason()) == ("Pass", "learning-signal passed over 20 steps")
    assert "p=" in signal.sentences[0]
    small = learning_signal.judge(series(critic__score__mean=[*NOISE[:-1], 0.66]), VERL, wanted=[1, 20])
    assert small.verdict == "Pass" and "can be chance" in small.notes[0]
    missing = learning_signal.judge(series(critic__score__mean=RISING), VERL, wanted=[1, 22])
    assert missing.wrong == ["no metrics for step 21, 22"]


def test_a_constant_that_is_no_logprob_is_none() -> None:
    """As the real trainer logs it: whether the difference of probabilities was valid, 1 in every step."""
    steps = series(training__rollout_probs_diff_valid=[1] * 20, timing_s__old_log_prob=[1.0] * 20, critic__score__mean=RISING)
    assert learning_signal.judge(steps, VERL).verdict == "Pass"


def test_a_validation_before_training_counts_as_the_start() -> None:
    steps = series(critic__score__mean=NOISE)
    steps[0] = {"val-core/gsm8k/acc/mean@1": 0.1}
    steps[20]["val-core/gsm8k/acc/mean@1"] = 0.3
    signal = learning_signal.judge(steps, VERL, wanted=[1, 20])
    assert signal.verdict == "Pass" and "val-core" in signal.sentences[0]


def test_peft_needs_trainable_parameters() -> None:
    steps = series(critic__score__mean=RISING)
    assert "no parameter is trainable" in learning_signal.judge(steps, VERL, trainable=0, peft=True).wrong[0]
    assert learning_signal.judge(steps, VERL, trainable=None, peft=True).notes == [
        "the log does not show how many parameters are trainable"
    ]


def test_a_baseline_is_compared_by_a_test_with_its_numbers() -> None:
    high, low = series(critic__score__mean=[value + 1 for value in NOISE]), series(critic__score__mean=NOISE)
    assert learning_signal.judge(low, VERL, baseline=high).verdict == "Fail"
    same = learning_signal.judge(low, VERL, baseline=low)
    assert same.verdict == "Pass" and "Mann-Whitney" in same.sentences[1]
    # Values by hand: two samples of three without overlap, U = 0, z = (0 - 4.5 + 0.5) / sqrt(5.25).
    assert learning_signal.worse([1, 2, 3], [4, 5, 6]) == pytest.approx(math.erfc(4 / math.sqrt(5.25) / math.sqrt(2)) / 2)
    assert learning_signal.worse([1, 1], [1, 1]) == 1.0
