"""The diagnosis: every signature has logs that match it, and the first cause in time wins."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import msgspec
import pytest
from odd_numbers import explain_with_odd_numbers

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.diagnosis import diagnose, job_evidence, scan, signatures, views
from mvp_helpers.diagnosis.answer import filled
from mvp_helpers.diagnosis.scan import Scan
from mvp_helpers.diagnosis.signature_files import FOLDER
from mvp_helpers.diagnosis.signatures import Signatures
from mvp_helpers.diagnosis.views import Explanation
from mvp_helpers.log_text import log_lines
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result
from mvp_helpers.success import finished

LOGS = Path(__file__).parents[1] / "logs"
SIGNATURES = signatures.load()
IDS = [rule.id for rule in SIGNATURES.rules]

ROOT = """Traceback (most recent call last):
  File "/opt/tool/main.py", line 10, in main
    work()
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/module.py", line 99, in forward
    raise strange
odd.StrangeError: nobody knows me
"""


def explained(text: str, *, rules: Signatures = SIGNATURES) -> Explanation:
    return views.explanation(diagnose.diagnose([Scan(rules, "x.log").read([text.encode()])], rules, {"log": "x.log"}))


ALL_LOGS = sorted(LOGS.rglob("*.log"))


def examples(rule: str, kind: str) -> list[Path]:
    return sorted((LOGS / rule).glob(f"{kind}*.log"))


@pytest.mark.parametrize("file", ALL_LOGS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_both_views_of_a_log_have_the_same_answer(file: Path) -> None:
    first, second = views.explain_log(file), views.triage_log(file)
    assert (
        first.verdict,
        first.boundary,
        first.phase,
        first.rule,
        first.evidence,
        first.confidence,
        first.advice,
        first.next,
    ) == (
        second.verdict,
        second.boundary,
        second.phase,
        second.rule,
        second.evidence,
        second.confidence,
        second.advice,
        second.follow_up,
    )
    assert first.where == (f"{file}:{second.line}" if second.line else "")


def test_a_bridge_log_without_a_signature_is_a_failure_in_both_views() -> None:
    file = LOGS / "provider-unsupported-model" / "near_miss.log"
    for answer in (views.explain_log(file), views.triage_log(file)):
        assert (answer.verdict, answer.boundary, answer.rule, answer.confidence) == ("Fail", "provider", "", "medium")


def test_a_rules_own_advice_takes_precedence_over_that_of_its_boundary() -> None:
    """checkpoint-damaged and checkpoint errors without a rule share a boundary."""
    follow_up = SIGNATURES.steps.follow_ups["checkpoint"][-1]
    known = views.triage_log(examples("checkpoint-damaged", "positive")[0])
    assert (known.boundary, known.limitation) == ("checkpoint", "") and "an interrupted save" in known.follow_up
    frame = 'Traceback (most recent call last):\n  File "/m/megatron/core/dist_checkpointing/x.py", line 1, in save\n    y()\n'
    unknown = explained("step:1 - actor/loss:0.5\n" + frame + "odd.StrangeError: nobody knows me\n")
    assert (unknown.boundary, unknown.rule) == ("checkpoint", "")
    assert unknown.next == f'save at /m/megatron/core/dist_checkpointing/x.py:1 ("y()"); then {filled(follow_up.run, {})}'


def test_no_placeholder_is_left_in_what_a_boundary_proposes() -> None:
    frame = 'Traceback (most recent call last):\n  File "/q/own.py", line 1, in wait\n    y()\n'
    unknown = explained("step:1 - actor/loss:0.5\n" + frame + "odd.StrangeError: timed out\n")
    assert "py-spy" in unknown.next and "{" not in unknown.next


def test_secrets_in_the_evidence_are_masked() -> None:
    assert "hunter2" not in explained("RuntimeError: login failed, password=hunter2hunter2\n").evidence


def test_the_text_of_both_views_names_phase_and_confidence_in_the_same_words() -> None:
    file = examples("disk-full", "positive")[0]
    texts = views.show_explanation(views.explain_log(file)), views.show_triage(views.triage_log(file))
    for text in texts:
        assert "before the model was built" in text and "disk-full (confidence: high)" in text


@pytest.mark.parametrize("rule", IDS)
def test_every_rule_matches_its_examples_and_not_its_near_misses(rule: str) -> None:
    assert examples(rule, "positive"), f"{rule}: no log in tests/unit/logs/{rule} matches it"
    assert examples(rule, "near_miss"), f"{rule}: no near miss in tests/unit/logs/{rule}"
    for file in examples(rule, "positive"):
        found = views.explain_log(file)
        assert found.rule == rule, f"{file}: {found}"
        assert found.evidence and found.advice and found.next
        assert found.verdict == "Pass" or found.where.startswith(str(file)), "residual text after a whole run"
        assert "{" not in found.advice + found.next, f"a placeholder was not filled: {found.advice} / {found.next}"
    for file in examples(rule, "near_miss"):
        assert views.explain_log(file).rule != rule, f"{file}: {views.explain_log(file)}"


def test_every_folder_of_examples_belongs_to_a_rule() -> None:
    assert {folder.name for folder in LOGS.iterdir()} == set(IDS)


def test_a_rule_that_matches_nothing_fails_the_check_of_examples() -> None:
    """Without its words, a rule no longer matches its own examples."""
    rules = [msgspec.structs.replace(rule, any=["text of no log"], exception="") for rule in SIGNATURES.rules]
    dead = msgspec.structs.replace(SIGNATURES, rules=rules)
    assert explained(examples("disk-full", "positive")[0].read_text(), rules=dead).rule == ""


def test_the_first_cause_in_time_wins_over_a_later_one() -> None:
    full, nan = "cp: x: No space left on device\n", "step:1 - actor/grad_norm:nan\n"
    memory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    assert explained(full + memory).rule == "disk-full"
    assert explained(memory + full).rule == "gpu-memory-at-start"
    assert explained(nan + full).rule == "disk-full", "a later error takes precedence over a warning"


def test_a_cause_takes_precedence_over_its_effects_in_any_order() -> None:
    effect = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    cause = "OSError: [Errno 28] No space left on device\n"
    assert explained(effect + "plain line\n" + cause).rule == "disk-full"
    assert explained(ROOT + effect).evidence == "odd.StrangeError: nobody knows me"
    alone = explained(effect)
    assert (alone.rule, alone.confidence) == ("actor-died", "low")


def test_an_unknown_error_is_the_last_distinct_one_with_its_place_and_boundary() -> None:
    again = ROOT.replace("odd.StrangeError: nobody knows me", "odd.OtherError: second")
    found = explained(ROOT + "text\n" + again + "text\n" + again)
    assert (found.verdict, found.rule, found.evidence, found.confidence) == ("Fail", "", "odd.OtherError: second", "low")
    assert (found.file, found.line, found.where) == ("/opt/tool/main.py", 10, "x.log:13"), "a repeated error is not a new one"
    vllm = explained(ROOT.replace("/opt/tool/main.py", "/opt/vllm/v1/engine.py"))
    assert (vllm.verdict, vllm.rule, vllm.boundary) == ("Blocked", "", "rollout engine"), "judged by whose code raised it"


def test_a_chain_of_exceptions_is_explained_by_the_first() -> None:
    for words in (
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
    ):
        chain = ROOT + f"\n{words}\n\n" + ROOT.replace("odd.StrangeError: nobody knows me", "RuntimeError: it did not work")
        assert explained(chain).evidence == "odd.StrangeError: nobody knows me"
    second = ROOT.replace("odd.StrangeError: nobody knows me", "OSError: [Errno 28] No space left on device")
    assert explained(ROOT + f"\n{words}\n\n" + second).rule == "disk-full", "a known exception explains more than an unknown one"


def test_exceptions_of_other_processes_are_found_inside_rays_own() -> None:
    text = """Traceback (most recent call last):
  File "/opt/tool/main.py", line 10, in main
    ray.get(x)
