"""Assertions about metrics, ``max(data["train/loss"]) < 1.05``: a closed grammar, of which nothing is executed as Python.

::

    assertion := value ("<" | "<=" | ">" | ">=" | "==") value | "all_finite" "(" series ")"
    value     := term (("+" | "-") term)*         term := factor (("*" | "/") factor)*
    factor    := number | "-" factor | "(" value ")" | series "[" step "]" | call | constant
    call      := name "(" series ("," [word "="] number)* ")"
    series    := 'data["name"]'                   name := min max mean median ratio_above len slope first_above
    constant  := a word that the caller gives a value, such as baseline

The functions mean what those of NeMo-RL's ``tests/check_metrics.py`` mean, except that NaN and infinity never pass.
"""

from __future__ import annotations

import math
import operator
import re
import statistics
from collections.abc import Callable, Iterable, Mapping

from ..base.errors import BadInput, did_you_mean
from ..trainers.trainer import Metrics

Series = Mapping[int, float]
Data = Mapping[str, Series]
Value = Callable[[Data], float]

DEEPEST = 50
"""Brackets and signs inside each other."""
LONGEST = 200
"""Words and signs of one assertion."""
_TOKEN = re.compile(
    r"[ \t]*(?:(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)|(\"[^\"\\]*\"|'[^'\\]*')|(\w+)|([<>]=?|==|[-+*/()\[\],=]))"
)
_COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}
_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


class Undecided(Exception):
    """Why an assertion about these metrics has no value."""


def problems(texts: Iterable[str]) -> list[str]:
    """Return why some of the assertions are not of this grammar."""
    found = []
    for text in texts:
        try:
            parse(text)
        except BadInput as error:
            found.append(error.what)
    return found


def judge(text: str, metrics: Metrics) -> tuple[bool, str]:
    """Return whether the assertion holds, and its values or why it does not hold. Raises BadInput."""
    data: dict[str, dict[int, float]] = {}
    for step, values in metrics.items():
        for name, value in values.items():
            data.setdefault(name, {})[step] = value
    try:
        return parse(text)(data)
    except Undecided as error:
        return False, f"{text}: {error}"
    except (ArithmeticError, ValueError) as error:
        return False, f"{text}: {type(error).__name__}: {error}"


def parse(text: str, constants: Mapping[str, float] | None = None) -> Callable[[Data], tuple[bool, str]]:
    """Return the assertion as a function of the metrics. Raises BadInput for a text outside of the grammar."""
    return _Parser(text, constants).assertion()


def left(text: str, constants: Mapping[str, float]) -> Value | None:
    """Return what an assertion compares, its left side; None for ``all_finite``. Raises BadInput for another text."""
    parse(text, constants)
    parser = _Parser(text, constants)
    return None if parser.peek() == "all_finite" else parser.value()


def words(text: str) -> tuple[set[str], set[str]]:
    """Return the names of the metrics, and the other words, in an assertion."""
    tokens = _Parser(text).tokens
    metrics = {word[1:-1] for at, (kind, word) in enumerate(tokens) if kind == "string" and tokens[at - 2][1] == "data"}
    return metrics, {word for kind, word in tokens if kind == "word"}


def limit(text: str, constants: Mapping[str, float]) -> tuple[str, str, float] | None:
    """Return metric, comparison and number of ``max(data["metric"]) < number``, for a line in a chart; None for others."""
    metrics, _ = words(text)
    parser = _Parser(text, constants)
    if parser.peek() not in ("min", "max", "mean", "median", "data") or len(metrics) != 1:
        return None
    parser.factor()
    if parser.peek() not in _COMPARISONS:
        return None
    sign = parser.take()
    try:
        return metrics.pop(), sign, _finite(parser.value()({}))
    except (Undecided, ArithmeticError, ValueError):
        return None


