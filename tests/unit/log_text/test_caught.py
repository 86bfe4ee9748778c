"""The class of an exception of which a program prints the text alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from triaging import triaged

from mvp_helpers.log_text.caught import named

NAMED = {
    "Error on layer 3: 'Net' object has no attribute 'layers'": "AttributeError",
    "❌ ERROR: 'answer_changed'": "KeyError",
    "Error at pair 0: 'layer_0'": "KeyError",
    'Failed to merge: "a b"': "KeyError",
    "Error reading summary: Unknown format code 'f' for object of type 'str'": "ValueError",
    "Error: list index out of range": "IndexError",
    "Error opening it: [Errno 13] Permission denied: 'x'": "PermissionError",
}
NOT_NAMED = [
    "layer 3: 'Net' object has no attribute 'layers'",
    "Error in 'layer_0'",
    "Error caught was: No module named 'triton'",
    "Error: 'a' is not 'b'",
    "Error: 3 of 4 have failed",
    "The error of key 'x': 'y'",
    "Error reading the summary: it was torn",
]


@pytest.mark.parametrize("text", NAMED)
def test_the_text_shows_the_class(text: str) -> None:
    assert named(text) == f"{NAMED[text]}: {text.partition(': ')[2]}"


@pytest.mark.parametrize("text", NOT_NAMED)
def test_another_text_shows_none(text: str) -> None:
    assert named(text) == ""


def test_the_whole_text_is_the_exceptions_only_where_a_logger_calls_it_an_error(tmp_path: Path) -> None:
    assert named("'key'", level=True) == "KeyError: 'key'" and named("'key'") == ""
    assert triaged(tmp_path, "INFO: 'key'\n").line is None


def test_an_error_that_a_program_caught_is_judged_as_if_it_had_ended_it(tmp_path: Path) -> None:
    line = "Error reading summary: Unknown format code 'f' for object of type 'str'"
    answer = triaged(tmp_path, f"reading\n{line}\ndone with it\n")
    assert (answer.verdict, answer.boundary, answer.line, answer.evidence) == ("Fail", "user code", 2, line)
    assert "f-string" in answer.follow_up and "traceback.print_exc()" in answer.follow_up


@pytest.mark.parametrize(
    ("line", "boundary"),
    [
        ("ERROR: weights.pt not found!", "model path"),
        ("ERROR: Could not find file 'out/x.gguf'", "model path"),
        ("Error: results/summary.json does not exist", "data"),
        ("Error reading the summary: it was torn", "unknown"),
        ("2026-01-31 10:00:00,123 - ERROR - 💥 SOME OF THE PIECES ARE MISSING.", "unknown"),
        ("ERROR: the folder of results was not found", "launcher"),
    ],
)
def test_a_launcher_is_not_blamed_for_a_file_that_an_earlier_step_writes(line: str, boundary: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, f"starting\n{line}\n")
    assert (answer.verdict, answer.boundary) == ("Blocked", boundary)
    assert ("the earlier step that writes it" in answer.follow_up) == (boundary in ("checkpoint", "model path", "data"))