ray.exceptions.RayTaskError(KeyError): ray::TaskRunner.run() (pid=1, ip=10.0.0.1)
  File "/opt/tool/runner.py", line 20, in run
    ray.get(y)
ray.exceptions.RayTaskError(KeyError): ray::WorkerDict.init_model() (pid=2, ip=10.0.0.2)
  File "/opt/tool/worker.py", line 30, in init_model
    table[name]
KeyError: 'odd'
"""
    found = explained(text)
    assert (found.evidence, found.file, found.line) == ("KeyError: 'odd'", "/opt/tool/worker.py", 30)
    created = """Traceback (most recent call last):
  File "/opt/tool/main.py", line 10, in main
    ray.get(x)
ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task, ray::A.__init__() (pid=1)
           ^^^^^^^^^
  File "/opt/tool/actor.py", line 40, in __init__
    raise ValueError("mine")
ValueError: mine
(A pid=1) Exception raised in creation task: The actor died because of an error raised in its creation task, ray::A.__init__()
(A pid=1)   File "/opt/tool/actor.py", line 40, in __init__
(A pid=1)     raise ValueError("mine")
(A pid=1) ValueError: mine
"""
    found = explained(created)
    assert (found.evidence, found.file, found.line, found.where) == ("ValueError: mine", "/opt/tool/actor.py", 40, "x.log:8")


def test_tracebacks_of_several_processes_are_separated_by_prefix_despite_colours() -> None:
    def said(source: str, text: str) -> list[str]:
        return [f"\x1b[36m({source}, ip=10.0.0.1)\x1b[0m {line}\n" for line in text.splitlines()]

    other = ROOT.replace("odd.StrangeError: nobody knows me", "OSError: [Errno 28] No space left on device")
    mixed = [line for pair in zip(said("A pid=1", ROOT), said("B pid=2", other), strict=True) for line in pair]
    found = explained("".join(mixed))
    assert (found.rule, found.file, found.line, found.where) == ("disk-full", "/opt/tool/main.py", 10, "x.log:12")


@pytest.mark.parametrize(
    "prefix",
    [
        "(WorkerDict pid=1, ip=10.0.0.1) ",
        "(vLLMHttpServer pid=5) (EngineCore_DP0 pid=6) ERROR 01-31 10:00:00 [core.py:845] ",
        "[rank3]: ",
        "12: ",
        "2026-01-31T10:00:00.123Z ",
        "(MegatronPolicyWorker[rank=0] pid=2) ",
        "(OwnWorker(reference-0) pid=3, ip=10.0.0.2) ",
        "(MapWorker(MapBatches(own)) pid=4) ",
        "[1,7]<stderr>:",
        "Sat Jan 31 10:20:30 2026[1,7]<stdout>:",
        "[1,mpirank:7,algo-1]<stderr>:",
        "worker-1: ",
        "worker-1: [rank3]: ",
        "10.0.0.4: ",
        "[pod/own-trainer-0/pytorch] ",
        "Jan 31 10:20:30 node7 python[77]: ",
        "2026-01-31T10:20:30.123456789+00:00 stderr F ",
        "[2026-01-31 10:20:30,123][own.train][ERROR] - ",
        "(pid=77) ",
        "#9 11.09 ",
    ],
)
def test_a_traceback_is_understood_behind_every_usual_prefix(prefix: str) -> None:
    found = explained("".join(f"{prefix}{line}\n" for line in ROOT.splitlines()))
    assert (found.evidence, found.file, found.line) == ("odd.StrangeError: nobody knows me", "/opt/tool/main.py", 10)


def test_a_traceback_behind_a_progress_bar_and_one_cut_off_are_understood() -> None:
    assert explained("Training Progress:  25%|##  | 1/4 [00:14<00:42]" + ROOT).evidence == "odd.StrangeError: nobody knows me"
    cut = explained("".join(ROOT.splitlines(keepends=True)[:3]))
    assert (cut.verdict, cut.file, cut.line) == ("Unknown", "/opt/tool/main.py", 10)


def test_an_error_in_pytest_output_gets_its_place() -> None:
    found = explained("E       odd.StrangeError: nobody knows me\n\ntests/test_provider.py:12: StrangeError\n")
    assert (found.evidence, found.file, found.line) == ("odd.StrangeError: nobody knows me", "tests/test_provider.py", 12)


def test_an_error_that_the_run_outlived_is_not_the_cause() -> None:
    steps = "".join(f"step:{step} - actor/loss:0.1\n" for step in (1, 2, 3))
    full = "OSError: [Errno 28] No space left on device\n"
    assert explained(full + steps).verdict == "Unknown"
    assert explained(steps + full).rule == "disk-full"
    late = explained(full + steps + full)
    assert (late.where, late.step) == ("x.log:5", 3), "the error that it did not outlive"
    outlived = explained(ROOT + steps)
    assert outlived.verdict == "Unknown" and outlived.advice.startswith("The run went on after an error that it survived")
    first = explained(ROOT + "step:1 - actor/loss:0.1\n")
    assert first.verdict == "Unknown", "a step proves that all was built"
    assert explained(steps + ROOT + "step:4 - actor/loss:0.1\n").verdict == "Fail", "one step may have been in progress"


MISSING = ROOT.replace("odd.StrangeError: nobody knows me", "ModuleNotFoundError: No module named 'tideglass'")


@pytest.mark.parametrize("warning", ["WARNING:root:Could not import it", "WARNING 11-03 10:00:10 [a.py:21] Failed to import it"])
def test_a_module_that_is_missing_by_a_warning_is_the_cause_only_where_nothing_else_is(warning: str) -> None:
    warned = f"{warning}\n{MISSING}INFO:root:loading\n"
    assert explained(warned).rule == "missing-module"
    assert explained(warned + ROOT).evidence == "odd.StrangeError: nobody knows me"
    assert explained(warned + ROOT.replace("nobody knows me", "tideglass is wanted")).rule == "missing-module"
    later = MISSING.replace("tideglass", "brinepan")
    assert explained(warned + later).evidence == "ModuleNotFoundError: No module named 'brinepan'"
    slurm = "srun: error: node1: task 0: Exited with exit code 1\n"
    assert explained(warned + slurm).rule == "missing-module", "which only reports that it ended"
    loud = warned.replace("WARNING", "ERROR")
    assert explained(loud + ROOT).rule == "missing-module", "an error is more than a warning"
    steps = "".join(f"step:{step} - actor/loss:0.{step}\n" for step in (1, 2, 3))
    assert explained(warned + steps).advice.startswith("The run went on after an error that it survived")


def script(error: str, *, line: int = 3, then: str = "") -> str:
    return f'Traceback (most recent call last):\n  File "main.py", line {line}, in <module>\n    work()\n{then}{error}\n'


def test_a_script_that_an_import_or_its_syntax_ends_was_started_again_if_it_came_further_before_or_after() -> None:
    first, second = (
        "ModuleNotFoundError: No module named 'tideglass'",
        "ImportError: libfoam.so.2: cannot open it",
    )
    syntax = "  File \"main.py\", line 40\n    x = (\n        ^\nSyntaxError: '(' was never closed\n"
    again = explained(script(first) + "Job 7: exited\n" + script(second))
    assert again.where == "x.log:9" and "This is about the last of 2 runs in the log. An earlier one failed" in again.advice
    assert explained(script(first) + script(first) + script("odd.StrangeError: other ranks")).rule == "missing-module"
    assert explained(script(first) + script(second).replace("main.py", "other.py")).rule == "missing-module"
    steps = "".join(f"step {step}/4: loss=2.{step}\n" for step in (1, 2, 3, 4)) + "training finished\n"
    assert explained(script(first) + script(second) + steps).verdict == "Unknown"
    changed = explained(script("odd.StrangeError: of before", line=20) + syntax + syntax)
    assert changed.evidence.startswith("SyntaxError") and "the last of 2 runs" in changed.advice
    assert "runs in the log" not in explained(syntax + syntax).advice


def test_a_python_without_its_script_was_started_again() -> None:
    missing = "/usr/bin/python: can't open file 'trian.py': [Errno 2] No such file or directory\n"
    assert explained(missing).rule == "script-missing"
    again = explained(missing + script("odd.StrangeError: nobody knows me"))
    assert again.evidence == "odd.StrangeError: nobody knows me" and "the last of 2 runs" in again.advice


def test_a_script_that_refused_its_options_was_started_again() -> None:
    refused = "usage: main.py [-h]\nmain.py: error: unrecognized arguments: --bits 2\n"
    assert explained(refused).rule == "command-line-refused"
    again = explained(refused + script("odd.StrangeError: nobody knows me"))
    assert again.evidence == "odd.StrangeError: nobody knows me" and "the last of 2 runs" in again.advice
    other = explained(refused + script("odd.StrangeError: nobody knows me").replace("main.py", "other.py"))
    assert other.rule == "command-line-refused"


def test_an_error_that_ended_an_earlier_program_of_the_log_does_not_fail_the_one_that_reached_its_end() -> None:
    steps = "".join(f"step {step}/4: loss=2.{step}\n" for step in (1, 2, 3, 4)) + "training finished\n"
    frame = '  File "/e/site-packages/torch/nn/modules/module.py", line 9, in _call_impl\n    x()\n'
    shapes = script("RuntimeError: The size of tensor a (3) must match the size of tensor b (4)", then=frame)
    assert explained(steps).verdict == "Pass"
    rank = explained(steps.replace("step 2/4", f"{shapes}step 2/4"))
    assert rank.verdict == "Fail", "one of several processes ended in the middle of the steps"
    only = explained(shapes + steps)
    assert only.verdict == "Fail" and "that it survived" in only.advice, "a script may print what it caught"
    imports = script("ModuleNotFoundError: No module named 'tideglass'") + script("ImportError: libfoam.so.2: cannot open it")
    earlier = explained(imports + shapes + steps)
    assert earlier.verdict == "Unknown" and "an earlier program or start" in earlier.advice
    inner = explained(shapes.replace("in <module>", "in call") + steps)
    assert inner.verdict == "Fail" and "that it survived" in inner.advice
    assert "that it survived" in explained(shapes.replace("main.py", "/v/verl/main.py") + steps).advice


def test_a_batch_that_a_server_tries_again_smaller_is_no_error() -> None:
    smaller = "srv  update_slots: failed to find free space in the KV cache, retrying with smaller batch size, i = 0\n"
    slot = "decode: failed to find a memory slot for batch of size 2048\nsrv  try_clear_id: purging slot 2 with 1518 tokens\n"
    assert explained(slot).verdict == "Blocked"
    assert explained(slot + smaller).verdict == "Unknown"


def test_a_command_that_failed_is_explained_by_what_it_printed() -> None:
    frame = '  File "/usr/lib/python3.12/subprocess.py", line 571, in run\n    raise CalledProcessError(retcode, process.args,\n'
    failed = script("subprocess.CalledProcessError: Command 'make' returned non-zero exit status 1.", then=frame)
    assert explained(ROOT + failed).evidence == "odd.StrangeError: nobody knows me"
    assert explained(failed).evidence.startswith("subprocess.CalledProcessError")
    captured = failed.replace("in run", "in check_output")
    assert explained(ROOT + captured).evidence.startswith("subprocess.CalledProcessError"), "its output is not in the log"


def test_the_phase_decides_between_blocked_and_fail() -> None:
    error = 'Traceback (most recent call last):\n  File "/opt/x.py", line 1, in y\n    z\nNotImplementedError: both at once\n'
    assert explained(error).verdict == "Blocked"
    assert explained("Qwen2ForCausalLM contains 1.5B parameters\n" + error).verdict == "Fail"


LEFTOVER = "resource_tracker: There appear to be 3 leaked shared_memory objects to clean up at shutdown\n"


def test_residual_text_after_success_does_not_change_the_pass_and_is_named() -> None:
    done = "step:1 - actor/loss:0.2\nstep:2 - actor/loss:0.1\nTraining Progress: 100%|####| 2/2 [00:14<00:00]\n"
    assert (explained(done + LEFTOVER).verdict, explained(done).verdict) == ("Pass", "Pass")
    assert explained(LEFTOVER).verdict == "Noise", "without a run"
    assert explained(LEFTOVER + ROOT).verdict == "Fail", "an error takes precedence over noise"
    assert explained("nothing to see\n").verdict == "Unknown"


def test_an_error_is_found_wherever_the_log_is_cut_into_pieces() -> None:
    text = ("x" * 80 + "\n").encode() * 50 + ROOT.encode() + b"last line without an end"
    whole = diagnose.diagnose([Scan(SIGNATURES, "x").read([text])], SIGNATURES, {})
    assert (whole.log, whole.line) == ("x", 56)
    for size in (1, 7, 100, 1000):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert diagnose.diagnose([Scan(SIGNATURES, "x").read(pieces)], SIGNATURES, {}) == whole


def test_a_line_without_end_is_read_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "CHUNK", 1000)
    pieces = [b"y" * 700] * 10 + [b"\n", ROOT.encode()]
    assert diagnose.diagnose([Scan(SIGNATURES, "x").read(pieces)], SIGNATURES, {}).line == 7


@pytest.mark.parametrize("programs", ["rg", "grep", "none"])
def test_a_large_file_has_the_same_answer_whatever_searches_it(
    programs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only grep is on every host; the same test with rg runs where that is installed."""
    real = shutil.which
    if programs == "rg" and not real("rg"):
        pytest.skip("rg is not installed")
    monkeypatch.setattr(shutil, "which", lambda name: real(name) if name in programs.split() else None)
    monkeypatch.setattr(finished, "LONGEST", 0)  # a large file is not judged by its last words
    steps = "".join(
        f"(TaskRunner pid=1) step:{step} - actor/loss:0.{step} - training/global_step:{step}\n" for step in range(1, 40)
    )
    middle = steps.index("(TaskRunner pid=1) step:20 ")
    logs = [*ALL_LOGS[::30], *sorted((Path(__file__).parent / "healthy").glob("*.log"))]
    end = "Training Progress: 100%|####| 39/39 [00:14<00:00]\n"
    lost = steps.replace("step:20 - ", "step:21 - ") + end
    zeros = re.sub(r"loss:0.\d+ (?=.*step:(?:[4-9]|\d\d)\n)", "grad_norm:0.0 ", steps) + end
    nan = steps.replace("loss:0.20 ", "loss:nan ") + end
    texts = [steps + end, lost, zeros, nan, steps[:middle] + ROOT + steps[middle:], steps + ROOT, ROOT + steps]
    texts += ["Loading the first part\n" + ROOT + "Loading the first part\n" + steps]  # another attempt
    texts += [log.read_text() for log in logs]
    for text in texts:
        (tmp_path / "x.log").write_text(text)
        monkeypatch.setattr(scan, "LARGE", 1 << 40)
        small = diagnose.of_log(tmp_path / "x.log")
        monkeypatch.setattr(scan, "LARGE", 0)
        for size in (1 << 20, 600):
            monkeypatch.setattr(scan, "CHUNK", size)
            assert diagnose.of_log(tmp_path / "x.log") == small
        monkeypatch.setattr(scan, "CHUNK", 1 << 20)