class _Parser:
    def __init__(self, text: str, constants: Mapping[str, float] | None = None) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.constants = constants or {}
        self.tokens: list[tuple[str, str]] = []
        while self.at < len(text.rstrip(" \t")):
            if not (match := _TOKEN.match(text, self.at)):
                raise self.error(f"unexpected {text[self.at :].lstrip()[:1]!r}")
            kind = ("number", "string", "word", "sign")[(match.lastindex or 1) - 1]
            self.tokens.append((kind, match[0].strip()))
            self.at = match.end()
        self.at = 0
        if len(self.tokens) > LONGEST:
            raise self.error(f"it has more than {LONGEST} words and signs")
        if ("word", "data") not in self.tokens:
            raise self.error("it names no metric")

    def error(self, why: str) -> BadInput:
        return BadInput(
            f"the assertion {self.text[:200]!r} is not a comparison of metrics: {why}",
            hint='max(data["train/loss"]) < 1.05; functions: ' + ", ".join([*_FUNCTIONS, "all_finite"]),
        )

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, kind: str = "", text: str = "") -> str:
        found = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
        if not found[0] or (kind and found[0] != kind) or (text and found[1] != text):
            raise self.error(f"expected {text or 'a ' + kind}, not {found[1] or 'the end'}")
        self.at += 1
        return found[1]

    def assertion(self) -> Callable[[Data], tuple[bool, str]]:
        if self.peek() == "all_finite":
            return self.all_finite()
        left, sign = self.value(), self.take("sign")
        if sign not in _COMPARISONS:
            raise self.error(f"expected a comparison, not {sign}")
        right = self.value()
        self.end()

        def holds(data: Data) -> tuple[bool, str]:
            values = _finite(left(data)), _finite(right(data))
            return bool(_COMPARISONS[sign](*values)), f"{self.text} (is {values[0]:.6g})"

        return holds

    def all_finite(self) -> Callable[[Data], tuple[bool, str]]:
        self.take(), self.take(text="(")
        name = self.series()
        self.take(text=")")
        self.end()
        return lambda data: (bool(_values(data, name)), self.text)

    def end(self) -> None:
        if self.at < len(self.tokens):
            raise self.error(f"unexpected {self.peek()}")

    def value(self) -> Value:
        return self.chain(("+", "-"), lambda: self.chain(("*", "/"), self.factor))

    def chain(self, signs: tuple[str, ...], part: Callable[[], Value]) -> Value:
        result = part()
        while self.peek() in signs:
            result = _combined(_ARITHMETIC[self.take()], result, part())
        return result

    def factor(self) -> Value:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error("too many brackets")
        result = self._factor()
        self.depth -= 1
        return result

    def _factor(self) -> Value:
        kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
        if kind == "number":
            number = self.number()
            return lambda data: number
        if text == "-":
            self.take()
            inner = self.factor()
            return lambda data: -inner(data)
        if text == "(":
            self.take()
            inner = self.value()
            self.take(text=")")
            return inner
        if text == "data":
            name = self.series()
            self.take(text="[")
            step = self.step()
            self.take(text="]")
            return lambda data: _at(data, name, step)
        if kind == "word" and text in self.constants:
            constant = self.constants[self.take()]
            return lambda data: constant
        return self.call()

    def call(self) -> Value:
        function = self.take("word")
        if function not in _FUNCTIONS:
            raise self.error(f"unknown function {function}{did_you_mean(function, [*_FUNCTIONS, *self.constants])}")
        self.take(text="(")
        name = self.series()
        known, given = list(_FUNCTIONS[function][1]), {}
        while self.peek() == ",":
            self.take()
            word = self.take() if self.tokens[self.at : self.at + 2] and self.tokens[self.at][0] == "word" else ""
            if word:
                self.take(text="=")
            else:
                word = next((each for each in known if each not in given), "")
            if word not in known or word in given:
                raise self.error(f"{function} has no such argument")
            sign = -1 if self.peek() == "-" and self.take() else 1
            given[word] = sign * self.number()
        self.take(text=")")
        if missing := [word for word, default in _FUNCTIONS[function][1].items() if default is None and word not in given]:
            raise self.error(f"{function} needs {missing[0]}")
        arguments = {**_FUNCTIONS[function][1], **given}
        return lambda data: _FUNCTIONS[function][0](_values(data, name), **arguments)

    def series(self) -> str:
        self.take("word", "data"), self.take(text="[")
        name = self.take("string")[1:-1]
        self.take(text="]")
        return name

    def step(self) -> int:
        text = self.take("string")[1:-1]
        if not text.isascii() or not text.isdigit():
            raise self.error(f"{text} is not a step")
        return int(text[:18])

    def number(self) -> float:
        number = float(self.take("number"))
        if not math.isfinite(number):
            raise self.error("a number that is not finite")
        return number


