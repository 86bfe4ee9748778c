"""Lines of a log without colours and prefixes: every spelling of vLLM's prefix is one of a logger, with its level and process."""

from __future__ import annotations

from pathlib import Path

import pytest

from mvp_helpers.diagnosis import views
from mvp_helpers.log_text.log_lines import ByWords, clean

PROCESSES = [
    "",
    "(EngineCore) ",
    "(EngineCore_0 pid=7) ",
    "(EngineCore_DP0) ",
    "(EngineCore pid=7) (Worker_TP1 pid=8) ",
    "(Worker_TP0_EP0 pid=7) ",
    "(Worker) ",
    "(Worker_PP0_TP1) ",
    "(VllmWorker rank=0 pid=7) ",
    "(VllmWorker rank=0) ",
    "(APIServer pid=7) ",
    "(ApiServer_1) ",
]
FILES = ["[core.py:7] ", "[v1/engine/core.py:7] ", "core.py:7] "]


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("date", ["", "01-31 10:20:30 ", "2026-01-31 10:20:30,123 ", "01-31 "])
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("level", ["ERROR", "WARNING", "INFO"])
def test_every_spelling_of_the_prefix_of_vllm_is_removed(process: str, date: str, file: str, level: str) -> None:
    line = clean(f"{process}{level} {date}{file}no room left".encode(), 3)
    assert (line.text, line.level, line.logged) == ("no room left", level, True)
    assert line.source == process.replace(" (", "(").strip()


@pytest.mark.parametrize(("code", "level"), [("E", "ERROR"), ("W", "WARNING"), ("I", "INFO")])
@pytest.mark.parametrize("rank", ["", "[RANK 3] "])
def test_the_prefix_of_tensorrt_llm_is_removed(code: str, level: str, rank: str) -> None:
    line = clean(f"[05/13/2026-21:33:16] [TRT-LLM] {rank}[{code}] no room left".encode(), 3)
    assert (line.text, line.level, line.logged) == ("no room left", level, True)


@pytest.mark.parametrize(
    "prefix",
    [
        "E 10-26 12:22:10 provisioner.py:582] ",
        "0.37.931.777 E ",
        "04/11 09:19:49 - OpenCompass - ERROR - ",
        "04/11 09:19:49 - OpenCompass - ERROR - /q/runners/local.py - _launch - 192 - ",
        "ERROR:2026-01-31 10:20:30,228:",
        "ERROR  : ",
        "2026-01-31T10:20:30.616588+0000 | compare | ERROR - ",
        "- 10:20:30.455 ERROR:   ",
        " 31-01-2026 10:20:30:536 [pid=17 tid=18] ERROR  cufio_core:977 ",
        "I0131 10:20:29.253875 17 run_docker.py:258] E0131 10:20:30.397444 18 hhblits.py:138] ",
    ],
)
def test_the_prefixes_of_other_programs_are_removed(prefix: str) -> None:
    line = clean(f"{prefix}no room left".encode(), 3)
    assert (line.text, line.level, line.logged) == ("no room left", "ERROR", True)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('CUDA error at sum.cu:25 code=700(cudaErrorIllegalAddress) "cudaFree(p)"', True),
        ("CUDA error at rest: none", False),
        ("Error : all intervals must be positive", True),
        ("Error : 0.25 of the median", False),
    ],
)
def test_an_error_that_a_program_reports_in_its_own_form_is_one(text: str, error: bool) -> None:
    assert clean(text.encode(), 1).error is error


def test_a_line_that_another_logger_prints_has_its_own_level() -> None:
    line = clean(b"E0131 10:20:30.397444 18 hhblits.py:141] - 10:20:29.820 INFO: Searching", 3)
    assert (line.text, line.level) == ("Searching", "INFO")
    assert clean(b"INFO: E0131 is a code", 3).text == "E0131 is a code"


def test_a_traceback_behind_a_level_of_one_letter_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        'E Traceback (most recent call last):\nE   File "/u/lite.py", line 8, in put\nE AssertionError\nE See the issues\n'
    )
    answer = views.triage_log(log)
    assert (answer.verdict, answer.line, answer.evidence) == ("Fail", 3, "AssertionError")


def test_a_time_is_not_read_as_a_label_of_srun() -> None:
    assert clean(b"16:53:24 - no room left", 3).source == ""


@pytest.mark.parametrize("colour", ["\x1b[1;36m{}\x1b[0;0m", "[1;36m{}[0;0m", "ESC[1;36m{}ESC[0;0m", "^[[1;36m{}^[[0;0m"])
def test_the_colours_of_vllm_are_removed_however_a_page_wrote_them(colour: str) -> None:
    line = clean(f"{colour.format('(EngineCore_DP0 pid=7)')} ERROR 01-31 10:20:30 [core.py:7] no room left".encode(), 3)
    assert (line.source, line.text, line.level) == ("(EngineCore_DP0 pid=7)", "no room left", "ERROR")


@pytest.mark.parametrize(
    "text", ["layer3: failed", "host: no file", "case-2: 7 failed", "at 10.0.0.4: refused", "[1,7] stderr: x"]
)
def test_other_words_before_a_colon_are_no_host(text: str) -> None:
    assert clean(text.encode(), 3).text == text


@pytest.mark.parametrize("text", ["(see above) ERROR", "(EngineCore is alone) failed", "(Workers) died", "(EngineCore)"])
def test_other_words_in_brackets_are_no_process(text: str) -> None:
    assert clean(text.encode(), 3).text == text


def test_a_traceback_whose_lines_have_the_short_prefix_is_read_as_one(tmp_path: Path) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/engine/core.py", line 7, in run_engine_core',
        "    self.load()",
        "OSError: [Errno 28] No space left on device",
    ]
    log = tmp_path / "some.log"
    log.write_text("".join(f"(EngineCore) ERROR [core.py:7] {line}\n" for line in lines))
    answer = views.triage_log(log)
    assert (answer.verdict, answer.boundary) == ("Blocked", "disk")
    assert answer.evidence == lines[-1]


def test_lines_that_differ_in_digits_alone_concern_the_same_items() -> None:
    items = ByWords([("first", ["port 80", "disk"]), ("second", ["port"])])
    assert items.of(b"port 80 and port 81") == items.of(b"port 9 and port 7") == ("first", "second")
    assert items.of(b"disk 1") == ("first",)
    assert items.of(b"a transport") == ("second",)
    assert items.of(b"nothing") == ()


def test_what_is_remembered_of_lines_is_bounded() -> None:
    items = ByWords([("it", ["word"])])
    for number in range(2 * ByWords.MOST_LINES):
        assert items.of(b"word " + b"x" * number) == ("it",)
    known = items._known
    assert len(known) <= ByWords.MOST_LINES and max(map(len, known)) <= ByWords.LONGEST