def test_zeros_that_fill_a_log_are_no_text_and_hide_none(tmp_path: Path) -> None:
    error = (
        b'Traceback (most recent call last):\n  File "x.py", line 3, in <module>\nOSError: [Errno 28] No space left on device\n'
    )
    for zeros in (bytes(8), bytes(5000), bytes(3 << 20)):
        for text in (zeros + error, error + zeros, b"begins\n" + zeros + b"\n" + error, b"1/9\0\0\r2/9\0\n" + error):
            (tmp_path / "x.log").write_bytes(text)
            assert views.explain_log(tmp_path / "x.log").rule == "disk-full", (len(zeros), text[:20])


def test_a_target_that_is_not_a_text_is_refused_with_one_message(tmp_path: Path) -> None:
    for content, message in (
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"abc\0def", "is not text"),
        (b"\x1f\x8b\x08abc", "is not text"),
    ):
        file = tmp_path / "x.log"
        file.write_bytes(content)
        with pytest.raises(BadInput, match=message):
            views.explain_log(file)
    with pytest.raises(BadInput, match="cannot read"):
        views.explain_log(tmp_path / "none")
    with pytest.raises(BadInput, match="is a folder"):
        views.explain_log(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "disk-full"}, "duplicate rule"),
        ({"any": [], "exception": ""}, "needs 'any' or 'exception'"),
        ({"regex": "("}, "is not a regular expression"),
        ({"frames": "x", "exception": ""}, "'frames', 'raised_in' and 'innermost' need 'exception'"),
        ({"effect_of": ["disk-full", "no-such-rule"]}, "'effect_of' names no rule: no-such-rule"),
        ({"phase": ["nowhere"]}, "'nowhere' is not one of"),
    ],
)
def test_a_mistake_in_the_signatures_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    shutil.copytree(FOLDER, tmp_path / "signatures")
    rule = msgspec.to_builtins(next(rule for rule in SIGNATURES.rules if rule.id == "read-only"))
    file = tmp_path / "signatures" / "rules" / "99_own.yaml"
    file.write_text(json.dumps({"rules": [rule | {"id": "own-rule"} | change]}))
    with pytest.raises(BadInput, match=f"{file}.*{message}" if "regular" not in message else message):
        signatures.load(tmp_path / "signatures")


