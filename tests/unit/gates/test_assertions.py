"""Assertions about metrics: what the documents and NeMo-RL's scripts write is understood, and nothing else is, or runs."""

from __future__ import annotations

import builtins
import math
import random

import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.gates import assertions

METRICS = {step: {"train/loss": 1 / step, "train/reward": step / 10} for step in range(1, 11)}
FORMS = (
    'max(data["train/loss"]) < 1.05',
    "min(data['train/reward']) >= 0.1",
    'mean(data["train/loss"], -6, -1) < 0.3',
    'mean(data["train/loss"],-5,-1) < 0.7 * data["train/loss"]["1"]',
    'mean(data["train/loss"], ignore_top_p=0.05) < 1.5',
    'median(data["train/reward"], 2) > 0.5',
    'ratio_above(data["train/reward"], 0.5) <= 0.6',
    'data["train/loss"]["10"] == 0.1',
    'len(data["train/loss"]) == 10',
    'max(data["train/loss"]) < 1000000.0',
    '-min(data["train/loss"]) > -1e6',
    'all_finite(data["train/loss"])',
)
"""One of each form that occurs in the documents and below tests/functional and tests/test_suites of NeMo-RL."""


@pytest.mark.parametrize("text", FORMS)
def test_every_form_that_upstream_uses_holds_where_it_should(text: str) -> None:
    holds, reason = assertions.judge(text, METRICS)
    assert holds, reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('max(data["train/loss"]) < 0.5', "(is 1)"),
        ('max(data["train/none"]) < 0.5', "no metric train/none was logged"),
        ('data["train/loss"]["11"] < 0.5', "has no step 11"),
        ('mean(data["train/loss"], 20) < 0.5', "no step from 20"),
        ('1 / (max(data["train/loss"]) - 1) < 0.5', "ZeroDivisionError"),
        ('1e308 * 1e308 * max(data["train/loss"]) > 1', "inf is not a finite number"),
    ],
)
def test_what_does_not_hold_says_why(text: str, words: str) -> None:
    holds, reason = assertions.judge(text, METRICS)
    assert not holds and words in reason, reason


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("text", FORMS)
def test_nan_and_infinity_never_pass(text: str, bad: float) -> None:
    name = "train/reward" if "train/reward" in text else "train/loss"
    holds, reason = assertions.judge(text, {**METRICS, 2: {**METRICS[2], name: bad}})
    assert not holds and f"{name} is {bad} at step 2" in reason


@pytest.mark.parametrize(
    "text",
    [
        "",
        "True",
        "1 < 2",
        'max(data["a"])',
        '__import__("os").system("true") == 0',
        'data["a"].clear() == 0',
        'max(data["a"].values()) < 1',
        'data["a"][1] < 1',
        'data["a"]["-1"] < 1',
        'data[data["a"]] < 1',
        'max(data["a"]) < 1e999',
        'max(data["a"]) < nan',
        'open(data["a"]) < 1',
        'max(data["a"], key=1) < 1',
        'ratio_above(data["a"]) < 1',
        'mean(data["a"], 1, range_start=1) < 1',
        'max(data["a"]) < 1 < 2',
        'max(data["a"]) < 1 and max(data["a"]) > 0',
        'max(data["a"]) < 1; import os',
        'max(data["a"]) != 1',
        'max(data["a"]) < 9**9',
        'lambda: data["a"] < 1',
        f'{"(" * 5000}data["a"]["1"]{")" * 5000} < 1',
        f'data["a"]["1"] < {"1 + " * 5000}1',
        f'{"-" * 5000}data["a"]["1"] < 1',
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a comparison of metrics"):
        assertions.parse(text)


def test_texts_made_at_random_are_refused_or_agree_with_python() -> None:
    """What is accepted means what upstream's evaluation of Python makes of it, and no text ends in another error."""
    pieces = [
        'data["train/loss"]',
        'data["train/reward"]',
        '["1"]',
        "max",
        "min",
        "len",
        "(",
        ")",
        "<",
        ">=",
        "==",
        "+",
        "-",
        "*",
        "/",
        "2",
        "0.5",
    ]
    pieces += [",", " ", "range_start=", "mean", "x", '"', "'", "[", "]", "\\", "\n", "é", ".", "**", "=", "1e5"]
    pieces += ["max(data['train/loss'])", "< 1.05", "data['train/reward']['3']"] * 4
    python = {name: lambda series, name=name: getattr(builtins, name)(series.values()) for name in ("min", "max", "len")}
    data = {name: {str(step): METRICS[step][name] for step in METRICS} for name in METRICS[1]}
    source, accepted = random.Random(20261122), 0
    for _ in range(20_000):
        text = "".join(source.choice(pieces) for _ in range(source.randint(1, 9)))
        try:
            holds, _ = assertions.judge(text, METRICS)
        except BadInput:
            continue
        accepted += 1
        if "mean" not in text:
            try:
                expected = bool(eval(text.strip(), {"data": data, **python}))
            except ZeroDivisionError:
                expected = False
            assert holds == expected, text
    assert accepted > 50, "else nothing was compared"


def test_slope_and_first_above_are_those_of_the_series() -> None:
    metrics = {step: {"a": 2.0 * step} for step in range(1, 6)}
    assert assertions.judge('slope(data["a"]) == 2', metrics)[0]
    assert assertions.judge('first_above(data["a"], threshold=4) == 3', metrics)[0]
    assert assertions.judge('first_above(data["a"], 100) == 3', metrics) == (
        False,
        'first_above(data["a"], 100) == 3: no value is above 100',
    )


def test_a_word_is_a_constant_only_when_the_caller_gives_it_a_value() -> None:
    assert assertions.parse('max(data["a"]) < 2 * baseline', {"baseline": 3.0})({"a": {1: 5.0}})[0]
    with pytest.raises(BadInput, match="unknown function baseline"):
        assertions.parse('max(data["a"]) < 2 * baseline')


def test_a_limit_for_a_chart_is_found_only_where_one_number_limits_one_metric() -> None:
    assert assertions.limit('max(data["a"]) < 2 * baseline', {"baseline": 3.0}) == ("a", "<", 6.0)
    assert assertions.limit('slope(data["a"]) < 2', {}) is None
    assert assertions.limit('max(data["a"]) < min(data["b"])', {}) is None
    assert assertions.limit('all_finite(data["a"])', {}) is None
