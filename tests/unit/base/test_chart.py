"""The small curve: one line, from the lowest value to the highest."""

from __future__ import annotations

import math

from mvp_helpers.base import chart


def test_a_curve_goes_from_the_lowest_bar_to_the_highest_with_a_gap_for_what_is_not_finite() -> None:
    assert chart.spark([0, 1, None, 3.5, math.nan, 7], 10, "utf-8") == "▁▂ ▅ █"


def test_a_long_series_is_averaged_into_the_width() -> None:
    assert chart.spark([0] * 50 + [1] * 50, 4, "utf-8") == "▁▁██"


def test_a_flat_series_is_flat_and_one_value_is_no_curve() -> None:
    assert chart.spark([2, 2, 2], 5, "utf-8") == "▁▁▁"
    assert chart.spark([2], 5, "utf-8") == chart.spark([], 5, "utf-8") == ""


def test_nothing_is_drawn_where_blocks_cannot_be_printed() -> None:
    assert chart.spark([1, 2], 5, "ascii") == ""