def test_a_missing_file_of_the_signatures_is_named(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "signatures")
    (tmp_path / "signatures" / "reading.yaml").unlink()
    with pytest.raises(BadInput, match=r"cannot read .*/reading\.yaml: No such file"):
        signatures.load(tmp_path / "signatures")


def test_a_lines_level_is_recognised() -> None:
    cases = {
        "2026-01-31 10:00:00,100 INFO worker.py:9 -- Connecting": "INFO",
        "[2026-01-31 10:00:00,100 E 12 34] (raylet) node_manager.cc:30: gone": "ERROR",
        "[rank0]:[W1120 10:00:00.1 ProcessGroupNCCL.cpp:1] leak": "WARNING",
        "WARNING:megatron.bridge: no": "WARNING",
        "ERROR 01-31 10:00:00 [core.py:8] gone": "ERROR",
        "plain": "",
    }
    assert {text: log_lines.clean(text.encode(), 1).level for text in cases} == cases
    assert log_lines.clean(b"x.py:1: UserWarning: ModuleNotFoundError: No module named 'y'", 1).quiet


# -- jobs


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return job_folder.claim(SharedRoot(tmp_path), Result(submission_id="job1", workload="ppo", state="CLAIMED"))


def ended(state: job_folder.State = "FAILED", reason: str = "the trainer ended with exit code 1") -> Result:
    return Result(
        submission_id="job1",
        workload="ppo",
        state=state,
        reason=reason,
        started_at="2026-01-31T10:00:00.000Z",
        ended_at="2026-01-31T10:05:00.000Z",
    )


