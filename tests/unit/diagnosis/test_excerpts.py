"""Excerpts whose tracebacks are torn, or printed twice: the one that says most is judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from triaging import triaged

ERROR = "ValueError: no pieces\n"
TORN = 'p/run.py", line 3, in <module>\n    main()\n'
STEP = '  File "/q/train.py", line 7, in training_step\n    loss()\n'
INNER = '  File "/q/own.py", line 5, in work\n    x()\n'
OTHER = '  File "/q/other.py", line 6, in work\n    x()\n'
RAY = '  File "/opt/lib/python3.12/site-packages/ray/_private/worker.py", line 2, in get\n    raise value.as_instanceof_cause()\n'
NOTEBOOK = """File ~/env/lib/python3.12/site-packages/vllm/worker.py:7, in Worker.load(self, options)
      6 def load(self, options):
----> 7     self.model = build(options)
"""
VERL = '  File "/v/verl/trainer/ray_trainer.py", line 4, in fit\n    x()\n'


def test_the_whole_one_of_two_reports_of_an_error_tells_where_it_was_raised(tmp_path: Path) -> None:
    answer = triaged(tmp_path, INNER + ERROR + "pod failed\n" + TORN + STEP + INNER + ERROR)
    assert (answer.verdict, answer.boundary, answer.phase) == ("Fail", "training", "train")
    assert answer.evidence == ERROR.strip()


def test_an_equal_error_of_another_place_does_not_tell_where_the_first_was_raised(tmp_path: Path) -> None:
    answer = triaged(tmp_path, INNER + ERROR + "pod failed\n" + TORN + STEP + OTHER + ERROR)
    assert answer.boundary == "user code"


def test_a_frame_that_a_message_quotes_belongs_to_it(tmp_path: Path) -> None:
    quoted = "RuntimeError: cannot trace\nfrom user code:\n" + STEP + "\nset MORE=1 for more\n"
    answer = triaged(tmp_path, "Traceback (most recent call last):\n" + INNER + quoted)
    assert answer.boundary == "user code" and answer.evidence == "RuntimeError: cannot trace"


def test_a_cut_off_traceback_of_code_that_only_passes_calls_on_gives_way_to_another(tmp_path: Path) -> None:
    torn = "00, repr=<main.Runner object at 0x7f>)\n"
    assert triaged(tmp_path, RAY + torn + VERL).boundary == "trainer"
    assert triaged(tmp_path, INNER + torn + VERL).boundary == "unknown"


def test_an_error_of_another_process_whose_first_frame_is_torn_is_judged_by_who_called(tmp_path: Path) -> None:
    carrier = "Traceback (most recent call last):\n" + VERL + RAY + "ray.exceptions.RayTaskError: ray::Runner.fit() (pid=7)\n"
    assert triaged(tmp_path, carrier + '  File "/home/run').boundary == "trainer"
    assert triaged(tmp_path, carrier + INNER + '  File "/home/run').boundary == "unknown"


def test_the_first_line_of_a_wrapped_message_is_the_evidence(tmp_path: Path) -> None:
    first = "ValueError: To serve at least one request with the model's length, (4 GiB KV cach"
    second = "e is needed, which is larger than the available KV cache memory (3 GiB)"
    text = f"(EngineCore pid=3) {first}\n{second}\n"
    assert triaged(tmp_path, text).evidence == first
    assert triaged(tmp_path, f"ERROR: {second}\n{text}").evidence == second


def test_frames_that_a_reporter_left_out_do_not_end_a_traceback(tmp_path: Path) -> None:
    for left_out in ("...\n", "  ...\n", "…\n"):
        answer = triaged(tmp_path, "Traceback (most recent call last):\n" + STEP + left_out + INNER + ERROR)
        assert (answer.boundary, answer.phase) == ("training", "train"), left_out


def test_a_traceback_with_an_empty_line_after_every_line_is_read_as_one(tmp_path: Path) -> None:
    lines = (STEP + INNER + ERROR).splitlines()
    for stamp in ("", "[2026-01-31T10:00:00.702Z] "):
        answer = triaged(tmp_path, "".join(f"{stamp}{line.strip() if stamp else line}\n\n" for line in lines))
        assert (answer.boundary, answer.phase) == ("training", "train"), stamp


def test_an_excerpt_that_begins_within_a_traceback_of_a_notebook_is_an_error(tmp_path: Path) -> None:
    answer = triaged(tmp_path, NOTEBOOK)
    assert (answer.verdict, answer.boundary) == ("Blocked", "rollout engine") and "worker.py:7" in answer.evidence
    assert triaged(tmp_path, NOTEBOOK + "\n" + ERROR).evidence == ERROR.strip()


def test_a_sentence_about_a_place_in_a_file_begins_no_traceback(tmp_path: Path) -> None:
    for text in ("File ~/own/notes.py:7, in short, is read\n", "see File /own/notes.py:7, in load(options)\n"):
        assert triaged(tmp_path, text).evidence == "no error was found, and no end of a run"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("Benchmark FAILED", True),
        ("Engine build failed or timed out", True),
        ("[FAILED] shard 3: rows of 12 columns", True),
        ("step 3 failed with exit code 2", True),
        ("[warm up] FAILED: INVALID_ARGUMENT: too large", True),
        ("3 done, 0 failed", False),
        ("If this failed", False),
        ("the cache would have failed", False),
        ("reading failed, will retry", False),
    ],
)
def test_what_a_program_says_of_a_part_that_failed_is_named(line: str, named: bool, tmp_path: Path) -> None:
    answer = triaged(tmp_path, f"Config 1: 8 requests\n{line}\nAll configurations tried\n")
    assert (answer.verdict, answer.evidence == line, answer.line == 2) == ("Unknown", named, named), answer


def test_a_comparison_that_failed_at_the_end_is_a_failed_test(tmp_path: Path) -> None:
    last = triaged(tmp_path, "loss_g:\n mean diff: check passed: False, value: 0.02\nINFO: diff check failed\n")
    assert (last.verdict, last.boundary, last.line) == ("Fail", "test", 3), last
    other = triaged(tmp_path, "asking the server\nINFO: health check failed\n")
    assert (other.verdict, other.line) == ("Unknown", 2), other
    went_on = triaged(tmp_path, "INFO: diff check failed\n" + "reading shards\n" * 5)
    assert (went_on.verdict, went_on.line) == ("Unknown", 1), went_on


def test_a_metric_of_answers_that_is_not_a_number_is_named_with_its_line(tmp_path: Path) -> None:
    answer = triaged(tmp_path, "***** predict metrics *****\n  predict_r@1 = 0.0312\n  predict_r@25 = nan\n")
    assert (answer.verdict, answer.boundary, answer.line) == ("Unknown", "metric", 3), answer
    assert "a mean of nothing" in answer.follow_up


def test_an_error_that_the_next_lines_say_is_shown_with_them(tmp_path: Path) -> None:
    empty = triaged(tmp_path, "2026-01-31 10:00:00,123 - ERROR -\nthe loader gave up\n")
    assert (empty.line, empty.evidence) == (1, "the loader gave up")
    record = "- 10:00:39.455 ERROR: "
    several = triaged(tmp_path, f"{record}In /q/data.cpp:11: Database:\n{record}  could not open it\n{record}  the end\n")
    assert several.evidence == "In /q/data.cpp:11: Database: could not open it"


THROWN = "terminate called after throwing an instance of 'cv::Exception'\n"


def test_the_text_that_cpp_prints_of_an_exception_is_judged_as_that(tmp_path: Path) -> None:
    said = "  what():  OpenCV(4.5.1) /io/modules/imgproc/src/resize.cpp:4051: error: (-215:Assertion failed) !ssize.empty()\n"
    answer = triaged(tmp_path, f"loading\n{THROWN}{said}Aborted (core dumped)\n")
    assert (answer.boundary, answer.line) == ("data", 3) and answer.evidence.startswith("cv::Exception: OpenCV(4.5.1) ")
    assert triaged(tmp_path, f"loading\n{THROWN}Aborted (core dumped)\n").rule in ("aborted", "crash")
    apart = THROWN + "another line\n" * 9 + said
    assert not triaged(tmp_path, apart).evidence.startswith("cv::Exception: ")
    alone = said.replace("  what():  ", "")
    assert (triaged(tmp_path, alone).boundary, triaged(tmp_path, alone).line) == ("data", 1)


@pytest.mark.parametrize(
    ("line", "boundary"),
    [
        ("onnxruntime.capi.onnxruntime_pybind11_state.NoSuchFile: [ONNXRuntimeError] : 3 : NO_SUCHFILE : Load model failed", ""),
        ("httpx.ReadTimeout: timed out", "network"),
        ("pip._vendor.pyproject_hooks._impl.BackendUnavailable: Cannot import 'setuptools.build_meta'", "dependency"),
        ("E   Failed: DID NOT RAISE <class 'ValueError'>", "test"),
        ("E   Failed: Timeout (>300.0s) from pytest-timeout.", "test"),
        ("E   AssertionError: Tensor-likes are not close!", "test"),
        (r"D:\q\ggml\src\ggml-sycl\fattn.cpp:14: no kernel for this", "rollout engine"),
        ("[10:00:00] /q/convert/BroadCastAdd.cpp:61: Check failed: a == b ==> fused", ""),
    ],
)
def test_an_error_whose_class_or_line_does_not_call_itself_one_is_read(line: str, boundary: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, f"starting\n{line}\n")
    assert answer.line == 2 and answer.boundary in (boundary, boundary or answer.boundary)


@pytest.mark.parametrize(
    "line",
    [
        "http.ReadTimeout = 30",
        "ReadTimeout 30 seconds, ConnectTimeout 10 seconds",
        "Failed: 0, passed: 7",
        "load_backend: failed to find ggml_backend_init in /q/ggml-sycl.so",
        "Error caught was: No module named 'triton'",
        "compiling /q/ggml/src/ggml.c",
    ],
)
def test_what_looks_like_such_an_error_is_none(line: str, tmp_path: Path) -> None:
    assert triaged(tmp_path, f"starting\n{line}\ngoing on\n").line is None


def test_the_error_of_a_module_that_pytest_could_not_import_is_the_cause(tmp_path: Path) -> None:
    module = "ERROR tests/test_a.py - AttributeError: module 'torch' has no attribute 'complex32'\n"
    stopped = "!!!!!!!! Interrupted: 1 error during collection !!!!!!!!\n=========== 1 error in 2.00s ===========\n"
    answer = triaged(tmp_path, module + stopped)
    assert (answer.verdict, answer.boundary, answer.line) == ("Blocked", "dependency", 1)
    assert triaged(tmp_path, stopped).rule == "tests-not-collected"


def test_an_interrupt_that_python_ignored_ended_the_run_unless_it_was_done(tmp_path: Path) -> None:
    ignored = "Exception ignored in: <module 'threading' from '/usr/lib/python3.10/threading.py'>\n"
    wait = 'Traceback (most recent call last):\n  File "/usr/lib/python3.10/threading.py", line 7, in _shutdown\n    wait()\n'
    assert triaged(tmp_path, f"working\n{ignored}{wait}KeyboardInterrupt: \n").rule == "interrupted"
    assert triaged(tmp_path, f"working\n{ignored}{wait}ValueError: closed\n").line is None
    assert triaged(tmp_path, f"=== 3 passed in 2.31s ===\n{ignored}{wait}KeyboardInterrupt: \n").rule != "interrupted"


LMOD = 'Lmod has detected the following error: The following module(s) are unknown:\n"pieces/3"\n'
LOADER = (
    "flatpak: error while loading shared libraries: libssl.so.10: cannot open shared object file: No such file or directory\n"
)
CANCELLED = "error: *** JOB 7 ON node1 CANCELLED AT 2026-01-30T00:09:32 DUE to SIGNAL Terminated ***\n"
RAISED = 'Traceback (most recent call last):\n  File "/q/run.py", line 3, in <module>\n    main()\n'


def test_what_a_shell_lacks_at_the_beginning_does_not_explain_an_end_of_another_kind(tmp_path: Path) -> None:
    assert triaged(tmp_path, LOADER + RAISED + "NameError: name 'pieces' is not defined\n").line == 5
    assert triaged(tmp_path, LOADER + RAISED + "RuntimeError: no pieces\n").rule == "binary-mismatch"
    assert triaged(tmp_path, LOADER + RAISED + "TypeError: flatpak gave nothing\n").rule == "binary-mismatch"
    assert triaged(tmp_path, f"{LMOD}loading\n{CANCELLED}").rule == "slurm-cancelled"
    assert triaged(tmp_path, f"{CANCELLED}{LMOD}").line == 1
    assert triaged(tmp_path, f"{LMOD}loading\n").rule == "environment-module-missing"


def test_a_program_that_worked_had_the_modules_that_it_needs(tmp_path: Path) -> None:
    answer = triaged(tmp_path, LMOD + "Parts: 100%|####| 5/5 [00:55<00:00, 13.30s/it]\n")
    assert (answer.verdict, answer.line) == ("Unknown", None)


def test_an_import_below_a_warning_that_says_what_is_left_out_is_no_error(tmp_path: Path) -> None:
    missing = 'Traceback (most recent call last):\n  File "/q/x.py", line 3, in f\n    import odd\nImportError: no odd\n'
    record = "2026-01-31 10:00:{:02} WARNING  A matching odd is not available, some optimizations will not be enabled\n"
    answer = triaged(tmp_path, "".join(record.format(second) + missing for second in (1, 2)))
    assert (answer.verdict, answer.line) == ("Unknown", None) and "runs" not in answer.advice
    loud = record.replace("WARNING", "ERROR  ")
    assert triaged(tmp_path, loud.format(1) + missing).line is not None


def test_an_exception_that_names_the_key_which_the_one_before_it_did_not_find_says_more(tmp_path: Path) -> None:
    looked = (
        'Traceback (most recent call last):\n  File "/e/lib/python3.12/site-packages/odd/params.py", line 9, in pop\n    x()\n'
    )
    chained = f"{looked}KeyError: 'loader'\n\nDuring handling of the above exception, another exception occurred:\n\n"
    answer = triaged(tmp_path, f'{chained}{RAISED}odd.ConfigurationError: key "loader" is required\n')
    assert (answer.verdict, answer.boundary) == ("Blocked", "config") and "ConfigurationError" in answer.evidence
    assert triaged(tmp_path, f"{chained}{RAISED}odd.StrangeError: no pieces\n").evidence == "KeyError: 'loader'"
