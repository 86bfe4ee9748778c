"""Logs whose long lines a terminal has wrapped."""

from pathlib import Path

from triaging import triaged

from mvp_helpers.diagnosis import views
from mvp_helpers.log_text import wrapped

LINE = (
    "[rank6]:[E429 13:55:49 x.cpp:17] the watchdog got stuck for 480 seconds without making progress in monitoring queued calls"
)
NEXT = "[rank6]:[E429 13:55:50 x.cpp:1533] ProcessGroupNCCL is preparing to dump debug information of this rank into a file"


def wrap(text: str, width: int, padded: bool = False) -> str:
    parts = [line[at : at + width] for line in text.splitlines() for at in range(0, len(line), width)]
    return "".join(f"{part.ljust(width) if padded else part}\n" for part in parts)


def test_wrapped_lines_become_those_that_they_were() -> None:
    log = wrap(f"{LINE}\n{NEXT}\n", 50)
    assert [text for _, text in wrapped.lines(log)] == [LINE, NEXT]
    assert [number for number, _ in wrapped.lines(log)] == [1, 4]


def test_lines_of_their_own_stay_as_they_are() -> None:
    assert wrapped.lines("loading\nstep 1\nstep 2\n") == []
    assert wrapped.lines("") == []
    assert wrapped.lines(f"{LINE}\n{NEXT}\nloading\n") == []


def test_rows_of_a_table_are_not_joined() -> None:
    rows = "".join(f"|    episodes        | {n:<8} |\n" for n in range(9))
    assert wrapped.lines(f"{'-' * 33}\n{rows}{'-' * 33}\n") == []


def test_an_error_that_only_a_whole_line_shows_is_found_at_its_place(tmp_path: Path) -> None:
    log = wrap(f"reading the data\n{NEXT}\n{LINE}\n{NEXT}\n", 87)
    assert "seconds without making progress in monitoring" not in log
    answer = triaged(tmp_path, log)
    assert (answer.boundary, answer.rule, answer.line) == ("network", "nccl-watchdog", 4), answer


def test_a_healthy_wrapped_log_is_answered_as_before(tmp_path: Path) -> None:
    rows = "".join(f"loading part {n:03} of the data that the program needs, here\n" for n in range(9))
    (tmp_path / "run.log").write_text(rows)
    assert views.triage_log(tmp_path / "run.log").verdict == "Unknown"


def test_lines_of_equal_length_that_begin_with_a_time_stay_apart(tmp_path: Path) -> None:
    rows = "".join(
        f"23-05-05 21:2{n}:52.413 - INFO: [epoch: 0, iter: {n}00, lr:2.0e-04] l_pix: 2.933{n}e+05 \n" for n in range(8)
    )
    assert [text.strip() for _, text in wrapped.lines(rows)] == [row.strip() for row in rows.splitlines()]
    assert triaged(tmp_path, rows).verdict == "Unknown"


RECORD = """pip :   error: subproc
ess-exited-with-error
At line:1 char:30
+ ... nv\\Scripts\\activ
ate.ps1; pip install 
-r requirements.txt 
    + CategoryInfo    
          : NotSpeci  
"""
WRAPPED = """  Traceback (most rece
nt call last):
    File "<string>", 
line 204, in 
get_source_files
  AttributeError: 
'build_ext' object 
has no attribute 
'cython_sources'
  [end of output]
"""


def test_what_powershell_wrapped_is_read_as_it_was(tmp_path: Path) -> None:
    joined = [text for _, text in wrapped.of_powershell(RECORD + WRAPPED)]
    assert "  AttributeError: 'build_ext' object has no attribute 'cython_sources'" in joined
    assert wrapped.of_powershell(WRAPPED) == [], "no record of PowerShell"
    answer = triaged(tmp_path, RECORD + WRAPPED)
    assert (answer.line, "PyYAML" in answer.follow_up) == (14, True), answer


def test_a_traceback_that_powershell_interrupted_is_read_as_one(tmp_path: Path) -> None:
    log = """python : Traceback 
(most recent call 
last):
At line:1 char:1
+ python train.py
+ ~~~~~~~~~~~~~~~~~~~
    + CategoryInfo x 
: NotSpecified: (Tr)
  File "t.py", line 3
, in <module>
    print("a b c d e"
, end)
    ~~~~~^^^^^^^^^^^^
UnicodeEncodeError: 
'charmap' codec can't
 encode character
"""
    texts = [text for _, text in wrapped.of_powershell(log)]
    assert texts[0] == "Traceback (most recent call last):" and not any("CategoryInfo" in text for text in texts), texts