def bundle(folder: JobFolder, **files: object) -> None:
    place = folder.debug / "20260131T100500.000Z-failed"
    place.mkdir()
    for name, content in files.items():
        (place / f"{name}.json").write_text(json.dumps(content))


DIED_AT_MS = 1_769_853_720_000
"""2026-01-31T10:02:00Z."""


HEALTHY = (Path(__file__).parent / "healthy" / "verl_ppo.log").read_text()


def test_a_job_that_succeeded_or_was_stopped_has_nothing_to_explain(folder: JobFolder) -> None:
    assert views.explain_job(folder, ended("SUCCEEDED", "")).verdict == "Pass", "without a log"
    for log in (HEALTHY, HEALTHY + LEFTOVER, "my own trainer: done\n", "step:1 - actor/pg_loss:0.1\n"):
        folder.driver_log.write_text(log)
        assert views.explain_job(folder, ended("SUCCEEDED", "")).verdict == "Pass"
    folder.driver_log.write_text(ROOT)
    assert views.explain_job(folder, ended("STOPPED", "stopped on request")).verdict == "Skipped"


@pytest.mark.parametrize(
    ("log", "verdict", "evidence"),
    [
        (ROOT + HEALTHY, "Unknown", "nobody knows me"),
        (HEALTHY + ROOT, "Unknown", "nobody knows me"),
        (ROOT.replace("/opt/", "/opt/megatron/bridge/") + HEALTHY, "Fail", "nobody knows me"),
        (HEALTHY.replace("step:2 - ", "step:1 - "), "Unknown", "step"),
        (re.sub(r"(?<=actor/pg_loss:)[^ ]+", "nan", HEALTHY, count=1), "Fail", "pg_loss"),
        ("megatron.bridge imported from /opt/x/site-packages/megatron/bridge/__init__.py\n" + HEALTHY, "Blocked", "imported"),
    ],
)
def test_a_log_that_contradicts_a_jobs_success_is_told(folder: JobFolder, log: str, verdict: str, evidence: str) -> None:
    folder.driver_log.write_text(log)
    view = views.explain_job(folder, ended("SUCCEEDED", ""))
    assert (view.verdict, evidence in view.evidence) == (verdict, True), view