def _combined(arithmetic: Callable[[float, float], float], left: Value, right: Value) -> Value:
    return lambda data: arithmetic(left(data), right(data))


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise Undecided(f"{value} is not a finite number")
    return value


def _values(data: Data, name: str) -> Series:
    """Return a series of at least one value, all finite."""
    if not (series := data.get(name)):
        raise Undecided(f"no metric {name} was logged")
    if bad := [step for step in sorted(series) if not math.isfinite(series[step])]:
        raise Undecided(f"{name} is {series[bad[0]]} at step {bad[0]}")
    return series


def _at(data: Data, name: str, step: int) -> float:
    series = _values(data, name)
    if step not in series:
        raise Undecided(f"{name} has no step {step}")
    return series[step]


def _within(series: Series, range_start: float, range_end: float) -> list[float]:
    """Return the values of a range of steps, as NeMo-RL counts them: negative ones from the end; ``range_end`` is not in it."""
    # A training that was resumed has no values of its first steps.
    end = len(series) + 1 + max(series) - len(series)
    start = range_start + end if range_start < 0 else range_start
    stop = range_end + end if range_end <= 0 else range_end
    if not (values := [value for step, value in series.items() if start <= step < stop]):
        raise Undecided(f"no step from {start:g} to before {stop:g}")
    return values


def _mean(series: Series, range_start: float, range_end: float, ignore_top_p: float) -> float:
    values = _within(series, range_start, range_end)
    if not 0 <= ignore_top_p <= 1:
        raise Undecided(f"ignore_top_p={ignore_top_p:g} is not between 0 and 1")
    kept = sorted(values)[: max(int(len(values) * (1 - ignore_top_p)), 1)] if ignore_top_p else values
    return statistics.mean(kept)


def _median(series: Series, range_start: float, range_end: float) -> float:
    return statistics.median(_within(series, range_start, range_end))


def _ratio_above(series: Series, threshold: float) -> float:
    return sum(value >= threshold for value in series.values()) / len(series)


def _slope(series: Series) -> float:
    """Return the rise per step of the straight line with the least squares; 0 for a single step."""
    if len(series) < 2:
        return 0.0
    steps = sorted(series)
    return statistics.linear_regression(steps, [series[step] for step in steps]).slope


def _first_above(series: Series, threshold: float) -> float:
    """Return the first step whose value is above the threshold."""
    for step in sorted(series):
        if series[step] > threshold:
            return step
    raise Undecided(f"no value is above {threshold:g}")


_FUNCTIONS: dict[str, tuple[Callable[..., float], dict[str, float | None]]] = {
    "min": (lambda series: min(series.values()), {}),
    "max": (lambda series: max(series.values()), {}),
    "mean": (_mean, {"range_start": 1.0, "range_end": 0.0, "ignore_top_p": 0.0}),
    "median": (_median, {"range_start": 1.0, "range_end": 0.0}),
    "ratio_above": (_ratio_above, {"threshold": None}),
    "len": (len, {}),
    "slope": (_slope, {}),
    "first_above": (_first_above, {"threshold": None}),
}
"""Each function with its arguments after the series; None: it has no default."""
