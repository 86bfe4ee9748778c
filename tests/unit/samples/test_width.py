"""Text in columns, whatever its characters."""

from __future__ import annotations

import pytest

from mvp_helpers.samples.width import padded, shortened, side_by_side, width, wrap


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("abc", 3),
        ("答え", 4),
        ("e\u0301", 1),
        ("🙂", 2),
        ("a\u200bb", 2),
        ("한글 é", 6),
        ("\u1112\u1161\u11ab", 2),
        ("שלום", 4),
        ("a\u00adb", 3),
    ],
)
def test_width_is_what_a_terminal_shows(text: str, columns: int) -> None:
    assert width(text) == columns
    assert width(padded(text, 10)) == 10


@pytest.mark.parametrize(
    "text", ["the quick brown fox " * 9, "答えは四十二です" * 20, "x" * 500, "🙂 " * 90, "a" + "\u0301" * 300]
)
@pytest.mark.parametrize("columns", [20, 38, 80])
def test_no_line_is_wider_and_nothing_but_spaces_is_lost(text: str, columns: int) -> None:
    lines = wrap(text, columns)
    assert max(map(width, lines)) <= columns
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_line_is_broken_at_a_space() -> None:
    assert wrap("one two three", 9) == ["one two", "three"]
    assert wrap("one\n\ntwo", 9) == wrap("one\r\n\r\ntwo", 9) == ["one", "", "two"]


def test_what_a_terminal_would_act_on_is_escaped() -> None:
    assert wrap("a\x1b[2Jb\rc\u202ed", 80) == ["a\\x1b[2Jb\\x0dc\\u202ed"]


def test_a_long_text_keeps_its_beginning_and_end() -> None:
    lines = [str(number) for number in range(100)]
    assert shortened(lines, 6) == ["0", "1", "2", "[… 95 more lines …]", "98", "99"]
    assert shortened(lines, 100) == lines


def test_cells_keep_their_places_where_a_terminal_reverses_text() -> None:
    assert side_by_side(["abc", "d"], 4, " | ") == "abc  | d"
    hebrew = "שלום"
    line = side_by_side([hebrew, "d"], 5, " | ")
    assert line == f"\u200e{hebrew} \u200e | d    \u200e" and width(line) == 13


def test_a_megabyte_in_one_line_is_wrapped_in_one_pass() -> None:
    text = ("答え" + "x" * 99 + " ") * 10_000
    lines = wrap(text, 38)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "") and max(map(width, lines)) <= 38