def test_a_jobs_log_explains_it(folder: JobFolder) -> None:
    folder.driver_log.write_text("cp: x: No space left on device\n")
    found = views.explain_job(folder, ended())
    assert (found.verdict, found.rule, found.where) == ("Blocked", "disk-full", "logs/driver.log:1")


def test_a_dead_node_in_a_bundle_explains_an_effect_in_the_log(folder: JobFolder) -> None:
    folder.driver_log.write_text("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n")
    node = {"node_ip": "10.0.0.9", "state": "DEAD", "state_message": "health check failed", "end_time_ms": DIED_AT_MS}
    bundle(folder, nodes=[node, node | {"state": "ALIVE"}])
    found = views.explain_job(folder, ended())
    assert (found.rule, found.whose) == ("node-died", "environment")
    assert "10.0.0.9" in found.evidence and found.where.endswith("-failed/nodes.json:1")


@pytest.mark.parametrize("used", [True, False])
def test_a_dead_node_explains_a_job_in_training_if_it_used_that_node(folder: JobFolder, used: bool) -> None:
    steps = "".join(f"step:{step} - actor/pg_loss:0.1 - critic/rewards/mean:0.5\n" for step in range(1, 11))
    folder.driver_log.write_text(f"{steps}RuntimeError: Read error [127.0.0.1]:59553: Connection reset by peer\n")
    node = {"node_id": "n1", "state": "DEAD", "state_message": "health check failed", "end_time_ms": DIED_AT_MS}
    actor = {"job_id": "02", "node_id": "n1" if used else "n2"}
    bundle(folder, nodes=[node], job=[{"job_id": "02"}], actors=[actor])
    found = views.explain_job(folder, ended())
    assert (found.verdict, found.rule) == (("Blocked", "node-died") if used else ("Fail", "peer-gone"))
    assert (found.phase, found.step) == ("train", 10)


