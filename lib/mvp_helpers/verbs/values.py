"""Types of option values. A wrong value is bad input: the message names the option, the value, what is expected, an example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..base.errors import BadInput

MOST_SECONDS = 1_000_000.0
"""About 11 days: longer waits overflow the milliseconds of poll(2)."""


if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # not generic before click 8.5, which an image may contain


class Value(ParamType):
    """A value that ``parse`` accepts, or rejects with a ValueError."""

    expected = ""
    example = ""

    def parse(self, text: str) -> Any:
        """Return the value of ``text``. Raises ValueError."""
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the parsed value; defaults are values already. Raises BadInput."""
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except ValueError:
            option = param.opts[-1] if param else self.name
            raise BadInput(f"{option} {value!r} is not {self.expected}", hint=f"{option} {self.example}") from None


class Seconds(Value):
    """A span of time in seconds, greater than 0 and finite."""

    name = "seconds"
    expected = f"a number of seconds greater than 0 and at most {MOST_SECONDS:,.0f}"
    example = "90"

    def parse(self, text: str) -> float:
        """Return the seconds. Raises ValueError."""
        seconds = float(text)
        if not 0 < seconds <= MOST_SECONDS:  # nan is not greater than 0 either
            raise ValueError(text)
        return seconds


class Count(Value):
    """A whole number from ``least`` to ``most``."""

    name = "count"

    def __init__(self, least: int, most: int | None = None, example: int = 20) -> None:
        self.least, self.most = least, most
        self.expected = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"
        self.example = str(example)

    def parse(self, text: str) -> int:
        """Return the number. Raises ValueError."""
        if not (text.isascii() and text.isdigit()):  # int() also takes "1_000", " 7" and "٣"
            raise ValueError(text)
        number = int(text)
        if number < self.least or (self.most is not None and number > self.most):
            raise ValueError(text)
        return number


class Since(Value):
    """A time in the past: a duration until now, or a UTC time; the value is Unix time."""

    name = "when"
    expected = "a duration (10m) or a UTC time (2026-01-31T23:59)"
    example = "10m"

    def parse(self, text: str) -> float:
        """Return the Unix time. Raises ValueError."""
        from ..base import times

        try:
            return times.since(text)
        except (BadInput, OverflowError) as error:
            raise ValueError(text) from error


class Override(Value):
    """A Hydra override ``key=value``; ``+key=value`` adds a key that the config does not have yet."""

    name = "override"
    expected = "of the form KEY=VALUE"
    example = "trainer.total_epochs=2"

    def parse(self, text: str) -> str:
        """Return the text. Raises ValueError."""
        from ..trainers import hydra

        if text.startswith("~") or not hydra.is_override(text):
            raise ValueError(text)
        return text


class Pair(Value):
    """Two words joined by ``=``, as ``form`` names them; neither may be empty."""

    name = "pair"

    def __init__(self, form: str) -> None:
        self.expected, self.example = f"of the form {form}", form

    def parse(self, text: str) -> tuple[str, str]:
        """Return both words. Raises ValueError."""
        left, _, right = text.partition("=")
        if not left or not right:
            raise ValueError(text)
        return left, right