def test_a_head_that_did_not_answer_at_the_end_explains_a_trainer_that_said_nothing(folder: JobFolder) -> None:
    folder.driver_log.write_text("step:1 - critic/rewards/mean:0.5\n")
    silent = {"file": None, "error": "Blocked: the Ray cluster does not answer at http://10.0.0.1:8265: Connection refused"}
    bundle(folder, bundle={"items": {"nodes": silent, "jobs": silent}})
    found = views.explain_job(folder, ended("FAILED", "the trainer ended with exit code 1"))
    assert (found.verdict, found.boundary, found.rule) == ("Blocked", "cluster", "head-lost")
    folder.driver_log.write_text("step:1 - critic/rewards/mean:0.5\nValueError: mine\n")
    assert views.explain_job(folder, ended()).rule != "head-lost"


def test_a_job_that_dies_after_its_log_reports_the_end_is_explained_by_what_ended_it(folder: JobFolder) -> None:
    folder.driver_log.write_text("Training Progress: 100%|##########| 20/20 [00:30<00:00]\n")
    reason = "Job supervisor actor died: The actor died because its node has died. health check failed"
    found = views.explain_job(folder, ended("FAILED", reason))
    assert (found.verdict, found.rule, found.whose) == ("Blocked", "node-died", "environment")
    assert views.explain_job(folder, ended("FAILED", "exit code 1")).verdict == "Unknown"


def test_a_node_that_was_dead_when_the_job_was_submitted_explains_nothing(folder: JobFolder) -> None:
    node = {"node_id": "n1", "node_ip": "10.0.0.9", "state": "DEAD", "end_time_ms": DIED_AT_MS}
    bundle(folder, nodes=[node])
    assert views.explain_job(folder, ended()).rule == "node-died"
    before = folder.debug / "20260131T100000.000Z-submitted"
    before.mkdir()
    (before / "nodes.json").write_text(json.dumps([node]))
    assert views.explain_job(folder, ended()).rule == ""


def test_an_actor_that_was_not_needed_any_more_explains_nothing(folder: JobFolder) -> None:
    death = {"actor_died_error_context": {"error_message": "The actor is dead because all references to the actor were removed."}}
    bundle(folder, job=[{"job_id": "02"}], actors=[{"job_id": "02", "death_cause": death}])
    assert views.explain_job(folder, ended()).rule == ""


KILLED_ACTOR = "The actor is dead because its worker process has died. Worker exit type: {} Worker exit detail: {}"


@pytest.mark.parametrize("kind", ["INTENDED_USER_EXIT", "INTENDED_SYSTEM_EXIT", "SYSTEM_ERROR"])
def test_a_killed_trainer_is_the_cause_of_the_actors_that_end_with_it(folder: JobFolder, kind: str) -> None:
    folder.driver_log.write_text("step:1 - critic/rewards/mean:0.5\n")
    death = {"actor_died_error_context": {"error_message": KILLED_ACTOR.format(kind, "Worker exits with the job's driver.")}}
    bundle(folder, job=[{"job_id": "02"}], actors=[{"job_id": "02", "death_cause": death}])
    killed = views.explain_job(folder, ended(reason="the trainer was killed by SIGKILL"))
    assert (killed.verdict, killed.boundary, killed.rule) == ("Blocked", "host", "trainer-killed")
    failed = views.explain_job(folder, ended())
    assert failed.rule == ("worker-process-died" if kind == "SYSTEM_ERROR" else "")


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("RuntimeError: Read error [127.0.0.1]:59553: Connection reset by peer", True),
        ("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.", True),
        ("ValueError: mine", False),
        ("torch.OutOfMemoryError: CUDA out of memory.", False),
        ("health check failed due to missing too many heartbeats", False),
    ],
)
def test_only_an_effect_of_a_lost_node_makes_one_likely(folder: JobFolder, text: str, may: bool) -> None:
    folder.driver_log.write_text(f"step:1 - critic/rewards/mean:0.5\n{text}\n")
    assert job_evidence.may_have_lost_a_node(folder, ended()) == may


def test_a_node_that_died_long_before_the_job_explains_nothing(folder: JobFolder) -> None:
    node = {"node_ip": "10.0.0.9", "state": "DEAD", "state_message": "health check failed", "end_time_ms": DIED_AT_MS - 7_200_000}
    bundle(folder, nodes=[node])
    assert views.explain_job(folder, ended()).rule == ""


def test_only_this_jobs_actors_count(folder: JobFolder) -> None:
    oom = {"oom_context": {"error_message": "Task was killed due to the node running low on memory."}}
    actors = [{"job_id": "02000000", "death_cause": oom}]
    bundle(folder, job=[{"job_id": "01000000"}], actors=actors)
    assert views.explain_job(folder, ended()).rule == ""
    (folder.debug / "20260131T100500.000Z-failed" / "job.json").write_text(json.dumps([{"job_id": "02000000"}]))
    assert views.explain_job(folder, ended()).rule == "node-memory"


def test_a_workers_own_log_in_a_bundle_explains_the_end_of_its_actor(folder: JobFolder) -> None:
    folder.driver_log.write_text("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n")
    bundle(folder)
    logs = folder.debug / "20260131T100500.000Z-failed" / "hosts" / "worker-0" / "ray-logs"
    logs.mkdir(parents=True)
    (logs / "worker-1-2-3.err").write_text(ROOT)
    (logs / "monitor.log").write_text("OSError: [Errno 98] Address already in use\n")  # of the node, not of the job
    found = views.explain_job(folder, ended())
    assert (found.evidence, found.where.partition("/hosts/")[2]) == (
        "odd.StrangeError: nobody knows me",
        "worker-0/ray-logs/worker-1-2-3.err:6",
    )


def test_a_blocked_job_explains_itself(folder: JobFolder) -> None:
    problem = "driver: cannot import verl: ModuleNotFoundError: No module named 'codetiming'"
    folder.precheck.write_text(json.dumps({"problems": [problem]}))
    found = views.explain_job(folder, ended("BLOCKED", problem))
    assert (found.verdict, found.rule) == ("Blocked", "missing-module") and "codetiming" in found.advice
    folder.precheck.write_text(json.dumps({"problems": ["no alive Ray node offers worker_node"]}))
    found = views.explain_job(folder, ended("BLOCKED", "no alive Ray node offers worker_node"))
    assert (found.verdict, found.evidence) == ("Blocked", "no alive Ray node offers worker_node")


def test_the_reason_alone_explains_a_job_without_any_log(folder: JobFolder) -> None:
    killed = views.explain_job(folder, ended(reason="the trainer was killed by SIGKILL"))
    assert (killed.rule, killed.where) == ("trainer-killed", "result.json:1") and "job1" in killed.next
    gone = views.explain_job(folder, ended(reason="the Ray cluster that ran it is gone"))
    assert gone.rule == "cluster-gone"
    silent = views.explain_job(folder, ended(reason="the trainer ended with exit code 7"))
    assert (silent.verdict, silent.evidence) == ("Unknown", "the trainer ended with exit code 7")


def test_a_job_that_failed_is_not_a_pass_whatever_its_log_reports(folder: JobFolder) -> None:
    folder.driver_log.write_text("Training Progress: 100%|####| 2/2 [00:14<00:00]\n")
    found = views.explain_job(folder, ended(reason="the trainer ended with exit code 9"))
    assert (found.verdict, found.evidence) == ("Unknown", "the trainer ended with exit code 9")


@pytest.mark.parametrize("file", sorted(LOGS.glob("*memory*/positive.log")), ids=lambda file: file.parent.name)
def test_no_odd_number_of_a_failure_prevents_an_answer(file: Path, tmp_path: Path) -> None:
    explain_with_odd_numbers(tmp_path, file.read_text())


def test_damaged_evidence_is_skipped(folder: JobFolder) -> None:
    folder.driver_log.write_text(ROOT)
    place = folder.debug / "20260131T100500.000Z-failed"
    place.mkdir()
    for name in ("nodes", "actors", "job"):
        (place / f"{name}.json").write_text('[{"cut')
    assert views.explain_job(folder, ended()).evidence == "odd.StrangeError: nobody knows me"
