"""Kinds of logs whose last word is not their loudest: servers that came up, launchers that succeeded, notices, excerpts."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from triaging import triaged

from mvp_helpers.base.errors import BadInput
from mvp_helpers.diagnosis import scan, signatures, views
from mvp_helpers.diagnosis.answer import filled
from mvp_helpers.log_text.log_lines import LONGEST_LINE

READY = "INFO:     Application startup complete.\n"
REFUSED = "ERROR 01-31 10:20:30 [attention.py:7] backend X is not supported on this GPU\n"
GONE = "[2026-01-31 10:20:30] SIGTERM received. Shutting down...\n"
RAISED = (
    'Traceback (most recent call last):\n  File "/opt/lib/python3.12/site-packages/vllm/worker.py", line 7, in run\n    x()\n'
)
NOTICE = "/x.py:1: FutureWarning: Tip: Ray will no longer override accelerator visible devices env var\n"
BUILT = "Model config after override: Qwen\n"
VALIDATED = "step:{} - actor/pg_loss:0.1 - actor/grad_norm:0.5 - training/global_step:{}\n"


@pytest.mark.parametrize("first, second", [("", ""), ("(EngineCore_DP0 pid=7) ", "(APIServer pid=3) ")])
def test_what_a_server_called_an_error_before_it_was_ready_is_no_cause(tmp_path: Path, first: str, second: str) -> None:
    assert triaged(tmp_path, first + REFUSED).verdict == "Blocked"
    ready = triaged(tmp_path, f"{first}{REFUSED}{second}{READY}")
    assert (ready.verdict, ready.evidence) == ("Unknown", "no error was found, and no end of a run")
    stopped = triaged(tmp_path, f"{first}{REFUSED}{second}{READY}{GONE}")
    assert (stopped.verdict, stopped.boundary) == ("Blocked", "outside")


@pytest.mark.parametrize("error", ["ImportError: libx.so.13: cannot open shared object file", "ValueError: too small", ""])
@pytest.mark.parametrize("level, verdict", [("WARNING", "Unknown"), ("ERROR", "Blocked")])
def test_a_traceback_that_is_only_a_warning_does_not_count_once_the_server_serves(
    tmp_path: Path, error: str, level: str, verdict: str
) -> None:
    prefix = f"(EngineCore pid=7) {level} 07-03 04:42:04 [import_utils.py:408] "
    logged = "".join(f"{prefix}{line}\n" for line in f"{RAISED}{error}".splitlines())
    after = "(EngineCore pid=7) INFO 07-03 04:42:14 [worker.py:66] Graph capturing finished in 11 secs\n"
    assert triaged(tmp_path, f"{logged}{after}(APIServer pid=3) {READY}").verdict == verdict
    assert triaged(tmp_path, f"{logged}{after}").verdict == "Blocked"


def test_what_a_programs_own_hook_prints_is_the_exception_if_its_traceback_is_cut_off(tmp_path: Path) -> None:
    log = 'Uncaught ZeroDivisionError: division by zero\nTraceback (most recent call last):\n  File "/u/run.py", line 5, in fit\n'
    assert triaged(tmp_path, log).evidence == "ZeroDivisionError: division by zero"


def test_what_ended_rays_workers_comes_before_their_absence(tmp_path: Path) -> None:
    absent = "(raylet) [2023-02-27 22:59:41,974 E 69 69] (raylet) worker_pool.cc:502: Some workers of the worker process(6) "
    absent += "have not registered within the timeout. The process is dead, probably it crashed during start.\n"
    died = "".join(f"(raylet) {line}\n" for line in f"{RAISED}OSError: /opt/_raylet.so: undefined symbol: _Py_X".splitlines())
    assert triaged(tmp_path, absent).rule == "workers-never-register"
    assert triaged(tmp_path, absent + died).rule == "binary-mismatch"


WARNED = (
    "[WARNING|2026-03-26 08:17:49] logging.py:148 >> No metric loss to plot.\n",
    "train.py:196: FutureWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated.\n  scaler = torch.cuda.amp.GradScaler()\n",
    "WARNING 01-31 10:20:30 [config.py:9] Casting torch.float32 to torch.bfloat16.\n",
)


@pytest.mark.parametrize("warning", WARNED)
def test_warnings_are_noise_only_where_the_log_says_little_more(tmp_path: Path, warning: str) -> None:
    noise = triaged(tmp_path, f"2 files are read\n{warning}the loader waits\n")
    assert (noise.verdict, noise.boundary) == ("Noise", "startup") and noise.evidence in warning.replace("\n", " ")
    assert triaged(tmp_path, warning + "the loader waits for rank 3\n" * 9).verdict == "Unknown"
    assert triaged(tmp_path, warning + BUILT).verdict == "Unknown"
    assert triaged(tmp_path, warning + RAISED + "ValueError: too small\n").evidence == "ValueError: too small"


STARTED = "deploy: 2026-01-31 10:20:{} starting the deployment of a model\n"


def test_the_first_line_of_a_log_begins_another_run_when_it_comes_again_after_an_error(tmp_path: Path) -> None:
    failed = RAISED + "ValueError: too small\n"
    again = triaged(
        tmp_path, STARTED.format(1) + failed + STARTED.format(2) + RAISED + "OSError: [Errno 98] Address already in use\n"
    )
    assert again.evidence == "OSError: [Errno 98] Address already in use" and "ValueError: too small" in again.advice
    assert triaged(tmp_path, STARTED.format(1) + failed + STARTED.format(2) + READY).verdict == "Unknown"


def test_a_first_line_that_several_processes_print_begins_no_other_run(tmp_path: Path) -> None:
    several = "".join(STARTED.format(rank) for rank in range(1, 9))
    failed = RAISED + "ValueError: too small\n"
    assert triaged(tmp_path, several + failed + STARTED.format(9) + READY).evidence == "ValueError: too small"


def test_a_failed_test_is_judged_by_the_exception_below_its_short_traceback(tmp_path: Path) -> None:
    answer = triaged(
        tmp_path,
        "===== test session starts =====\ntests/test_lora.py::test_mask FAILED [ 54%]\n_____ test_mask _____\n"
        "tests\\test_lora.py:198: in test_mask\n    mask = adapter.mask(1)\nown\\lora.py:347: in mask\n    return self.limit\n"
        "C:\\py\\site-packages\\torch\\nn\\modules\\module.py:1928: in __getattr__\n    raise AttributeError(\n"
        "E   AttributeError: 'Adapter' object has no attribute 'limit'\n===== 1 failed, 30 passed in 0.67s =====\n",
    )
    assert (answer.verdict, answer.evidence) == ("Fail", "AttributeError: 'Adapter' object has no attribute 'limit'")


def test_a_server_that_is_ready_excuses_neither_an_exception_nor_another_program(tmp_path: Path) -> None:
    assert triaged(tmp_path, RAISED + "ValueError: too small\n" + READY).evidence == "ValueError: too small"
    assert triaged(tmp_path, "(WorkerDict pid=9) " + REFUSED + "(APIServer pid=3) " + READY).evidence in REFUSED


@pytest.mark.parametrize("prefix", ["", "2026-01-31 10:20:30,123\tSUCC cli.py:66 -- "])
def test_an_error_before_a_launcher_reports_success_is_no_proof_of_failure(tmp_path: Path, prefix: str) -> None:
    error = "(Worker pid=7) " + RAISED.replace("\n", "\n(Worker pid=7) ") + "ValueError: too small\n"
    assert triaged(tmp_path, error).verdict == "Blocked"
    answer = triaged(tmp_path, f"{error}{prefix}Job 'raysubmit_7' succeeded\n")
    assert (answer.verdict, answer.evidence) == ("Unknown", "ValueError: too small")


def test_a_notice_at_the_start_is_all_there_is_only_if_the_run_did_not_go_on(tmp_path: Path) -> None:
    assert triaged(tmp_path, NOTICE).verdict == "Noise"
    assert triaged(tmp_path, NOTICE + BUILT).verdict == "Unknown"


def test_noise_at_the_end_of_a_server_is_not_all_there_is(tmp_path: Path) -> None:
    noise = "[rank0]:[W1 ProcessGroupNCCL.cpp:7] Warning: WARNING: destroy_process_group() was not called before program exit\n"
    assert triaged(tmp_path, noise).verdict == "Noise"
    assert triaged(tmp_path, READY + noise).verdict == "Unknown"


def test_a_server_without_an_error_is_not_to_blame_but_its_clients_may_be(tmp_path: Path) -> None:
    answer = triaged(tmp_path, READY + "INFO:     Application shutdown complete.\n")
    assert (answer.verdict, answer.boundary) == ("Unknown", "")
    assert "became ready" in answer.advice and "sent the requests" in answer.follow_up


def test_tests_that_fail_within_a_run_that_ends_well_are_no_pass(tmp_path: Path) -> None:
    log = "".join(f" iteration {n}/ 2 | consumed samples: {n} | lm loss: 2.0E+00 | grad norm: 1.0 |\n" for n in (1, 2))
    end = "[after training is done] datetime: 2026-01-31 10:20:30\n"
    assert triaged(tmp_path, log + end).verdict == "Pass"
    answer = triaged(tmp_path, "0:   FAIL: test_gate\n0: Some tests FAILED.\n" + log + end)
    assert (answer.verdict, answer.boundary) == ("Fail", "test")


def test_a_signal_to_a_launcher_gives_way_to_an_exception_before_it(tmp_path: Path) -> None:
    signal = "W0131 10:20:30.000000 7 torch/elastic/api.py:7] Received 15 death signal, shutting down workers\n"
    frame = '0: [default0]:[rank0]:   File "/m/megatron/core/scheduler.py", line 7, in __init__\n'
    first = f"0: [default0]:[rank0]: Traceback (most recent call last):\n{frame}0: [default0]:[rank0]: AssertionError\n"
    assert triaged(tmp_path, first + signal).evidence == "AssertionError"
    assert triaged(tmp_path, signal + first).boundary == "outside"


def test_nothing_is_known_of_a_run_that_only_imports_a_module(tmp_path: Path) -> None:
    frame = '  File "/m/megatron/core/tensor_parallel/{}.py", line 7, in {}\n    x()\n'
    text = "Traceback (most recent call last):\n{}AttributeError: module 'rope' has no attribute 'x'\n"
    assert triaged(tmp_path, text.format(frame.format("__init__", "<module>"))).phase == "start"
    assert triaged(tmp_path, text.format(frame.format("layers", "__init__"))).phase == "build"


@pytest.mark.parametrize("package, boundary", [("referencing", "dependency"), ("ray", "dependency"), ("verl", "trainer")])
def test_a_package_that_fails_while_it_is_imported_does_not_fit_the_environment(
    tmp_path: Path, package: str, boundary: str
) -> None:
    ray = '  File "/e/lib/python3.12/site-packages/ray/__init__.py", line 7, in <module>\n    import x\n'
    frame = f'  File "/e/lib/python3.12/site-packages/{package}/typing.py", line 7, in <module>\n    x()\n'
    error = "KeyError: 'y'\n"
    assert triaged(tmp_path, f"Traceback (most recent call last):\n{ray}{frame}{error}").boundary == boundary


def test_a_traceback_that_is_logged_as_a_list_names_its_exception(tmp_path: Path) -> None:
    lines = ["Traceback (most recent call last):\n", '  File "/m/t.py", line 7, in step\n', "RuntimeError: odd size [4, 7]\n"]
    answer = triaged(tmp_path, "iteration 7/ 9 | consumed samples: 7 | lm loss: 2.0 |\nWARNING:core: odd\n" + f"{lines}\n")
    assert (answer.verdict, answer.evidence) == ("Fail", "RuntimeError: odd size [4, 7]")


def test_an_actor_that_only_reports_a_failure_of_another_is_not_the_cause(tmp_path: Path) -> None:
    frame = '  File "/e/lib/python3.12/site-packages/monarch/_src/actor/future.py", line 7, in get\n    x()\n'
    actor = f"Traceback (most recent call last):\n{frame}monarch.actor.ActorError: Actor call trainer.push failed.\n"
    assert triaged(tmp_path, RAISED + "ValueError: too small\n\n" + actor).evidence == "ValueError: too small"
    alone = triaged(tmp_path, actor)
    assert (alone.boundary, alone.confidence) == ("launcher", "low")


def test_an_attribute_that_a_trainers_own_class_lacks_speaks_against_its_code(tmp_path: Path) -> None:
    answer = triaged(tmp_path, "AttributeError: 'PolicyTrainActor' object has no attribute 'mesh'\n")
    assert (answer.verdict, answer.boundary) == ("Fail", "trainer")
    answer = triaged(tmp_path, "AttributeError: 'LLMEngine' object has no attribute 'mesh'\n")
    assert (answer.verdict, answer.boundary) == ("Blocked", "dependency")


@pytest.mark.parametrize(
    "file, call, verdict, boundary",
    [
        ("torch/distributed/device_mesh.py", "self._init_process_groups", "Blocked", "network"),
        ("torch/distributed/device_mesh.py", "self._flatten", "Fail", "parallel state"),
        ("deepspeed/utils/nvtx.py", "func", "Fail", "training"),
    ],
)
def test_a_traceback_cut_off_in_a_library_is_judged_by_the_library(
    tmp_path: Path, file: str, call: str, verdict: str, boundary: str
) -> None:
    frame = f'  File "/opt/lib/python3.12/site-packages/{file}", line 7, in work\n    {call}()\n'
    answer = triaged(tmp_path, "Traceback (most recent call last):\n" + frame)
    assert (answer.verdict, answer.boundary) == (verdict, boundary)


def test_a_notice_of_pip_gives_way_to_what_ended_the_run(tmp_path: Path) -> None:
    pip = "ERROR: alpha 0.3 requires beta<1.0, but you have beta 1.1 which is incompatible.\nSuccessfully installed beta-1.1\n"
    srun = "srun: error: Unable to create step for job 7: Invalid generic resource (gres) specification\n"
    answer = triaged(tmp_path, pip + srun)
    assert (answer.boundary, answer.evidence) == ("Slurm", srun.strip())
    assert "--gres" in answer.follow_up
    assert triaged(tmp_path, pip).boundary == "dependency"


def test_an_exception_cut_off_above_the_code_that_raised_is_judged_by_the_call(tmp_path: Path) -> None:
    wrapper = "ray.exceptions.RayTaskError(NotImplementedError): ray::Runner.run() (pid=7)\n"
    frame = '  File "/v/verl/trainer/ray_trainer.py", line 7, in _validate\n    scores = self.{}(batch)\n'
    cut = triaged(tmp_path, wrapper + frame.format("val_reward_fn"))
    assert (cut.verdict, cut.boundary) == ("Fail", "reward model")
    whole = triaged(tmp_path, wrapper + frame.format("work") + "NotImplementedError: not with these options\n")
    assert whole.boundary == "config"


@pytest.mark.parametrize(
    "call, boundary",
    [
        ("connect_rollout_engines", "refit"),
        ("async_init_weight_update_connections", "refit"),
        ("backward_step", "training"),
        ("forward_backward_pipelining", "training"),
    ],
)
def test_the_call_at_which_an_excerpt_ends_gives_the_boundary(tmp_path: Path, call: str, boundary: str) -> None:
    frame = f'  File "/m/megatron/core/pipeline_parallel/schedules.py", line 7, in step\n    out = {call}(\n'
    answer = triaged(tmp_path, "Traceback (most recent call last):\n" + frame)
    assert (answer.verdict, answer.boundary) == ("Fail", boundary)


def test_a_kernel_that_cannot_be_compiled_is_no_evidence_against_the_code_under_test(tmp_path: Path) -> None:
    frame = RAISED.replace("in run", "in execute_model")
    answer = triaged(tmp_path, frame + "torch._inductor.exc.InductorError: RuntimeError: PassManager::run failed\n")
    assert (answer.verdict, answer.boundary) == ("Blocked", "dependency")
    answer = triaged(tmp_path, frame + "torch._inductor.exc.InductorError: OutOfMemoryError: HIP out of memory\n")
    assert answer.boundary != "dependency"


@pytest.mark.parametrize("call", ["forward_thread_func_", "forward_batch_generation", "run_batch"])
def test_memory_that_runs_out_while_the_engine_generates_is_a_failure_of_the_run(tmp_path: Path, call: str) -> None:
    frame = f'  File "/opt/lib/python3.12/site-packages/sglang/srt/managers/worker.py", line 7, in {call}\n    x()\n'
    answer = triaged(tmp_path, "Traceback (most recent call last):\n" + frame + "RuntimeError: CUDA error: out of memory\n")
    assert (answer.verdict, answer.boundary) == ("Fail", "rollout engine")


def test_a_plain_key_that_an_engine_lacks_is_no_weight(tmp_path: Path) -> None:
    assert "versions" in triaged(tmp_path, RAISED + "KeyError: 'weight_version'\n").follow_up
    assert "weights" in triaged(tmp_path, RAISED + "KeyError: 'layers.1.weight'\n").follow_up


def test_a_reward_model_that_does_not_load_is_checked_alone(tmp_path: Path) -> None:
    answer = triaged(tmp_path, RAISED.replace("vllm/worker", "own/rewards") + "ValueError: cannot load the reward model\n")
    assert answer.boundary == "reward model" and "value head" in answer.follow_up


def test_a_gated_repository_needs_a_token_and_no_path(tmp_path: Path) -> None:
    answer = triaged(tmp_path, "OSError: You are trying to access a gated repo.\n401 Client Error.\nCannot access gated repo\n")
    assert (answer.verdict, answer.boundary) == ("Blocked", "model hub")
    assert "token" in answer.follow_up


def test_the_final_validation_is_an_end_that_needs_every_step_before_it(tmp_path: Path) -> None:
    final = "(\"Final validation metrics: {'val-core/acc': 0.9}\")\n"
    steps = [VALIDATED.format(step, step) for step in range(1, 5)]
    assert triaged(tmp_path, "".join(steps) + final).verdict == "Pass"
    assert triaged(tmp_path, "".join(steps[:2] + steps[3:]) + final).verdict == "Unknown"
    assert triaged(tmp_path, "".join(steps)).verdict == "Unknown"
    assert triaged(tmp_path, final).verdict == "Unknown"


@pytest.mark.parametrize(
    "error, evidence, boundary",
    [("AssertionError: odd", "AssertionError: odd", "rollout engine"), ("BrokenPipeError: gone (Broken pipe)", "", "memory")],
)
def test_a_kill_after_an_exception_explains_it_only_if_it_is_an_effect(
    tmp_path: Path, error: str, evidence: str, boundary: str
) -> None:
    answer = triaged(tmp_path, f"{RAISED}{error}\n\nKilled\n")
    assert answer.boundary == boundary and answer.evidence == (evidence or error)


ENGINE = "(EngineCore_DP0 pid=7) "
HANDLER = "/e/lib/python3.12/site-packages/vllm/entrypoints/openai/serving_chat.py"


def request_failed(error: str) -> str:
    logger = "ERROR 01-31 10:20:30 [serving_chat.py:7] "
    lines = ("Cannot answer", "Traceback (most recent call last):", f'  File "{HANDLER}", line 7, in create', error)
    return "".join(f"{logger}{line}\n" for line in lines)


def test_a_request_that_a_server_refuses_does_not_end_the_server(tmp_path: Path) -> None:
    refused = request_failed("ValueError: maximum context length is 64 tokens")
    answer = triaged(tmp_path, READY + refused)
    assert (answer.verdict, answer.boundary, answer.rule) == ("Unknown", "rollout engine", "")
    assert "maximum context length" in answer.evidence and "fewer max_tokens" in answer.follow_up
    assert "what the client sent" in triaged(tmp_path, READY + request_failed("ValueError: odd words")).follow_up
    later = triaged(
        tmp_path, READY + refused + f"{ENGINE}torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
    )
    assert (later.verdict, later.boundary, later.rule) == ("Blocked", "rollout engine", "illegal-memory-access")
    assert triaged(tmp_path, READY + RAISED + "ValueError: too small\n").verdict == "Blocked"


def test_a_kernel_that_fails_in_an_engine_alone_is_not_of_the_training(tmp_path: Path) -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    said = "[rank1]:[E131 10:20:30.123456789 shim.cpp:7] Exception in aoti_torch: CUDA out of memory.\n"
    for log in (ENGINE + error, READY + said):
        answer = triaged(tmp_path, log)
        assert (answer.verdict, answer.boundary) == ("Blocked", "rollout engine")
    assert triaged(tmp_path, error).boundary == "memory"
    assert triaged(tmp_path, VALIDATED.format(1, 1) + ENGINE + error).verdict == "Fail"


def test_how_an_engine_ends_that_was_told_to_stop_is_no_cause(tmp_path: Path) -> None:
    stop = f"{ENGINE}INFO 01-31 10:20:30 [core.py:7] [shutdown] EngineCore: trigger received signal=SIGTERM\n"
    dead = "(APIServer pid=3) vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n"
    assert triaged(tmp_path, READY + dead).boundary == "rollout engine"
    assert triaged(tmp_path, READY + stop + dead).evidence == "no error was found, and no end of a run"
    assert triaged(tmp_path, READY + stop + RAISED + "ValueError: too small\n").evidence == "ValueError: too small"
    assert triaged(tmp_path, READY + dead + stop).boundary == "rollout engine"


@pytest.mark.parametrize(
    "remark",
    [
        "ERROR:2026-01-31 10:20:30,123:git root error: Cmd('git') failed due to: exit code(128)\n",
        "ERROR 01-31 10:20:30 [fa_utils.py:7] Cannot use FA version 2 is not supported\n",
        "Failed to ask the driver for the size. Falling back to the usual size.\n",
        "57.858 [I] Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so (57:xla_bridge.py:752)\n",
        "Could not fetch URL https://index.example/simple/pip/: no answer - skipping\n",
        "ERROR 01-31 10:20:30 [repo_utils.py:47] Error retrieving safetensors: Repo id must use other characters\n",
        '2026/01/31 10:20:30 ERROR main: failed to get logger path error="mkdir /home/u/.cache/wandb: permission denied"\n',
    ],
)
def test_what_a_program_does_without_is_no_error(tmp_path: Path, remark: str) -> None:
    assert triaged(tmp_path, remark).evidence == "no error was found, and no end of a run"
    assert triaged(tmp_path, remark + RAISED + "ValueError: too small\n").evidence == "ValueError: too small"


def test_a_cause_that_only_resembles_such_a_remark_counts(tmp_path: Path) -> None:
    git = "git.exc.GitCommandError: Cmd('git') failed due to: exit code(128)\n"
    assert triaged(tmp_path, git).line == 1
    assert triaged(tmp_path, "Failed to ask the driver for the size.\n").line == 1


@pytest.mark.parametrize(
    "frame, boundary",
    [
        ("/u/train_lora.py", "data"),
        ("/u/lora_of_mine.py", "data"),
        ("/b/src/megatron/bridge/peft/lora_layers.py", "PEFT"),
        ("/e/lib/python3.12/site-packages/vllm/lora/models.py", "rollout engine"),
    ],
)
def test_a_script_that_is_called_after_lora_is_not_the_part_that_fails(tmp_path: Path, frame: str, boundary: str) -> None:
    error = "OSError: cannot read the dataset's sound\n"
    answer = triaged(tmp_path, f'Traceback (most recent call last):\n  File "{frame}", line 7, in load\n    x()\n{error}')
    assert answer.boundary == boundary


def test_a_script_that_does_not_parse_is_the_users(tmp_path: Path) -> None:
    text = '0:   File "/u/bench.py", line 7\n0:     two words (4)\n0:         ^^^^^\n0: SyntaxError: invalid syntax\n'
    answer = triaged(tmp_path, text)
    assert (answer.verdict, answer.boundary) == ("Fail", "user code")
    assert "py_compile" in answer.follow_up
    answer = triaged(tmp_path, BUILT + VALIDATED.format(1, 1) + text)
    assert answer.boundary != "user code"


def test_an_old_checkpoint_that_cannot_be_removed_is_of_the_saving(tmp_path: Path) -> None:
    frames = ("/m/openrlhf/trainer/sft_trainer.py", 7, "fit"), ("/m/openrlhf/utils/deepspeed.py", 8, "save_ckpt")
    text = "".join('  File "{}", line {}, in {}\n    x()\n'.format(*frame) for frame in frames)
    answer = triaged(tmp_path, f"Traceback (most recent call last):\n{text}FileNotFoundError: [Errno 2] '/c/old'\n")
    assert (answer.verdict, answer.boundary) == ("Fail", "checkpoint")
    assert "at the same time" in answer.follow_up


def test_an_error_after_which_the_program_says_that_it_falls_back_is_no_cause(tmp_path: Path) -> None:
    error = "2026-01-31 10:20:30,123 - __main__ - ERROR - Failed to copy the table\n"
    instead = "2026-01-31 10:20:30,125 - __main__ - INFO - Falling back to an empty table\n"
    assert triaged(tmp_path, error).line == 1
    assert triaged(tmp_path, error + instead).line is None
    assert triaged(tmp_path, error + "WARNING: odd table, falling back on the old one\n").line is None
    assert triaged(tmp_path, error + "cannot tell whether falling back helps\n").line == 1
    assert triaged(tmp_path, error + "INFO: other work\n" + instead).line == 1
    assert triaged(tmp_path, RAISED + "ValueError: too small\n" + instead).evidence == "ValueError: too small"


def test_an_error_of_samples_that_comes_often_while_steps_are_done_is_no_cause(tmp_path: Path) -> None:
    sample = "(Worker pid=7) ValueError: sample {} has no answer: xyz {}\n(Worker pid=7) INFO:     next\n"
    log = "".join(VALIDATED.format(step, step) + "".join(sample.format(n, step) for n in range(4)) for step in (1, 2, 3))
    assert triaged(tmp_path, log).verdict == "Unknown"
    assert triaged(tmp_path, VALIDATED.format(1, 1) + sample.format(1, 1) * 8).verdict == "Fail"
    assert triaged(tmp_path, log + RAISED + "KeyError: 'x'\n").evidence == "KeyError: 'x'"
    assert triaged(tmp_path, log.replace("\n(Worker pid=7) ValueError", "\n(Worker pid=7) INFO", 10)).verdict == "Fail"


SPANS = "ERROR [opentelemetry.sdk.trace.export] Exception while exporting Span.\n"
RETRIES = "[no run ID] Retry attempt failed:\n"
LOGGING = "10it [00:07,  1.39it/s]--- Logging error ---\n"
READER = "Exception in thread Thread-2 (_readerthread):\n"


IGNORED = "Exception ignored in: <function Tracker.__del__ at 0x1>\n"


@pytest.mark.parametrize("announced", [SPANS, RETRIES, LOGGING, READER, IGNORED])
def test_an_announcement_excuses_its_own_traceback_alone(tmp_path: Path, announced: str) -> None:
    harmless = announced + RAISED + "AttributeError: 'NoneType' object has no attribute 'info'\n"
    assert "AttributeError" not in triaged(tmp_path, harmless + "INFO went on\n").evidence
    other = harmless + "INFO: went on\n" + RAISED + "KeyError: 'x'\n"
    assert triaged(tmp_path, other).evidence == "KeyError: 'x'"
    assert triaged(tmp_path, announced + "INFO: went on\n" + RAISED + "KeyError: 'x'\n").evidence == "KeyError: 'x'"
    again = harmless + "INFO: went on\n" + RAISED + "AttributeError: 'NoneType' object has no attribute 'info'\n"
    assert triaged(tmp_path, again).evidence.startswith("AttributeError"), "a traceback of its own"


def test_a_part_of_an_ignored_traceback_between_lines_of_another_process_is_ignored_too(tmp_path: Path) -> None:
    begins = "1: Exception ignored in atexit callback: <function tune at 0x1>\n1: Traceback (most recent call last):\n"
    frames = '1:   File "/q/tune.py", line 4, in tune\n1:     replace()\n'
    error = "1: FileNotFoundError: [Errno 2] No such file or directory: '/q/a.tmp' -> '/q/a'\n"
    assert triaged(tmp_path, begins + begins + frames + error + "1: \n" + frames + error).line is None


def test_what_comes_after_a_launchers_report_does_not_explain_what_came_before(tmp_path: Path) -> None:
    failed = "[rank0]: " + "\n[rank0]: ".join((RAISED + "AssertionError: logits must be gathered").splitlines()) + "\n"
    report = "E0101 10:00:00.000000 7 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 0\n"
    later = RAISED + "ModuleNotFoundError: No module named 'export'\n"
    assert triaged(tmp_path, failed + report + later).evidence == "AssertionError: logits must be gathered"
    assert triaged(tmp_path, failed + later).rule == "missing-module", "without the report a known cause explains more"


def test_steps_that_are_counted_from_0_are_complete_with_the_last_but_one_number(tmp_path: Path) -> None:
    lines = [f"step:{step} - actor/loss:0.5 - actor/grad_norm:1.0\n" for step in range(3)]
    end = "'Final validation metrics: None'\n"
    total = "Total steps: 3, num_warmup_steps: 0\n"
    assert triaged(tmp_path, total + "".join(lines) + end).verdict == "Pass"
    assert triaged(tmp_path, total + "".join(lines[:2]) + end).verdict == "Unknown"
    assert triaged(tmp_path, total + "".join(lines[1:]) + end).verdict == "Unknown", "from 1 on, one step is missing"
    assert triaged(tmp_path, total + lines[0] + lines[2] + end).verdict == "Unknown"


SCHEDULER = "/opt/lib/python3.12/site-packages/vllm/v1/core/sched/scheduler.py"


def test_of_a_time_out_without_message_the_exception_after_it_says_what_was_waited_for(tmp_path: Path) -> None:
    frame = f'Traceback (most recent call last):\n  File "{SCHEDULER}", line 7, in wait\n    raise TimeoutError\n'
    after = "\nThe above exception was the direct cause of the following exception:\n\n"
    answer = triaged(tmp_path, f"{frame}TimeoutError\n{after}{frame}TimeoutError: RPC call to sample_tokens timed out.\n")
    assert answer.evidence == "TimeoutError: RPC call to sample_tokens timed out."


def test_code_that_asks_an_object_for_what_it_does_not_have_is_where_the_error_is(tmp_path: Path) -> None:
    text = (
        'Traceback (most recent call last):\n  File "/q/verl/utils/dataset/rl_dataset.py", line 9, in __getitem__\n    t.grid\n'
        '  File "/opt/lib/python3.12/site-packages/transformers/tokenization_utils_base.py", line 5, in __getattr__\n    raise\n'
        "AttributeError: SomeTokenizerFast has no attribute grid.\n"
    )
    assert triaged(tmp_path, text).boundary == "data"


def test_activation_checkpointing_is_no_checkpoint(tmp_path: Path) -> None:
    text = (
        'Traceback (most recent call last):\n  File "/q/own/initialize.py", line 9, in setup_activation_checkpointing\n'
        "    decode(path)\nodd.PaddingError: Incorrect padding\n"
    )
    assert triaged(tmp_path, text).boundary != "checkpoint"
    assert triaged(tmp_path, text.replace("setup_activation_checkpointing", "load_checkpoint")).boundary == "checkpoint"


def test_a_server_that_is_started_again_is_another_run(tmp_path: Path) -> None:
    begins = "(APIServer pid=7) INFO 09-30 18:28:54 [api_server.py:1896] vLLM API server version 0.10.2\n"
    answer = triaged(tmp_path, begins + RAISED + "ValueError: x\n" + begins + READY)
    assert answer.verdict == "Unknown" and "last of 2 runs" in answer.advice


def test_what_aborts_a_process_is_the_cause_and_not_that_it_was_aborted(tmp_path: Path) -> None:
    memory = "terminate called after throwing an instance of 'c10::OutOfMemoryError'\n  what():  NPU out of memory. Tried 4 GiB\n"
    watchdog = "[rank0]:[E1 ProcessGroupNCCL.cpp:6] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)\n"
    aborted = "Fatal Python error: Aborted\n"
    assert triaged(tmp_path, memory + aborted).rule == "gpu-memory-said"
    assert triaged(tmp_path, watchdog + aborted).rule == "nccl-watchdog"
    assert triaged(tmp_path, aborted).rule == "crash"


def test_a_logger_before_the_end_of_megatron_does_not_hide_it(tmp_path: Path) -> None:
    step = "iteration 1/ 1 | consumed samples: 4 | lm loss: 2.1E+00 | grad norm: 1.2 |\n"
    end = "[after training is done] datetime: 2026-01-31 10:00:00\n"
    assert triaged(tmp_path, step + "[utils.py:401] : " + end).verdict == triaged(tmp_path, step + end).verdict == "Pass"
    assert triaged(tmp_path, step + "waiting for " + end).verdict == "Unknown"


def test_megatron_may_log_only_each_step_that_its_options_say(tmp_path: Path) -> None:
    step = "iteration {}/ 20 | consumed samples: 4 | lm loss: 2.1E+00 | grad norm: 1.2 |\n"
    end = "[after training is done] datetime: 2026-01-31 10:00:00\n"
    says = "  log_interval ................... 10\n"
    assert triaged(tmp_path, says + step.format(10) + step.format(20) + end).verdict == "Pass"
    for lie in (
        step.format(10) + end,
        says + step.format(10) + end,
        says + step.format(20) + end,
        says + says.replace("10", "20") + step.format(20) + end,
        "tensorboard_" + says.strip() + "\n" + step.format(20) + end,
    ):
        assert triaged(tmp_path, lie).verdict == "Unknown", lie


def test_an_error_before_verls_bar_is_of_the_same_run_as_the_validation_before_it(tmp_path: Path) -> None:
    begins = "2026-01-31 10:00:00,000\tINFO worker.py:1 -- Started a local Ray instance.\n"
    validated, bar = "step:0 - val-core/x/mean@1:0.5\n", "Training Progress:   0%|          | 0/2 [00:00<?, ?it/s]\n"
    steps = "".join(f"step:{n} - actor/loss:0.5 - training/global_step:{n}\n" for n in (1, 2))
    end = "Training Progress: 100%|##| 2/2 [00:10<00:00, 5.0s/it]\n"
    assert triaged(tmp_path, begins + validated + bar + steps + end).verdict == "Pass"
    for log in (begins + RAISED + "OddError: x\n" + validated + bar, begins + validated + RAISED + "OddError: x\n" + bar):
        answer = triaged(tmp_path, log + steps + end)
        assert answer.verdict != "Pass" and "OddError: x" in answer.evidence, answer


def test_a_crash_is_placed_by_the_frames_of_its_own_thread(tmp_path: Path) -> None:
    dump = (
        "Fatal Python error: Segmentation fault\n\n"
        'Thread 0x00007f01 (most recent call first):\n  File "/usr/lib/python3.12/threading.py", line 320 in wait\n\n'
        'Current thread 0x00007f02 (most recent call first):\n  File "/q/own/kernel.py", line 81 in launch\n'
        '  File "/q/own/train.py", line 9 in main\n\nExtension modules: numpy.core (total: 1)\n'
    )
    for text in (dump, "".join(f"(A pid=7) {line}\n" for line in dump.splitlines())):
        answer = triaged(tmp_path, text)
        assert answer.rule == "crash" and answer.follow_up.startswith("/q/own/kernel.py:81: "), answer
        assert answer.boundary == "host"
        assert triaged(tmp_path, text.replace("/q/own/", "/q/vllm/")).boundary == "rollout engine"
    assert "PYTHONFAULTHANDLER" in triaged(tmp_path, dump.partition("\n")[0] + "\n").follow_up


@pytest.mark.parametrize("large", [False, True])
def test_what_was_said_to_be_missing_just_before_an_unknown_error_is_looked_at_first(
    large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "LARGE", 0 if large else scan.LARGE)
    error = 'Traceback (most recent call last):\n  File "/q/own/a.py", line 1, in load\n    a, b = read()\nOddError: two\n'
    said = "reading\nno checkpoint found in /d password=hunter2hunter2\n"
    answer = triaged(tmp_path, said + error)
    assert answer.follow_up.startswith('what the log says just before it ("no checkpoint found in /d'), answer
    assert "hunter2" not in answer.follow_up
    for other in ("reading\n", f"(A pid=7) {said.splitlines()[1]}\n", f"INFO:a:{said.splitlines()[1]}\n", said + "x\n" * 5):
        assert "just before" not in triaged(tmp_path, other + error).follow_up, other


def test_code_that_does_not_parse_is_placed_by_the_lines_above_its_error(tmp_path: Path) -> None:
    log = 'starting\n  File "/q/own/dpo.py", line 406\n    print(x)\n    ^\nIndentationError: unexpected indent\n'
    assert "/q/own/dpo.py:406" in triaged(tmp_path, log).follow_up
    assert "dpo.py" not in triaged(tmp_path, log.replace("    ^\n", "a\nb\nc\n")).follow_up


def test_a_function_that_only_refuses_is_followed_by_who_calls_it(tmp_path: Path) -> None:
    log = (
        'Traceback (most recent call last):\n  File "/q/own/main.py", line 9, in main\n    psnr(a, b)\n'
        '  File "/q/own/score.py", line 4, in psnr\n    raise ValueError("sizes differ")\nValueError: sizes differ\n'
    )
    answer = triaged(tmp_path, log)
    assert 'called by main at /q/own/main.py:9 ("psnr(a, b)")' in answer.follow_up, answer


def test_what_is_of_one_trainer_alone_is_said_only_of_its_logs(tmp_path: Path) -> None:
    graph = "RuntimeError: the graph has no end\n"
    own, other = (triaged(tmp_path, begin + RAISED + graph).follow_up for begin in ("verl: starts\n", "starts\n"))
    assert "actor_rollout_ref.rollout.enforce_eager" in own
    assert "enforce_eager" in other and "actor_rollout_ref" not in other


SET_UP = (
    'Traceback (most recent call last):\n  File "/q/own/train.py", line 90, in main\n    trainer.train()\n'
    '  File "/opt/venv/lib/python3.12/site-packages/transformers/trainer.py", line 2300, in _inner_training_loop\n    x()\n'
    '  File "/opt/venv/lib/python3.12/site-packages/transformers/trainer.py", line 900, in get_train_dataloader\n    x()\n'
    "ValueError: prefetch_factor option could only be specified in multiprocessing\n"
)


def test_what_a_trainer_sets_up_before_its_first_step_is_not_training(tmp_path: Path) -> None:
    assert (answer := triaged(tmp_path, SET_UP)).phase == "build" and answer.verdict == "Blocked", answer
    assert triaged(tmp_path, SET_UP.replace("get_train_dataloader", "training_step")).phase == "train"
    assert triaged(tmp_path, SET_UP.replace("_inner_training_loop", "main").replace("trainer.train", "start")).phase == "start"
    assert triaged(tmp_path, VALIDATED.format(1, 1).replace("step:1", "step:3") + SET_UP).verdict == "Fail"


def test_the_status_message_of_a_ray_job_says_why_it_failed(tmp_path: Path) -> None:
    log = (
        "2026-01-01 10:00:20,000 ERR cli.py:104 -- Job 'raysubmit_1' failed\n"
        "2026-01-01 10:00:20,000 INFO cli.py:118 -- Status message: {}\n"
    )
    answer = triaged(tmp_path, log.format("runtime_env setup failed: Failed to set up runtime environment."))
    assert answer.rule == "runtime-env-failed", answer
    answer = triaged(tmp_path, log.format("Job entrypoint command failed with exit code 1"))
    assert (answer.rule, answer.verdict) == ("ray-job-failed", "Unknown") and "ray job logs raysubmit_1 " in answer.follow_up, (
        answer
    )


def test_a_missing_package_is_installed_with_the_python_that_lacks_it(tmp_path: Path) -> None:
    log = (
        'Traceback (most recent call last):\n  File "/opt/envs/rl/lib/python3.12/site-packages/x.py", line 1, in f\n'
        "    import odd\nModuleNotFoundError: No module named 'odd'\n"
    )
    assert triaged(tmp_path, log).follow_up.startswith("/opt/envs/rl/bin/python3 -m pip install")
    assert triaged(tmp_path, log.replace("/opt/envs/rl/lib/python3.12/", "/home/me/.local/lib/python3.12/")).follow_up.startswith(
        "python -m pip install"
    )


def test_what_shares_a_line_with_a_bar_is_quoted_without_the_bar(tmp_path: Path) -> None:
    line = (
        "[2026-01-01 10:00:00,000] [INFO] [x.py:1:f] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 8, to 4\n"
    )
    assert triaged(tmp_path, " 20%|##  | 40/200 [01:00<04:00,  1.50s/it]" + line).evidence.startswith("[x.py")


def test_an_error_that_a_bar_was_drawn_over_before_counts(tmp_path: Path) -> None:
    step = "step:{} - actor/loss:0.5 - training/global_step:1"
    log = f"{step.format(1)}\n{step.format(2)}\rERROR: could not save the checkpoint: No space left on device\n{step.format(3)}\n"
    assert triaged(tmp_path, log).rule == "disk-full"


def test_an_error_of_cmake_is_quoted_with_what_it_says(tmp_path: Path) -> None:
    log = (
        "CMake Error at CMakeLists.txt:20 (find_package):\n  Could not find a package configuration file of NCCL\n\n"
        "-- Configuring incomplete, errors occurred!\n"
    )
    answer = triaged(tmp_path, log)
    assert (answer.rule, answer.line) == ("cmake-refused", 1) and answer.evidence.endswith("configuration file of NCCL"), answer


FOLLOW_UPS = {
    "huggingface_hub.errors.HfHubHTTPError: 504 for url: https://hf.co/api/complete_multipart?uploadId=7": "hf upload",
    "ConnectionError: Couldn't reach 'wikitext' on the Hub (OfflineModeIsEnabled)": "HF_HUB_OFFLINE",
    "MemoryError": "memory.max",
    "omegaconf.errors.ConfigTypeError: x": "--cfg job",
}


@pytest.mark.parametrize("error", FOLLOW_UPS)
def test_what_to_run_next_fits_the_error_within_its_boundary(error: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, RAISED + error + "\n")
    assert FOLLOW_UPS[error] in answer.follow_up, answer


def test_a_bar_that_grew_beyond_the_longest_line_is_read_at_its_end(tmp_path: Path) -> None:
    bar = "".join(f"\r {at // 16}%|##  | {at}/1600 [08:51<08:30,  1.58it/s]" for at in range(1600))
    limit = "slurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2026-02-16T02:25:58 DUE TO TIME LIMIT ***\n"
    assert len(bar) > LONGEST_LINE
    assert triaged(tmp_path, bar + limit).rule == "slurm-time-limit"


def test_an_exception_after_code_that_is_in_no_file_is_found(tmp_path: Path) -> None:
    text = (
        "  error: subprocess-exited-with-error\n      Traceback (most recent call last):\n"
        "        File \"<string>\", line 18, in <module>\n      ModuleNotFoundError: No module named 'packaging'\n"
        "      [end of output]\n"
    )
    assert triaged(tmp_path, text).rule == "missing-module", "the build's own report is an effect"


def test_an_exception_in_a_process_that_loads_data_is_of_the_data(tmp_path: Path) -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/lib/python3.12/site-packages/torch/utils/data/dataloader.py", line 7, in __next__\n    x()\n'
        "IndexError: Caught IndexError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
        '  File "/opt/lib/python3.12/site-packages/transformers/image_transforms.py", line 9, in group\n    y[0]\n'
        "IndexError: list index out of range\n"
    )
    answer = triaged(tmp_path, text)
    assert (answer.boundary, answer.evidence) == ("data", "IndexError: list index out of range")


def test_a_line_that_only_says_error_does_not_hide_an_exception_with_its_place(tmp_path: Path) -> None:
    assert triaged(tmp_path, RAISED + "KeyError: 'x'\nfinished\nError: the pod ended\n").evidence == "KeyError: 'x'"
    assert triaged(tmp_path, "Error: the pod ended\n").evidence == "Error: the pod ended"


def test_a_server_that_was_stopped_is_told_from_one_that_may_still_run(tmp_path: Path) -> None:
    served = "INFO:     Application startup complete.\n"
    assert "signal to stop" not in triaged(tmp_path, served).advice
    assert "signal to stop" in triaged(tmp_path, served + "(APIServer pid=7) INFO: trigger received signal=SIGTERM\n").advice


def test_each_run_of_a_sweep_is_one_of_its_own(tmp_path: Path) -> None:
    begins = "2026-03-19 09:31:40,304 - wandb.wandb_agent - INFO - Agent starting run with config:\n"
    answer = triaged(tmp_path, begins + RAISED + "KeyError: 'x'\n" + begins + RAISED + "ValueError: y\n")
    assert answer.evidence == "ValueError: y" and "last of 2 runs" in answer.advice


@pytest.mark.parametrize("step", ["step:10/2000 train_loss:6.9", "Epoch:[2/2](6789/6791) loss:1.803", "Iteration 19: loss=8.60"])
def test_a_step_of_a_loop_of_ones_own_shows_that_training_had_begun(tmp_path: Path, step: str) -> None:
    assert triaged(tmp_path, f"{step}\n").phase == "train"


def test_notices_are_not_what_a_log_with_much_else_says(tmp_path: Path) -> None:
    notice = (
        "Detected kernel version 3.10.0, which is below the recommended minimum of 5.5.0; this can cause the process to hang.\n"
    )
    assert triaged(tmp_path, notice).verdict == "Noise"
    assert triaged(tmp_path, notice + "reading rows\n" * 9).verdict == "Unknown"


def test_ctrl_c_is_shown_without_the_line_that_it_met(tmp_path: Path) -> None:
    assert triaged(tmp_path, RAISED + "KeyboardInterrupt\n").evidence == "KeyboardInterrupt"


NOTEBOOK = """---------------------------------------------------------------------------
SyntaxError                               Traceback (most recent call last)
File ~/envs/a/lib/python3.11/site-packages/somelib/patches.py:37
     36 try:
---> 37     exec(text, globals())

SyntaxError: invalid syntax (<string>, line 4)

During handling of the above exception, another exception occurred:

RuntimeError                              Traceback (most recent call last)
Cell In[1], line 6
      5 import os
----> 6 from somelib import Model

File ~/envs/a/lib/python3.11/site-packages/somelib/__init__.py:74
---> 74 from .models import *

RuntimeError: cannot patch
"""


def test_of_several_failing_tests_the_first_one_is_the_cause(tmp_path: Path) -> None:
    failure = (
        "____ test_{0} ____\n\n    def test_{0}():\n>       assert {0}()\nE       AssertionError: no {0}\n\n"
        "tests/a.py:7: AssertionError\n"
    )
    summary = "==== short test summary info ====\nFAILED tests/a.py::test_one - Asser...\n==== 2 failed in 6.82s ====\n"
    log = "==== FAILURES ====\n" + failure.format("one") + failure.format("two") + summary
    assert triaged(tmp_path, log).evidence == "AssertionError: no one"


def test_ctrl_c_after_an_exception_that_python_ignores_ends_a_run(tmp_path: Path) -> None:
    ignored = "Exception ignored in: <function Cache.__del__ at 0x7fa9>\nTraceback (most recent call last):\n"
    frame = '  File "/e/lib/python3.12/site-packages/torch/_dynamo/utils.py", line 589, in <lambda>\n'
    log = f"{ignored}{frame}KeyboardInterrupt: \n\n"
    assert triaged(tmp_path, log).boundary == ""
    answer = triaged(tmp_path, f"{log}KeyboardInterrupt\n\n")
    assert (answer.verdict, answer.boundary, answer.line) == ("Blocked", "outside", 6)


def test_an_engine_that_generates_was_built(tmp_path: Path) -> None:
    bar = "Processed prompts:   0%|          | 0/100 [00:00<?, ?it/s]\rProcessed prompts:   1%|          | 1/100 [00:20<33:54]\n"
    frame = (
        '  File "/e/lib/python3.12/site-packages/vllm/v1/core/sched/scheduler.py", line 7, in _update_after_schedule\n    x()\n'
    )
    raised = f"Traceback (most recent call last):\n{frame}KeyError: '61-ac222aad'\n"
    assert (triaged(tmp_path, raised).verdict, triaged(tmp_path, bar + raised).verdict) == ("Blocked", "Fail")


IN_AN_EDITOR = """---------------------------------------------------------------------------
{name}                          Traceback (most recent call last)
/work/with space/tune.ipynb Cell 5 line 1
    <a href='vscode-notebook-cell://lab.invalid/tune.ipynb#W3?line=17'>18</a> trainer = Trainer(model)
--> <a href='vscode-notebook-cell://lab.invalid/tune.ipynb#W3?line=18'>19</a> trainer.train()

File <frozen importlib._bootstrap>:688, in _load_unlocked(spec)

File c:\\Users\\One Two\\envs\\a\\lib\\site-packages\\transformers\\trainer.py:2548, in Trainer.train(self)
   2547 with context():
-> 2548     self.training_step(model)
   2550 # if loss is nan or inf simply add the average of previous logged losses
   2551 step()

{name}: {says}
"""


@pytest.mark.parametrize(
    ("name", "says", "verdict", "boundary"),
    [
        ("KeyboardInterrupt", "", "Blocked", "outside"),
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB.", "Fail", "memory"),
        ("ValueError", "nobody knows this", "Fail", "trainer"),
    ],
)
def test_the_traceback_of_a_notebook_in_an_editor_is_read_to_its_end(
    name: str, says: str, verdict: str, boundary: str, tmp_path: Path
) -> None:
    answer = triaged(tmp_path, IN_AN_EDITOR.format(name=name, says=says))
    assert (answer.verdict, answer.boundary) == (verdict, boundary) and answer.evidence.startswith(f"{name}: {says}".strip())


def test_what_fails_while_a_package_is_imported_is_its_dependency(tmp_path: Path) -> None:
    answer = triaged(tmp_path, NOTEBOOK)
    assert (answer.verdict, answer.boundary, answer.line) == ("Blocked", "dependency", 7)
    for tested in ("verl", "nemo_rl", "megatron"):
        assert triaged(tmp_path, NOTEBOOK.replace("somelib", tested)).boundary != "dependency", "code under test"
    own = NOTEBOOK.replace("envs/a/lib/python3.11/site-packages", "work")
    assert triaged(tmp_path, own).boundary != "dependency", "code of the user"


def test_a_package_that_a_module_of_ones_own_imports_is_a_dependency(tmp_path: Path) -> None:
    frame = '  File "{}", line 7, in {}\n    {}\n'
    own = frame.format("/q/t.py", "<module>", "import net") + frame.format(
        "/q/net.py", "<module>", "from flashlib import attention"
    )
    inner = frame.format("/e/lib/python3.12/site-packages/flashlib/__init__.py", "<module>", "check()") + frame.format(
        "/e/lib/python3.12/site-packages/flashlib/check.py", "check", "raise KeyError(name)"
    )
    raised = "Traceback (most recent call last):\n{}KeyError: 'odd'\n"
    assert triaged(tmp_path, raised.format(own + inner)).boundary == "dependency"
    assert (
        triaged(tmp_path, raised.format(own.replace("from flashlib import attention", "attention()") + inner)).boundary
        != "dependency"
    )


@pytest.mark.parametrize(
    ("data", "words"), [(b"\xff\xfe", "is empty"), (b"\xff\xfe\n\0", "is empty"), (b"\xff\xfe\0\0a\0\0\0", "not text")]
)
def test_what_only_begins_like_utf_16_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    log = tmp_path / "some.log"
    log.write_bytes(data)
    with pytest.raises(BadInput, match=words):
        views.triage_log(log)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_log_that_powershell_wrote_is_read(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "some.log"
    log.write_bytes(("\ufeff" + RAISED + "ModuleNotFoundError: No module named 'vllm'\n").encode(encoding))
    answer = views.triage_log(log)
    assert (answer.verdict, answer.boundary) == ("Blocked", "dependency")


def test_a_large_log_in_utf_16_is_read_without_a_search_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LARGE", 1)
    test_a_log_that_powershell_wrote_is_read(tmp_path, "utf-16-le")


def test_an_interrupt_that_lightning_handles_came_from_outside(tmp_path: Path) -> None:
    line = "/e/lightning/pytorch/trainer/call.py:54: Detected KeyboardInterrupt, attempting graceful shutdown...\n"
    answer = triaged(tmp_path, "Epoch 0:  30%|###  | 3/10 [00:01<00:01, train_loss=0.5]\n" + line)
    assert (answer.verdict, answer.boundary) == ("Blocked", "outside")


def test_an_internal_error_of_a_tracker_is_no_missing_login(tmp_path: Path) -> None:
    line = "wandb: ERROR Internal wandb error: file data was not synced\n"
    assert triaged(tmp_path, line + RAISED + "ValueError: too small\n").evidence == "ValueError: too small"


def test_a_metric_of_a_prediction_that_is_nan_is_no_healthy_end(tmp_path: Path) -> None:
    table = "***** predict metrics *****\n  predict_r@5      =      0.557\n  predict_r@25     =        {}\n"
    answer = triaged(tmp_path, table.format("nan"))  # which spoils no training
    assert (answer.verdict, "predict_r@25 is nan" in answer.evidence) == ("Unknown", True)
    assert triaged(tmp_path, table.format("nan").replace("predict_r@25", "predict_loss")).verdict == "Fail"
    assert triaged(tmp_path, table.format("0.6")).verdict == "Pass"
    assert triaged(tmp_path, "one training epoch\n" + table.format("0.6")).verdict == "Unknown"


def test_warnings_beside_the_losses_of_a_script_are_not_all_that_a_log_says(tmp_path: Path) -> None:
    warned = "/e/x.py:7: FutureWarning: this is deprecated\n  warn()\n" * 5
    assert triaged(tmp_path, warned).verdict == "Noise"
    assert triaged(tmp_path, warned + "Trial 1 --> Final Loss: 0.53\n").verdict == "Unknown"
    assert triaged(tmp_path, "    Num examples = 9 | Num Epochs = 4 | Total steps = 24\n" + warned).verdict == "Unknown"
    assert triaged(tmp_path, warned + "{'train/loss': np.float32(2.4), 'train/time': 9.1}\n").verdict == "Unknown"
    assert triaged(tmp_path, warned + "Warning: gradient norm 2691.8, skipping update\n").verdict == "Unknown"


def test_data_that_end_in_a_failed_test_are_those_of_the_test(tmp_path: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "/u/data/columns.py", line 7, in _find\n    next(found)\nStopIteration\n'
    assert triaged(tmp_path, raised).rule == "data-exhausted"
    answer = triaged(tmp_path, f"{raised}\nRan 5 tests in 119.029s\n\nFAILED (failures=2)\n")
    assert (answer.verdict, answer.boundary) == ("Fail", "test")


@pytest.mark.parametrize(("file", "name"), [("transformers/loss/loss_utils.py", "ForCausalLMLoss"), ("t.py", "loss_function")])
def test_memory_that_ends_in_a_loss_function_ends_in_a_step(tmp_path: Path, file: str, name: str) -> None:
    frame = f'  File "/e/lib/python3.12/site-packages/{file}", line 7, in {name}\n    x()\n'
    answer = triaged(tmp_path, f"Traceback (most recent call last):\n{frame}torch.OutOfMemoryError: CUDA out of memory.\n")
    assert (answer.verdict, answer.boundary) == ("Fail", "memory")


def test_a_library_that_is_not_found_is_named_before_the_module_that_needs_it(tmp_path: Path) -> None:
    tried = "ImportError:\n[kernels] none could be loaded\n- ImportError: {}\n- ModuleNotFoundError: No module named 'ops'\n"
    lib = "libnvrtc.so.12: cannot open shared object file: No such file or directory"
    assert "ops" not in triaged(tmp_path, tried.format(lib)).advice
    assert "'ops'" in triaged(tmp_path, tried.format("odd")).advice


def test_more_values_than_expected_are_no_empty_sequence(tmp_path: Path) -> None:
    answers = [
        triaged(tmp_path, RAISED + f"ValueError: {text} (expected 2)\n")
        for text in ("too many values to unpack", "not enough values")
    ]
    assert ["returns" in answer.follow_up for answer in answers] == [True, False]


def test_a_library_that_bitsandbytes_cannot_load_does_not_end_a_run(tmp_path: Path) -> None:
    says = "Could not load bitsandbytes native library: 'NoneType' object has no attribute 'split'\n"
    raised = RAISED + "AttributeError: 'NoneType' object has no attribute 'split'\n"
    assert triaged(tmp_path, says + raised + "Device set to use cuda:0\n").line is None
    assert triaged(tmp_path, raised).line == 1 + raised.count("\n", 0, raised.index("AttributeError"))


def test_what_none_lacks_says_nothing_about_the_boundary(tmp_path: Path) -> None:
    text = 'Traceback (most recent call last):\n  File "/w/best.py", line 7, in <module>\n    {}\n{}\n'
    none = triaged(tmp_path, text.format("best.checkpoint", "AttributeError: 'NoneType' object has no attribute 'checkpoint'"))
    assert none.boundary != "checkpoint"
    assert triaged(tmp_path, text.format("read()", "ValueError: no checkpoint")).boundary == "checkpoint"


def test_images_and_samples_that_are_missing_are_of_the_data(tmp_path: Path) -> None:
    for frame in ("/opt/lib/python3.12/site-packages/PIL/Image.py", "/w/src/llamafactory/data/plugin.py"):
        error = "FileNotFoundError: [Errno 2] No such file or directory: '/w/scans/7.jpg'\n"
        assert (
            triaged(tmp_path, f'Traceback (most recent call last):\n  File "{frame}", line 7, in open\n    x()\n{error}').boundary
            == "data"
        )


def test_of_rounded_epochs_every_line_is_a_step(tmp_path: Path) -> None:
    line = "{{'loss': 0.1, 'grad_norm': {}, 'learning_rate': 1e-05, 'epoch': 0.{:02}}}\n"
    lines = [line.format("0.0" if at % 3 == 0 else "0.7", at // 10) for at in range(60)]
    end = "{'train_runtime': 60.0, 'train_steps_per_second': 1.0, 'train_loss': 0.1, 'epoch': 0.05}\n"
    assert "is zero in" not in triaged(tmp_path, "".join(lines) + end).evidence
    mostly = [line.format("0.0" if at % 3 else "0.7", at // 10) for at in range(60)]
    assert (
        triaged(tmp_path, "".join(mostly) + end).evidence == "grad_norm is zero in 40 of 60 steps: most of them updated nothing"
    )


def test_a_tool_that_names_itself_before_it_says_that_it_failed_is_heard(tmp_path: Path) -> None:
    answer = triaged(tmp_path, "reading 4 shards\nconvert: failed to read shard 3\nERROR: command failed with exit code 1\n")
    assert answer.evidence == "convert: failed to read shard 3"


def test_memory_that_another_library_could_not_get_on_a_gpu_is_gpu_memory(tmp_path: Path) -> None:
    assert triaged(tmp_path, RAISED + "DGLError: device_api.cc:117: Check failed: CUDA: out of memory\n").rule.startswith(
        "gpu-memory"
    )


def test_neither_a_chain_of_exceptions_nor_a_counter_begins_another_run(tmp_path: Path) -> None:
    link = 'Traceback (most recent call last):\n  File "/w/to_spec.py", line 36, in to_spec\n    return self.spec(**value)\n'
    chain = link + "TypeError: odd\n\nDuring handling of the above exception, another exception occurred:\n\n"
    assert "runs in the log" not in triaged(tmp_path, "the script was copied\n" + chain * 2 + link + "TypeError: odd\n").advice
    parts = "".join(f"[{at}/9] Running the example number_{at}\nOSError: [Errno 28] No space left on device\n" for at in range(4))
    assert "runs in the log" not in triaged(tmp_path, "reads 9 cases\n" + parts).advice


def test_tracebacks_of_several_processes_are_those_of_one_run(tmp_path: Path) -> None:
    raised = "Traceback (most recent call last):\n  File \"/w/prepare.py\", line 9, in main\n    read()\nKeyError: 'text'\n"
    answer = triaged(tmp_path, "".join(f"Process Process-{n}:\n{raised}" for n in (1, 2, 3)))
    assert ("runs in the log" in answer.advice, answer.evidence) == (False, "KeyError: 'text'"), answer


def test_what_follows_an_interrupt_depends_on_whether_a_step_was_done(tmp_path: Path) -> None:
    assert "start it again" in triaged(tmp_path, "loading the model\n^C\n").follow_up
    saved = "step 10 loss 2.3\nSaved checkpoint to out/step_10.pt\n^C\n"
    assert 'resume from the last checkpoint that the log names ("Saved checkpoint' in triaged(tmp_path, saved).follow_up


def test_what_is_not_implemented_is_named_with_its_place(tmp_path: Path) -> None:
    frame = '  File "/w/megatron/core/ssm.py", line 9, in forward\n    x()\n'
    answer = triaged(tmp_path, f"Traceback (most recent call last):\n{frame}NotImplementedError: packing\n")
    assert (answer.rule, answer.follow_up.partition(": ")[0]) == ("unsupported", "/w/megatron/core/ssm.py:9"), answer


def test_what_follows_a_failed_test_is_its_place_and_that_test_alone(tmp_path: Path) -> None:
    failed = ">       for (batch,) in loader:\nE       ValueError: too many values to unpack\n\nm/gc.py:5: ValueError\n"
    answer = triaged(tmp_path, f"==== FAILURES ====\n____ test_loop ____\n{failed}==== 1 failed, 6 passed in 2.98s ====\n")
    assert (answer.boundary, answer.follow_up[:38]) == ("test", "the code at m/gc.py:5; then pytest -k "), answer
    header = "======\nFAIL: test_norm (checks.test_norm.TestNorm)\n------\n"
    frame = 'Traceback (most recent call last):\n  File "/w/checks/test_norm.py", line 9, in test_norm\n    x()\n'
    unittest = header + frame + "AssertionError: 3 != 4\nRan 6 tests in 0.2s\n\nFAILED (failures=1)\n"
    assert "pytest -k test_norm -x" in triaged(tmp_path, unittest).follow_up


def test_an_interrupt_comes_before_the_loader_that_it_ends_and_its_dated_line_is_no_part_of_a_message(tmp_path: Path) -> None:
    step = "2026-07-14 07:00:01 - LOGS - Epoch: 1 [ 3/90], loss: {'total_loss': 5.1}, LR: 0.1\n"
    loader = (
        "Exception in thread Thread-1 (_pin_memory_loop):\nTraceback (most recent call last):\n"
        '  File "/e/lib/python3.12/site-packages/torch/utils/data/_utils/pin_memory.py", line 53, in _pin_memory_loop\n'
        "    do_one_step()\nConnectionResetError: [Errno 104] Connection reset by peer\n"
    )
    ended = "2026-07-14 07:04:38 - LOGS - Keyboard interruption. Exiting from early training\n"
    assert triaged(tmp_path, step + loader + ended).rule == "interrupted"
    assert triaged(tmp_path, step + loader).rule == "loader-peer-ended"


def test_the_evidence_says_what_the_message_announces(tmp_path: Path) -> None:
    error = "RuntimeError: Error(s) in loading state_dict for Judge:\n\tsize mismatch for head.weight: [3, 8] and [2, 8].\n"
    assert triaged(tmp_path, RAISED + error).evidence.endswith("for Judge: size mismatch for head.weight: [3, 8] and [2, 8].")


def test_the_process_that_ended_first_is_named_in_the_evidence(tmp_path: Path) -> None:
    report = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n====\ntrain.py FAILED\n----\nFailures:\n"
    root = "Root Cause (first observed failure):\n[0]:\n  rank      : 1\n  exitcode  : -9 (pid: 70)\n"
    others = "[1]:\n  rank      : 0\n  exitcode  : 1 (pid: 69)\n----\n"
    answer = triaged(tmp_path, report + others + root + "  traceback : Signal 9 (SIGKILL) received by PID 70\n====\n")
    assert answer.evidence.endswith(
        "ChildFailedError: train.py FAILED; exitcode : -9 (pid: 70); traceback : Signal 9 (SIGKILL) received by PID 70"
    )


@pytest.mark.parametrize("allocated, pieces", [("40.48", True), ("83.48", False)])
def test_counters_that_exceed_the_gpu_say_nothing_about_pieces(tmp_path: Path, allocated: str, pieces: bool) -> None:
    error = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.12 GiB. GPU 0 has a total capacity of 79.19 GiB of "
        "which 2.11 GiB is free. Including non-PyTorch memory, this process has 76.96 GiB memory in use. Of the allocated memory "
        f"{allocated} GiB is allocated by PyTorch, and 30.59 GiB is reserved by PyTorch but unallocated.\n"
    )
    answer = triaged(tmp_path, "Training step 1, loss: 0.5\n" + RAISED + error)
    assert ("expandable_segments" in answer.follow_up) is pieces


@pytest.mark.parametrize(("where", "says"), [("get_path", "ValueError: No runs in 'logs'"), ("other", "IndexError: list index")])
def test_an_exception_that_says_what_was_not_found_counts_in_place_of_the_lookup(where: str, says: str, tmp_path: Path) -> None:
    lookup = (
        f'Traceback (most recent call last):\n  File "/w/own/cfg.py", line 2, in {where}\n    runs[-1]\nIndexError: list index\n'
    )
    during = "\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n"
    frames = '  File "/w/own/train.py", line 9, in main\n    path = get_path(root)\n  File "/w/own/cfg.py", line 4, in get_path\n'
    answer = triaged(
        tmp_path, f"{lookup}{during}{frames}    raise ValueError(f\"No runs in '{{root}}'\")\nValueError: No runs in 'logs'\n"
    )
    assert answer.evidence.startswith(says), answer


def test_the_shells_last_word_about_a_signal_is_one(tmp_path: Path) -> None:
    assert triaged(tmp_path, "Epoch 3 loss: 0.5\nsaving model...\nTerminated\n").rule == "ended-from-outside"


def test_a_part_that_a_program_says_to_have_failed_is_named(tmp_path: Path) -> None:
    failed = "  CIDEr computation failed: [Errno 2] No such file or directory: 'java'\n"
    answer = triaged(tmp_path, f"Computing BLEU\n  BLEU-1=50.39\n{failed}Results saved: r.json\n")
    assert (answer.verdict, answer.evidence) == ("Unknown", failed.strip()) and "what that line names" in answer.follow_up


def test_a_level_within_hyphens_is_one(tmp_path: Path) -> None:
    answer = triaged(
        tmp_path, "Loading\n2018-09-16 19:43:19,388 -keras_dpm-ERROR-transfer: unsupported operand type(s) for //: 'str'\n"
    )
    assert answer.verdict == "Fail" and "unsupported operand" in answer.evidence and "exc_info=True" in answer.follow_up


def test_a_line_that_ends_with_a_colon_goes_on_in_the_next(tmp_path: Path) -> None:
    lines = "INFO - Loading\n2025-06-24 13:30:48,637 - models - ERROR - Failed to load model: \nX requires the {} library\n"
    answer = triaged(tmp_path, lines.format("Torchvision") + "but it was not found\n")
    assert answer.evidence == "Failed to load model: X requires the Torchvision library", answer
    assert triaged(tmp_path, "Loading\nError: cannot go on:\nthe flux is low\n").verdict == "Blocked"


def test_a_library_without_gpus_ends_no_run(tmp_path: Path) -> None:
    warned = "/opt/lib/python3.10/site-packages/bitsandbytes/libbitsandbytes_cpu.so: undefined symbol: cadam32bit_grad_fp32\n"
    assert triaged(tmp_path, f"{warned}INFO:Loading the model\nKilled\n").rule == "launcher-killed"


def test_the_steps_of_an_image_build_are_not_read_as_training_steps(tmp_path: Path) -> None:
    build = "Step 25/32 : RUN R -e \"install.packages('stringi', repos=NULL)\"\nStep 26/32 : RUN true\nSuccessfully built 5f1e\n"
    answer = triaged(tmp_path, build)
    assert (answer.verdict, answer.evidence) == ("Unknown", "no error was found, and no end of a run")


def test_an_excerpt_that_ends_with_the_first_line_of_a_traceback_shows_an_error(tmp_path: Path) -> None:
    answer = triaged(tmp_path, "step:1 - actor/loss:0.5\nTraceback (most recent call last):\n")
    assert (answer.verdict, answer.line) == ("Fail", 2) and "only its first line is in the log" in answer.evidence


@pytest.mark.parametrize(
    ("step", "look"),
    [(1, "one forward pass with the loaded weights"), (7, "the samples of step 7"), (None, "the first step at which")],
)
def test_what_to_look_at_where_a_number_is_not_finite_depends_on_the_step(step: int | None, look: str, tmp_path: Path) -> None:
    steps = "".join(f"step:{n} - actor/loss:0.5\n" for n in range(1, step or 1))
    line = f"step:{step} - actor/loss:nan\n" if step else "Epoch 0:  17%|█  | 40/229 [03:09<14:33,  4.62s/it, loss=nan]\n"
    answer = triaged(tmp_path, steps + line)
    assert answer.verdict == "Fail" and look in answer.follow_up, answer


def test_a_name_that_the_checkout_lacks_fails_tests_that_ran(tmp_path: Path) -> None:
    session = (
        "==== test session starts ====\ntests/test_client.py F.                [100%]\n"
        "==== FAILURES ====\n____ test_exports ____\n\n"
        "    def test_exports():\n>       from runtime.agents import Client\n"
        "E       ImportError: cannot import name 'Client' from 'runtime.agents' (/u/runtime/agents/__init__.py)\n\n"
        "tests/test_client.py:8: ImportError\n==== short test summary info ====\n"
        "FAILED tests/test_client.py::test_exports - ImportError: cannot import name 'Client'\n"
    )
    answer = triaged(tmp_path, session + "==== 1 failed, 749 passed in 198.83s (0:03:18) ====\n")
    assert (answer.verdict, answer.boundary, answer.rule) == ("Fail", "test", "own-name-missing")
    alone = triaged(tmp_path, "Traceback (most recent call last):\n" + session.split("E       ")[1].split("\n")[0] + "\n")
    assert (alone.verdict, alone.boundary) == ("Blocked", "import")


def test_an_exception_before_a_crash_is_the_cause_and_not_one_after_it(tmp_path: Path) -> None:
    def failed(file: str, error: str) -> str:
        return f'Traceback (most recent call last):\n  File "{file}", line 5, in serve\n    x()\n{error}\n'

    prompt = "AssertionError: the prompt has 3646 tokens, and the cache 2049"
    engine = failed("/opt/venv/lib/python3.12/site-packages/tensorrt_llm/_torch/model_engine.py", prompt)
    logged = "[05/13/2026-21:33:16] [TRT-LLM] [E] Encountered an error in forward function\n"
    crash = "[host:17 :0:18] Caught signal 11 (Segmentation fault: address not mapped to object)\n"
    later = failed("/opt/venv/lib/python3.12/site-packages/uvicorn/server.py", "asyncio.exceptions.CancelledError: cancelled")
    answer = triaged(tmp_path, engine + logged + crash + later)
    assert (answer.evidence, answer.boundary, answer.rule) == (prompt, "rollout engine", "")
    assert triaged(tmp_path, crash + later).rule == "crash"


def test_what_a_package_raised_and_caught_is_shown_with_the_code_that_called_it(tmp_path: Path) -> None:
    package = "/opt/venv/lib/python3.12/site-packages/jax/_src/lax.py"
    inner = f'Traceback (most recent call last):\n  File "{package}", line 9, in shapes\n    raise ValueError(x)\n'
    own = f'Traceback (most recent call last):\n  File "/w/own.py", line 3, in loss_of\n    p = d.log_prob(a)\n  File "{package}"'
    error = "ValueError: Incompatible shapes: [(640, 3), (640,)]\n"
    chain = (
        f"{inner}{error}\nDuring handling of the above exception, another exception occurred:\n\n{own}, line 4, in op\n    f()\n"
    )
    answer = triaged(tmp_path, f"{chain}{error}")
    assert answer.boundary == "user code" and 'loss_of at /w/own.py:3 ("p = d.log_prob(a)"), which calls jax' in answer.follow_up


def test_settings_that_an_error_names_are_quoted_from_the_log(tmp_path: Path) -> None:
    log = "engine arguments: {'max_num_seqs': 256, 'max_model_len': 4096}\n+ train.py --num-layers 30\n"
    unknown = (
        'Traceback (most recent call last):\n  File "/w/own.py", line 3, in check\n    check()\nValueError: max_num_seqs is odd\n'
    )
    assert (
        "what the log has before it: 'max_num_seqs': 256 (line 1); check at /w/own.py:3"
        in triaged(tmp_path, log + unknown).follow_up
    )
    known = triaged(tmp_path, f"{log}AssertionError: num_layers should be divisible by pipeline_model_parallel_size\n")
    assert known.rule == "parallel-layout" and known.follow_up.endswith(
        "see what the log has before it: --num-layers 30 (line 2)"
    )


def test_the_first_failed_test_of_a_summary_is_named(tmp_path: Path) -> None:
    failure = "E       ValueError: a mode that none knows\n\ntests/test_modes.py:4: ValueError\n"
    summary = (
        "=== short test summary info ===\nFAILED tests/test_modes.py::test_a - ValueError: a mode\n{}=== {} failed in 0.1s ===\n"
    )
    one = triaged(tmp_path, failure + summary.format("", 1)).follow_up
    assert "pytest 'tests/test_modes.py::test_a' -x, also on" in one
    two = triaged(tmp_path, failure + summary.format("FAILED tests/test_modes.py::test_b - ValueError: a mode\n", 2)).follow_up
    assert "pytest 'tests/test_modes.py::test_a' -x (the first of 2 in the summary), also on" in two


@pytest.mark.parametrize(("file", "boundary"), [("tests/test_modes.py", "test"), ("src/modes.py", "dependency")])
def test_a_name_that_a_test_itself_uses_wrongly_fails_that_test(file: str, boundary: str, tmp_path: Path) -> None:
    log = (
        f"== FAILURES ==\n__ test_a __\n{file}:4: in test_a\n    mock.Space()\n"
        "E   AttributeError: module 'unittest.mock' has no attribute 'Space'\n"
        "=== short test summary info ===\nFAILED tests/test_modes.py::test_a - Attrib...\n=== 1 failed in 0.1s ===\n"
    )
    assert triaged(tmp_path, log).boundary == boundary


def test_a_log_that_begins_within_a_traceback_has_one_run(tmp_path: Path) -> None:
    frames = '  File "/opt/conda/lib/python3.10/site-packages/torch/nn/mod\nule.py", line 1518, in _wrapped_call\n    f()\n'
    log = f"{frames}{frames}RuntimeError: one\n{frames}{frames}RuntimeError: one\n"
    assert "runs in the log" not in triaged(tmp_path, log).advice


def test_the_next_line_says_which_of_tensorflows_errors_is_the_root(tmp_path: Path) -> None:
    error = (
        "tensorflow.python.framework.errors_impl.NotFoundError: 2 root error(s) found.\n  (0) Not found: d/1.jpg; No such file\n"
    )
    log = f'Traceback (most recent call last):\n  File "/w/own.py", line 3, in <module>\n    model.fit(data)\n{error}'
    assert "root error(s) found. (0) Not found: d/1.jpg" in triaged(tmp_path, log).evidence


def test_slurms_job_is_named_where_the_line_has_its_number(tmp_path: Path) -> None:
    cancelled = triaged(tmp_path, "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2025-03-22T16:52:06 ***\n")
    assert cancelled.follow_up.startswith("sacct -j 4711 ")
    assert "sacct -j JOB -o" in triaged(tmp_path, "slurmstepd: error: Exceeded job memory limit\n").follow_up


def test_an_error_that_the_program_outlived_is_named_beside_the_one_that_ended_it(tmp_path: Path) -> None:
    outlived = (
        'Traceback (most recent call last):\n  File "/w/a.py", line 4, in answer\n    a()\nTypeError: a() lacks an argument\n'
    )
    log = outlived * 3 + outlived.replace("a.py", "b.py").replace(
        "TypeError: a() lacks an argument", "ValueError: nothing to join"
    )
    answer = triaged(tmp_path, log)
    assert answer.evidence == "ValueError: nothing to join"
    assert 'answer at /w/b.py:4 ("a()"); the error in line 4, which came before ("TypeError: a() lacks an' in answer.follow_up
    assert "came before" not in triaged(tmp_path, outlived * 3).follow_up


def test_a_full_disk_is_that_of_the_folder_that_the_log_names(tmp_path: Path) -> None:
    full = "OSError: [Errno 28] No space left on device\n"
    named = triaged(tmp_path, f"TrainingArguments(output_dir=/scratch/one, lr=0.1)\n{full}")
    assert named.follow_up.startswith(
        "df -h of the folder of output_dir=/scratch/one (line 1), and of the folder that the evidence"
    )
    assert triaged(tmp_path, full).follow_up.startswith("df -h of the folder that the evidence names (else of all)")


def test_an_environment_that_uv_has_just_made_lacks_every_package(tmp_path: Path) -> None:
    missing = 'Traceback (most recent call last):\n  File "/w/a.py", line 1, in <module>\n    import absl\n'
    missing += "ModuleNotFoundError: No module named 'absl'\n"
    made = triaged(tmp_path, f"Using CPython 3.10.0\nCreating virtual environment at: .venv\n{missing}")
    assert made.follow_up.startswith("uv has just made an empty environment there: uv sync") and "else" in made.follow_up
    assert "uv sync" not in triaged(tmp_path, missing).follow_up


@pytest.mark.parametrize(
    ("module", "command", "own"),
    [
        ("cv2", "pip install opencv-python-headless", False),
        ("google.protobuf", "pip install protobuf", False),
        ("torch", "pip install torch", False),
        ("shapes", "pip install what provides shapes (of a checkout: -e . in it)", True),
    ],
)
def test_a_missing_module_is_named_as_pip_names_it(module: str, command: str, own: bool, tmp_path: Path) -> None:
    missing = 'Traceback (most recent call last):\n  File "/w/a.py", line 1, in <module>\n    import it\n'
    missing += f"ModuleNotFoundError: No module named '{module}'\n"
    answer = triaged(tmp_path, missing)
    assert f"python -m {command}" in answer.follow_up and ("PYTHONPATH" in answer.follow_up) == own, answer
    assert "torchrun" not in answer.follow_up, "nothing was started by it"
    launched = triaged(tmp_path, f"W0102 torch/distributed/run.py torchrun\n{missing}")
    assert "on every host" in launched.follow_up and "torchrun" in launched.follow_up


def test_what_a_shell_said_before_an_error_is_named(tmp_path: Path) -> None:
    said = "slurm_script: line 32: oqnd4apl: command not found"
    raised = (
        'Traceback (most recent call last):\n  File "/w/a.py", line 9, in main\n    assert opts.id is not None\nAssertionError\n'
    )
    assert f'what the shell said ("{said}")' in triaged(tmp_path, f"{said}\n{raised}").follow_up
    assert "the shell" not in triaged(tmp_path, raised).follow_up
    refused = "train.py: error: argument --seed: expected one argument\n"
    assert said in triaged(tmp_path, f"{said}\n{refused}").follow_up


@pytest.mark.parametrize(
    ("error", "fact", "with_it", "without"),
    [
        (
            "ValueError: require 2 GPUs, but only 1 GPUs available",
            "raylet started\n",
            ", ray status",
            "in that host's array::start",
        ),
        ("ValueError: require 2 GPUs, but only 1 GPUs available", "srun: job 7 queued\n", "--gpus-per-node", ""),
        (
            "wandb.errors.CommError: Run initialization has timed out after 90.0 sec.",
            "wandb: Network error (SSLError), entering retry loop.\n",
            "REQUESTS_CA_BUNDLE",
            "",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement setuptools>=69 (from versions: none)",
            "WARNING: Retrying: [Errno -3] Temporary failure in name resolution\n",
            "getent hosts pypi.org",
            "",
        ),
    ],
)
def test_advice_says_what_fits_the_log(error: str, fact: str, with_it: str, without: str, tmp_path: Path) -> None:
    raised = (
        error
        if error.startswith("ERROR")
        else f'Traceback (most recent call last):\n  File "/w/a.py", line 9, in f\n    x()\n{error}'
    )
    assert with_it in triaged(tmp_path, f"{fact}{raised}\n").follow_up
    assert with_it not in triaged(tmp_path, f"{without}\n{raised}\n").follow_up


@pytest.mark.parametrize(
    ("file", "look"), [("C:\\w\\keep.py", "the free space of the drive"), ("/w/keep.py", "df -h and quota -s")]
)
def test_a_full_disk_is_looked_at_as_its_system_does(file: str, look: str, tmp_path: Path) -> None:
    frames = f'  File "{file}", line 9, in save_checkpoint\n    write(path)\n'
    full = f"Traceback (most recent call last):\n{frames}OSError: [Errno 28] No space left on device\n"
    assert triaged(tmp_path, full).follow_up.startswith(look)


def test_a_device_that_jax_does_without_is_no_error(tmp_path: Path) -> None:
    without = (
        "[I] Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: libtpu.so: cannot open shared object file"
    )
    raised = 'Traceback (most recent call last):\n  File "/w/a.py", line 9, in main\n    x()\nFileExistsError: /c exists\n'
    assert triaged(tmp_path, f"{without} (30172:xla_bridge.py:925)\n{raised}").evidence == "FileExistsError: /c exists"


def test_a_process_that_crashed_of_a_watchdog_waited_for_another_one(tmp_path: Path) -> None:
    crash = "terminate called after throwing an instance of 'std::runtime_error'\n"
    crash += "  what():  [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=806, OpType=BROADCAST)\n"
    assert triaged(tmp_path, crash).rule == "nccl-watchdog"


def test_an_error_of_a_program_explains_more_than_the_time_limit_that_ended_what_waited_for_it(tmp_path: Path) -> None:
    limit = "slurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2025-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
    error = 'Traceback (most recent call last):\n  File "/w/a.py", line 1, in main\n    x()\nAttributeError: no_flag\n'
    answer = triaged(tmp_path, error + limit)
    assert (answer.rule, answer.evidence) == ("", "AttributeError: no_flag")
    assert triaged(tmp_path, limit).rule == "slurm-time-limit"
    steps = "".join(f"step {n} loss 1.{n}\n" for n in range(1, 9))
    assert triaged(tmp_path, error + steps + limit).rule == "slurm-time-limit", "the run went on after it"


def test_a_program_that_was_ended_within_its_bar_was_ended_from_outside(tmp_path: Path) -> None:
    bar = "Training progress:  15%|#5 | 4600/30000 [05:08<37:17, 11.35it/s, Loss=0.1283796]Terminated\n"
    assert triaged(tmp_path, bar).rule == "ended-from-outside"


def test_what_a_message_found_fills_what_to_look_at(tmp_path: Path) -> None:
    asks = 'Traceback (most recent call last):\n  File "/w/ask.py", line 3, in main\n    x = join(parts)\n'
    sizes = "Sizes of tensors must match except in dimension 2. Expected size 32 but got size 31 for tensor number 4 in the list."
    follow_up = triaged(tmp_path, f"{asks}RuntimeError: {sizes}\n").follow_up
    assert (
        "torch.cat along 2" in follow_up
        and "entry 4 of the list, which counts from 0, has 31 where the first has 32" in follow_up
    )
    module = triaged(tmp_path, f"{asks}AttributeError: module 'kea.tools' has no attribute 'fit'\n").follow_up
    assert "python -c 'import kea.tools; print(kea.tools, " in module


def test_a_sentence_about_one_function_judges_no_other(tmp_path: Path) -> None:
    asks = 'Traceback (most recent call last):\n  File "/w/ask.py", line 3, in main\n    name = input()\n'
    answer = triaged(tmp_path, f"{asks}EOFError: EOF when reading a line\n")
    assert (answer.verdict, answer.boundary) == ("Blocked", "launcher") and "trust_repo" not in answer.follow_up
    reads = asks.replace("input()", "open('rows.txt')")
    assert "mkdir" not in triaged(tmp_path, f"{reads}FileNotFoundError: [Errno 2] No such file: 'rows.txt'\n").follow_up


@pytest.mark.parametrize("killed", ["Killed", "Processus arrêté", "已杀死"])
def test_what_bash_says_of_sigkill_is_understood(killed: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, f"Loading the weights\n{killed}\n")
    assert (answer.rule, answer.boundary) == ("launcher-killed", "memory"), answer


def test_no_answer_proposes_what_the_log_already_shows(tmp_path: Path) -> None:
    hung = "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=600000)\n"
    alone = triaged(tmp_path, f"[E101 10:20:30 ProcessGroupNCCL.cpp:500] {hung}")
    assert alone.follow_up.startswith("NCCL_DEBUG=INFO") and "never reached" in alone.advice
    info = "n1:7:9 [0] NCCL INFO ncclCommInitRank comm 0x7 rank 0 nranks 4 cudaDev 0 - Init COMPLETE\n"
    connected = triaged(tmp_path, f"{info}[E101 10:20:30 ProcessGroupNCCL.cpp:500] {hung}")
    assert "NCCL_DEBUG" not in connected.follow_up + connected.advice and "found each other" in connected.advice


def test_ranks_that_wait_in_different_calls_are_named(tmp_path: Path) -> None:
    said = "[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType={}, Timeout(ms)=600000) ran\n"
    step = "step 9 loss: 0.5\n"
    apart = triaged(tmp_path, step + said.format(0, 122, "ALLREDUCE") + said.format(1, 126, "ALLGATHER"))
    assert "rank 0 in call 122 (ALLREDUCE), rank 1 in call 126 (ALLGATHER)" in apart.follow_up and "different" in apart.advice
    together = triaged(tmp_path, step + said.format(0, 122, "ALLREDUCE") + said.format(1, 122, "ALLREDUCE"))
    assert "not among these: ranks 0, 1 in call 122 (ALLREDUCE)" in together.follow_up and "different" not in together.advice
    alone = triaged(tmp_path, step + said.format(0, 122, "ALLREDUCE"))
    assert alone.follow_up.startswith("each rank's SeqNum") and alone.advice == together.advice
    run = "Started a local Ray instance.\nstep:1 - actor/pg_loss:0.1 - actor/grad_norm:0.5 - training/global_step:1\n"
    earlier = triaged(tmp_path, run + said.format(0, 122, "ALLREDUCE") + run + said.format(1, 126, "ALLGATHER"))
    assert "122" not in earlier.follow_up and "different" not in earlier.advice, earlier


def test_a_process_that_holds_nearly_all_memory_is_not_asked_for_others(tmp_path: Path) -> None:
    said = "Evaluation failed: CUDA out of memory. Tried to allocate 72.00 MiB. GPU 0 has a total capacity of 79.00 GiB of which"
    held = triaged(
        tmp_path, f"ERROR {said} 9.00 MiB is free. Including non-PyTorch memory, this process has 78.90 GiB memory in use.\n"
    )
    assert "78.9 of 79.0 GiB" in held.follow_up and "nvidia-smi" not in held.follow_up
    unknown = triaged(tmp_path, "ERROR Evaluation failed: CUDA out of memory. Tried to allocate 72.00 MiB.\n")
    assert "nvidia-smi" in unknown.follow_up and "GiB" not in unknown.follow_up


def test_what_another_package_passed_is_shown_with_its_place(tmp_path: Path) -> None:
    packages = "/env/lib/python3.12/site-packages"
    raised = (
        f'Traceback (most recent call last):\n  File "{packages}/openrlhf/engine.py", line 58, in f\n    llm = LLM(**kwargs)\n'
        f'  File "{packages}/vllm/llm.py", line 210, in __init__\n    args = EngineArgs(**kwargs)\n'
        "TypeError: EngineArgs.__init__() got an unexpected keyword argument 'worker_use_ray'\n"
    )
    assert 'called by openrlhf/engine.py:58 ("llm = LLM(**kwargs)")' in triaged(tmp_path, raised).follow_up
    assert "called by" not in triaged(tmp_path, raised.replace("openrlhf", "vllm")).follow_up


def test_the_code_of_a_cell_is_ones_own(tmp_path: Path) -> None:
    cell = '  File "<ipython-input-5-d2ce7f363a08>", line 27, in model_fn\n    x = tf.metrics.accuracy(a)\n'
    package = '  File "/env/lib/python3.7/site-packages/tensorflow/values.py", line 283, in update\n    raise\n'
    answer = triaged(tmp_path, f"Traceback (most recent call last):\n{cell}{package}RuntimeError: it is not to be updated\n")
    assert "model_fn at <ipython-input-5-d2ce7f363a08>:27" in answer.follow_up, answer.follow_up


def test_a_package_that_is_built_for_want_of_a_wheel_is_compared_with_its_wheels(tmp_path: Path) -> None:
    build = (
        "Traceback (most recent call last):\n"
        '  File "/tmp/pip-install-k7/pygame_66dd/buildconfig/config.py", line 245, in main\n    raise\n'
        'RuntimeError: Unable to run "sdl-config". Make sure a development version of SDL is installed.\n'
    )
    assert "--only-binary :all:" in triaged(tmp_path, build).follow_up
    assert "--only-binary" not in triaged(tmp_path, build.replace("/tmp/pip-install-k7", "/w")).follow_up


def test_recomputed_activations_are_seen_in_the_frames(tmp_path: Path) -> None:
    frames = '  File "/u/x/checkpointing.py", line 3, in backward\n    y()\n  File "/u/steps.py", line 3, in backward\n    z()\n'
    full = f"step 7 loss: 0.5\nTraceback (most recent call last):\n{frames}torch.OutOfMemoryError: CUDA out of memory.\n"
    assert "although activations are recomputed" in triaged(tmp_path, full).follow_up
    assert "gradient checkpointing" in triaged(tmp_path, full.replace("checkpointing.py", "layers.py")).follow_up


def test_a_part_in_utf_16_below_a_text_of_one_byte_a_character_is_read(tmp_path: Path) -> None:
    log = tmp_path / "some.log"
    error = "Traceback (most recent call last):\r\n\u2500\r\nModuleNotFoundError: No module named 'kea'\r\n"
    log.write_bytes(b"[CMD] python train.py\r\n" + error.encode("utf-16-le"))
    answer = views.triage_log(log)
    assert (answer.verdict, answer.evidence) == ("Blocked", "ModuleNotFoundError: No module named 'kea'")
    with log.open("wb") as long:
        long.write(b"some words of a usual log\r\n" * 800_000 + error.encode("utf-16-le"))
    assert views.triage_log(log).evidence == answer.evidence
    for binary in (bytes(range(256)) * 40, bytes(range(256)) * 40 + error.encode("utf-16-le")):
        log.write_bytes(binary)
        with pytest.raises(BadInput, match="not text"):
            views.triage_log(log)


def test_an_epoch_that_is_counted_in_two_ways_begins_no_run(tmp_path: Path) -> None:
    line = "[2026-01-31 10:20:{0:02d}] Epoch: {1}/100, Batch: {0}/5666, Loss: 1.25, LR: 0.0001\n"
    steps = "".join(line.format(batch, 0 if batch % 8 == 7 else 1) for batch in range(24))
    full = "torch.OutOfMemoryError: CUDA out of memory.\n"
    assert "runs" not in triaged(tmp_path, steps + full).advice
    assert "last of 2 runs" in triaged(tmp_path, steps + line.format(0, 0) + full).advice


def test_an_error_that_a_program_caught_while_it_did_something_is_one(tmp_path: Path) -> None:
    assert triaged(tmp_path, "Error finetuning with own data: tuple indices must be integers\n| table | 1 |\n").line == 1
    assert triaged(tmp_path, "Error handling works: yes\nsome words\n").verdict == "Unknown"


def test_a_tracker_that_was_called_wrongly_is_not_looked_for_in_the_network(tmp_path: Path) -> None:
    raised = (
        'Traceback (most recent call last):\n  File "/w/a.py", line 9, in f\n    x()\n'
        '  File "/env/lib/python3.12/site-packages/wandb/integration/tensorboard/monkeypatch.py", line 32, in patch\n    raise\n'
        "ValueError: Tensorboard already patched. Call wandb.tensorboard.unpatch() first\n"
    )
    follow_up = triaged(tmp_path, raised).follow_up
    assert "the framework's own logger" in follow_up and "getent" not in follow_up


def test_a_folder_that_was_not_found_is_no_configuration(tmp_path: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "/w/a.py", line 9, in f\n    x()\n'
    folder = triaged(tmp_path, f"{raised}FileNotFoundError: Could not find 'kea.service' directory in parent folders.\n")
    assert folder.rule != "config-override"


def test_installing_a_handler_of_a_signal_is_no_signal(tmp_path: Path) -> None:
    assert triaged(tmp_path, "DoorMan: installing SIGINT, SIGTERM\nsome words\n").verdict == "Unknown"
    assert triaged(tmp_path, "DoorMan: got SIGTERM\nsome words\n").boundary == "outside"


def test_a_port_that_is_taken_comes_before_the_signal_of_another_viewer(tmp_path: Path) -> None:
    ended = "E1101 17:43:13 7 program.py:300] TensorBoard couldTensorBoard caught SIGTERM; exiting...\n"
    taken = "ERROR: TensorBoard could not bind to port 6006, it was already in use\n"
    assert triaged(tmp_path, ended + taken).rule == "port-taken"


def test_memory_that_runs_out_in_a_step_is_answered_with_the_sizes_that_the_log_has(tmp_path: Path) -> None:
    backward = '  File "/u/steps.py", line 3, in backward\n    loss.backward()\n'
    full = f"step 7 loss: 0.5\nTraceback (most recent call last):\n{backward}torch.OutOfMemoryError: CUDA out of memory.\n"
    with_sizes = triaged(tmp_path, f"Namespace(batch_size=8, max_length=2048, gradient_checkpointing=True)\n{full}").follow_up
    assert "the log has batch_size=8 (line 1) and max_length=2048 (line 1)" in with_sizes
    assert "although activations are recomputed" in with_sizes and "gradient checkpointing" not in with_sizes
    without = triaged(tmp_path, full).follow_up
    assert "gradient checkpointing" in without and "the log has" not in without


def test_a_tagged_line_that_says_fail_is_an_error(tmp_path: Path) -> None:
    answer = triaged(tmp_path, "[export] downloaded 1976.5 MB\n[export] FAIL: archive not a valid gzip tar: not a gzip file\n")
    assert (answer.verdict, answer.evidence) == ("Blocked", "[export] FAIL: archive not a valid gzip tar: not a gzip file")
    assert triaged(tmp_path, "[export] downloaded 1976.5 MB\n[export] failed: 0\n").verdict == "Unknown"


def test_the_message_of_a_comparison_is_quoted_with_how_much_differs(tmp_path: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "/w/tests/test_fp8.py", line 3, in test_fp8\n    check(a, b)\n'
    raised += "AssertionError: "
    differs = (
        "\nMismatched elements: 128 / 256 (50.0%)\nGreatest absolute difference: 1.0 at index (8, 0) (up to 1e-05 allowed)\n"
    )
    answer = triaged(tmp_path, f"{raised}Tensor-likes are not close!\n{differs}")
    assert "not close!; Mismatched elements: 128 / 256 (50.0%); Greatest absolute difference: 1.0 at" in answer.evidence
    numpy = triaged(tmp_path, f"{raised}\nNot equal to tolerance rtol=1e-07, atol=0\n{differs}")
    assert "Not equal to tolerance rtol=1e-07, atol=0; Mismatched elements: 128" in numpy.evidence


def test_an_error_of_nccl_is_quoted_with_the_last_one_that_nccl_names(tmp_path: Path) -> None:
    barrier = 'Traceback (most recent call last):\n  File "/w/main.py", line 3, in <module>\n    dist.barrier()\n'
    nccl = "RuntimeError: NCCL error in: ../csrc/ProcessGroupNCCL.cpp:1201, internal error, NCCL version 2.14.3\n"
    said = "ncclInternalError: Internal check failed.\nLast error:\nBootstrap : no socket interface found\n"
    answer = triaged(tmp_path, barrier + nccl + said)
    assert answer.evidence.endswith("Last error: Bootstrap : no socket interface found")
    assert (answer.verdict, answer.boundary) == ("Blocked", "network")


def test_a_start_after_a_run_that_failed_is_followed_by_what_that_one_asks_for(tmp_path: Path) -> None:
    failed = (
        'loading the rows of the set\nTraceback (most recent call last):\n  File "/w/a.py", line 1, in main\n    rows = read()\n'
    )
    answer = triaged(tmp_path, f"{failed}ValueError: odd rows\nloading the rows of the set\n")
    assert (answer.verdict, "if it failed as before: main at /w/a.py:1" in answer.follow_up) == ("Unknown", True)


def test_a_number_that_grew_before_it_was_not_finite_shows_a_run_that_diverged(tmp_path: Path) -> None:
    losses = ("5.47", "7.25", "8.04", "9.55", "8.99", "nan", "nan")
    log = "".join(f"step 0000{n} (0.00%) | loss: {loss} | epoch: 1 | total time: 0.00m\n" for n, loss in enumerate(losses, 1))
    grown = triaged(tmp_path, log)
    assert grown.follow_up.startswith("the values before it (loss 5.47, 7.25, …, 9.55, 8.99): the run diverged"), grown
    steady = triaged(tmp_path, log.replace("8.04", "5.2").replace("9.55", "4.9").replace("8.99", "4.1")).follow_up
    assert steady.startswith("the samples of step 6 (before it: loss 5.47, 7.25, …, 4.9, 4.1) (outliers"), steady
    metrics = "".join(f"{{'loss': {loss}, 'grad_norm': 0.5, 'epoch': 0.{n}}}\n" for n, loss in enumerate(losses, 1))
    assert triaged(tmp_path, metrics).follow_up.startswith("the values before it (loss 5.47, 7.25")


def test_what_a_warning_after_an_error_asks_for_is_not_asked_for_by_the_error(tmp_path: Path) -> None:
    raised = (
        'Traceback (most recent call last):\n  File "/w/act.py", line 3, in act\n    self.model(obs)\nRuntimeError: odd things\n'
    )
    warned = "/e/render.py:4: UserWarning: WARN: it was not closed properly. Please ensure to close it explicitly.\n"
    assert "Please" not in triaged(tmp_path, raised + warned).follow_up
    assert "Please" in triaged(tmp_path, f"{raised}Please give it even ones.\n").follow_up


def test_an_answer_without_an_error_names_the_line_that_speaks_against_the_run(tmp_path: Path) -> None:
    answer = triaged(tmp_path, "".join(f"Warning: Invalid loss detected: -29.{n}, skipping batch\n" for n in (1, 2, 3)))
    assert answer.evidence.endswith("; but: Warning: Invalid loss detected: -29.1, skipping batch")
    assert (answer.verdict, answer.boundary) == ("Unknown", "training") and "goes on without there" in answer.follow_up


def test_a_weight_that_an_engine_cannot_place_is_compared_with_its_parameter(tmp_path: Path) -> None:
    place = '  File "/e/site-packages/vllm/model_executor/layers/fused_moe/layer.py", line 1006, in _load_w13\n'
    code = "    loaded_weight = loaded_weight.narrow(\n"
    raised = "IndexError: start out of range (expected to be in range of [-768, 768], but got 3072)\n"
    answer = triaged(tmp_path, f"Traceback (most recent call last):\n{place}{code}{raised}")
    assert "the first load or an update by a trainer" in answer.follow_up


def test_what_a_message_proposes_is_not_shown(tmp_path: Path) -> None:
    raised = 'Traceback (most recent call last):\n  File "/w/a.py", line 3, in main\n    y = x[i]\n'
    raised += "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    raised += "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    assert "CUDA_LAUNCH_BLOCKING=1" in triaged(tmp_path, raised).follow_up
    assert "CUDA_LAUNCH_BLOCKING=1" not in triaged(tmp_path, f"+ export CUDA_LAUNCH_BLOCKING=1\n{raised}").follow_up


def test_the_values_of_an_earlier_run_did_not_grow_in_this_one(tmp_path: Path) -> None:
    row = "{{'loss': 0.5, 'kl': {}, 'epoch': 0.{}}}\n"
    first = "".join(row.format(loss, n) for n, loss in enumerate(("0.1", "0.1", "0.1", "0.1"), 1))
    second = "".join(row.format(loss, n) for n, loss in enumerate(("9.1", "9.0", "nan"), 1))
    failed = 'Traceback (most recent call last):\n  File "/w/a.py", line 3, in main\n    y()\nValueError: odd\n'
    answer = triaged(tmp_path, first + failed + second)
    assert (answer.rule, "diverged" in answer.follow_up, "0.1" in answer.follow_up) == ("not-finite", False, False), answer


def test_a_worker_that_ray_lost_is_named_where_the_log_has_it(tmp_path: Path) -> None:
    died = "ray.exceptions.ActorUnavailableError: The actor 0a is unavailable: Socket closed\n"
    lost = "(raylet) A worker died by a system error. Worker IP address: 192.0.2.7 Worker port: 3811 Worker PID: 626\n"
    assert '"Worker IP address: 192.0.2.7 Worker port: 3811 Worker PID: 626"' in triaged(tmp_path, died + lost).follow_up
    assert "the raylet's lines beside it" in triaged(tmp_path, died).follow_up


def test_a_path_that_was_cut_off_is_not_where_an_error_was_raised(tmp_path: Path) -> None:
    text = 'Traceback (most recent call last):\n  File "/w/own/c.py", line 7, in load\n    check(x)\n'
    text += '  File "/w/scratch/cs\n/b/site-packages/d.py", line 3, in check\n    assert x\nAssertionError: odd\n'
    assert "load at /w/own/c.py:7" in triaged(tmp_path, text).follow_up


def test_what_jax_says_of_its_frames_is_no_error(tmp_path: Path) -> None:
    notice = "jax.errors.SimplifiedTraceback: For simplicity, JAX has removed its internal frames.\n\n"
    notice += "The above exception was the direct cause of the following exception:\n\n"
    text = 'Traceback (most recent call last):\n  File "/w/a.py", line 3, in main\n    go()\n'
    assert "diverse" in triaged(tmp_path, f"{notice}{text}jaxlib.XlaRuntimeError: UNKNOWN: diverse\n").evidence


def test_a_docker_daemon_that_listens_later_was_waited_for(tmp_path: Path) -> None:
    waits = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n"
    ready = 'time="2026-01-31T10:20:30Z" level=info msg="Daemon has completed initialization"\n'
    failed = "The command '/bin/sh -c make' returned a non-zero code: 2\n"
    assert "returned a non-zero" in triaged(tmp_path, waits + ready + failed).evidence
    assert "Docker daemon" in triaged(tmp_path, waits + failed).evidence


OWN_MESSAGES = {"cluster-gone", "head-lost"}
"""Rules for what the toolkit itself prints."""


def test_an_answer_to_a_log_that_is_not_of_a_job_names_no_script() -> None:
    known = signatures.load()
    steps = known.steps
    texts = [("", each.run) for each in (*known.sentences, *steps.kinds, *itertools.chain(*steps.follow_ups.values()))]
    for rule in known.rules:
        texts += [(rule.id, text) for text in (rule.advice, rule.next, *(case.run for case in rule.cases))]
    naming = {rule for rule, text in texts if "./scripts/" in filled(text, {"alone": "yes", "other": "yes"})}
    assert naming == OWN_MESSAGES


def test_a_step_that_begins_or_a_scaled_loss_shows_that_training_had_begun(tmp_path: Path) -> None:
    cut = 'Traceback (most recent call last):\n  File "/w/site-packages/httpx/_client.py", line 9, in send\n    yield\n'
    begun = "20:00:20    INFO Starting orchestrator step 3 (ckpt_step=0)\n"
    assert (triaged(tmp_path, cut).verdict, triaged(tmp_path, begun + cut).verdict) == ("Unknown", "Fail")
    amp = 'Traceback (most recent call last):\n  File "/w/site-packages/apex/amp/handle.py", line 123, in scale_loss\n    x()\n'
    assert triaged(tmp_path, amp + "RuntimeError: odd words\n").phase == "train"


def test_a_clean_up_that_finds_nothing_is_not_why_a_script_ended(tmp_path: Path) -> None:
    found_nothing = "error: resource(s) were provided, but no name was specified\n"
    assert triaged(tmp_path, f"No job exists.\n{found_nothing}").verdict == "Unknown"
    assert triaged(tmp_path, f"No job exists.\n{found_nothing.replace('name', 'namespace')}").verdict == "Blocked"


def test_that_a_run_may_resume_does_not_make_its_end_one_of_a_checkpoint(tmp_path: Path) -> None:
    call = "trainer.train(resume_from_checkpoint=checkpoint)"
    cut = f'Traceback (most recent call last):\n  File "/w/run.py", line 9, in main\n    {call}\n'
    assert triaged(tmp_path, cut).boundary == "unknown"
    assert triaged(tmp_path, cut.replace(call, "load_checkpoint(path)")).boundary == "checkpoint"


def test_a_save_that_failed_is_not_compared_with_a_model_that_loads(tmp_path: Path) -> None:
    frame = 'Traceback (most recent call last):\n  File "/w/site-packages/safetensors/torch.py", line 3, in {}\n    {}\n'
    error = "safetensors_rust.SafetensorError: Error while serializing: IoError(Os {{ code: {}, kind: Uncategorized }})\n"
    saving = triaged(tmp_path, frame.format("save_file", "save_file(tensors, name)") + error.format(1224))
    assert (saving.boundary, "room there" in saving.follow_up) == ("checkpoint", True)
    loading = triaged(tmp_path, frame.format("load_file", "load_file(name)") + error.format(2))
    assert "beside those of the model" in loading.follow_up


def test_what_a_handler_prints_of_an_exception_is_an_error(tmp_path: Path) -> None:
    printed = "Exception initializing thing: Thing.__init__() got an unexpected keyword argument 'q'\n"
    assert triaged(tmp_path, printed + "Restored the model.\n").evidence == printed.strip()
    checked = triaged(tmp_path, "Iteration 8350, loss = 0.482783\nCheck failed: proto.SerializeToOstream(&output)\n")
    assert (checked.verdict, checked.boundary) == ("Blocked", "disk")
    assert triaged(tmp_path, "Check failed: a.size() == b.size() (0 vs. 14) odd words\n").boundary != "Ray"


def test_that_wandb_lost_a_process_is_no_login(tmp_path: Path) -> None:
    lost = "wandb: ERROR Failed to sample metric: psutil.NoSuchProcess process no longer exists (pid=48)\n"
    assert triaged(tmp_path, lost).boundary != "tracker"


def test_a_library_of_a_line_that_breaks_off_is_named(tmp_path: Path) -> None:
    answer = triaged(tmp_path, RAISED + "OSError: libcusparse.so.11: cannot open\n")
    assert (answer.rule, answer.boundary) == ("binary-mismatch", "dependency")


def test_more_text_after_the_name_of_a_module_changes_nothing(tmp_path: Path) -> None:
    missing = RAISED + "ModuleNotFoundError: No module named 'thing.part'\n"
    both = triaged(tmp_path, missing), triaged(tmp_path, missing.rstrip() + " (rank 3)\n")
    assert {answer.rule for answer in both} == {"submodule-missing"}


LOGGED = [f"step:{step} - actor/loss:0.{step} - training/global_step:{step}\n" for step in (17, 18, 19)]
CAUGHT = 'Traceback (most recent call last):\n  File "/opt/kea/train.py", line 30, in {}\n    table.add(row)\n'


def test_an_exception_that_an_excerpt_outlived_is_named(tmp_path: Path) -> None:
    error = CAUGHT.format("log_samples") + "ValueError: a table of 3 columns got 4\n"
    answer = triaged(tmp_path, LOGGED[0] + error + LOGGED[1] + LOGGED[2])
    assert (answer.verdict, answer.evidence, answer.line) == ("Unknown", "ValueError: a table of 3 columns got 4", 5)
    assert answer.advice.startswith("The run went on after an error that it survived")


def test_steps_that_were_printed_late_do_not_outlive_what_ended_the_process(tmp_path: Path) -> None:
    error = CAUGHT.format("<module>") + "OSError: [Errno 122] Disk quota exceeded: 'model.pt'\n"
    answer = triaged(tmp_path, LOGGED[0] + error + LOGGED[1] + LOGGED[2])
    assert (answer.verdict, answer.boundary, answer.line) == ("Blocked", "disk", 5)
    assert triaged(tmp_path, LOGGED[0] + error + "".join(LOGGED[1:]) + "saving\nsaved\n").verdict == "Unknown"


def test_a_save_that_failed_is_no_checkpoint_to_resume_from(tmp_path: Path) -> None:
    saving = "Saving model checkpoint to /out/kea/{}\n"
    error = CAUGHT.format("save_model") + "OSError: [Errno 28] No space left on device\n"
    full = "".join(LOGGED) + saving.format("step-3") + error
    assert "/out/kea" not in triaged(tmp_path, full).follow_up
    assert "/out/kea/step-2" in triaged(tmp_path, saving.format("step-2") + full).follow_up
    part = "Configuration saved in /out/kea/step-3/checkpoint.json\n"
    assert "/out/kea" not in triaged(tmp_path, "".join(LOGGED) + saving.format("step-3") + part + error).follow_up
    assert "/out/kea/step-3" in triaged(tmp_path, "".join(LOGGED) + "Saved checkpoint to /out/kea/step-3\n" + error).follow_up


def test_of_several_processes_on_a_gpu_the_one_that_fits_the_counts_of_torch_is_the_runs_own(tmp_path: Path) -> None:
    full = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 960.00 MiB. GPU 0 has a total capacity of 10.75 GiB of"
        " which 824.50 MiB is free. Process 21 has 5.84 GiB memory in use. Process 23 has 4.10 GiB memory in use. Of the"
        " allocated memory 5.07 GiB is allocated by PyTorch, and 79.04 MiB is reserved by PyTorch but unallocated.\n"
    )
    assert "Other processes hold 4.1 of 10.8 GiB" in triaged(tmp_path, LOGGED[0] + full).advice


def test_a_warning_that_names_the_capability_of_a_gpu_is_not_asked_for_again(tmp_path: Path) -> None:
    warning = "UserWarning: Otter with CUDA capability sm_86 is not compatible with the current PyTorch installation.\n"
    error = RAISED + "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    assert "sm_86" in triaged(tmp_path, warning + error).follow_up
    assert "nvidia-smi --query-gpu" in triaged(tmp_path, error).follow_up


@pytest.mark.parametrize(
    "last",
    [
        "(A pid=7) [2026-01-31 10:00:00 E 7 7] logging.cc:115: Unhandled exception: N3c105ErrorE. what(): the experts differ\n",
        "ERROR: torch: the shapes of two experts differ\n",
    ],
)
def test_an_exception_of_compiled_code_in_the_last_line_does_not_clear_the_code_under_test(last: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, "building the model\n" + last)
    assert (answer.verdict, answer.confidence) == ("Unknown", "low")
    assert triaged(tmp_path, "building the model\nERROR: the experts differ\n").verdict == "Blocked"


@pytest.mark.parametrize(
    "line",
    [
        'Setting up PyTorch plugin "bias_act_plugin"... Failed!',
        "run.sh: 3: source: not found",
        "kea-0   0/1     CreateContainerConfigError   0          3s",
        "The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?",
        "012 (17.000.000) 2026-01-31 10:00:00 Job was held.",
        "srun: Job 17 step creation temporarily disabled, retrying (Requested nodes are busy)",
        "nvidia-fabricmanager-start.sh[47]: request to query NVSwitch failed with error:WARNING [NV_WARN_NOTHING_TO_DO]",
        "The currently activated Python version 3.13.0 is not supported by the project (~3.12).",
        "Cannot open data source: /data/kea.mp4: file not found",
    ],
)
def test_what_healthy_runs_print_before_their_start_costs_no_pass(line: str, tmp_path: Path) -> None:
    healthy = (Path(__file__).parent / "healthy" / "hf_trainer.log").read_text()
    answer = triaged(tmp_path, f"{line}\n{healthy}")
    assert answer.verdict == "Pass", answer


def test_a_fault_of_another_process_in_the_kernels_log_does_not_fail_a_healthy_run(tmp_path: Path) -> None:
    healthy = (Path(__file__).parent / "healthy" / "hf_trainer.log").read_text()
    line = "NVRM: Xid (PCI:0000:3b:00): 43, pid=20512, name=python, Ch 00000008\n"
    assert triaged(tmp_path, line + healthy).verdict == "Unknown"


def test_an_error_that_nothing_explains_is_followed_by_the_values_in_its_line(tmp_path: Path) -> None:
    log = (
        'Traceback (most recent call last):\n  File "/q/own/convert.py", line 9, in <module>\n    sizes = saved["dims"]\n'
        "KeyError: 'dims'\n"
    )
    answer = triaged(tmp_path, log)
    assert "print(list(saved)) just before that line: the key 'dims' is not in it" in answer.follow_up, answer
    cut = triaged(tmp_path, log.replace('sizes = saved["dims"]', "sizes = saved[("))
    assert "print(list" not in cut.follow_up
    assert "the keys that the mapping has there" in cut.follow_up, cut


def test_a_cut_off_traceback_that_ends_in_an_assertion_says_enough(tmp_path: Path) -> None:
    log = 'Traceback (most recent call last):\n  File "/q/own/main.py", line 9, in <module>\n    assert args.seq_l is not None\n'
    answer = triaged(tmp_path, log)
    assert "set the option --seq-l" in answer.follow_up, answer
    assert "missing here" not in answer.follow_up


def test_a_test_that_only_a_frame_names_is_repeated_by_that_name(tmp_path: Path) -> None:
    log = (
        'Traceback (most recent call last):\n  File "tests/test_spline.py", line 9, in test_spline\n    assert_close(a, b)\n'
        '  File "/opt/lib/python3.12/site-packages/torch/testing/_comparison.py", line 1520, in assert_close\n    raise x\n'
        "AssertionError: Tensor-likes are not close!\n"
    )
    answer = triaged(tmp_path, log)
    assert "pytest tests/test_spline.py -k test_spline -x" in answer.follow_up, answer


def test_a_test_in_a_folder_named_like_a_library_is_the_users(tmp_path: Path) -> None:
    log = (
        'Traceback (most recent call last):\n  File "/opt/lib/python3.9/site-packages/parameterized.py", line 5, in f\n'
        '    return func(*a)\n  File "/q/samples/torch/einsum_test.py", line 162, in test_einsum\n    assert_close(a, b)\n'
        '  File "/opt/lib/python3.9/site-packages/torch/testing/_asserts.py", line 971, in assert_close\n    raise x\n'
        "AssertionError: Tensor-likes are not close!\n"
    )
    answer = triaged(tmp_path, log)
    assert "test_einsum at /q/samples/torch/einsum_test.py:162" in answer.follow_up, answer


def test_a_row_without_a_field_fails_the_own_code_that_reads_it(tmp_path: Path) -> None:
    log = (
        'Traceback (most recent call last):\n  File "/opt/site-packages/datasets/arrow_dataset.py", line 3, in _map\n'
        '    f(row)\n  File "/q/own/data_processing.py", line 82, in generate_prompt\n'
        "    text = prefix + ins +\n"
        'TypeError: can only concatenate str (not "NoneType") to str\n'
    )
    answer = triaged(tmp_path, log)
    assert (answer.verdict, answer.boundary) == ("Fail", "data"), answer
    assert "print(prefix, ins) just before that line: what is None there" in answer.follow_up


@pytest.mark.parametrize(
    "built, said",
    [("ERROR: The command 'pip install torch' returned a non-zero code: 137\n", "build of the image"), ("", "dmesg -T")],
)
def test_a_kill_in_the_build_of_an_image_is_of_its_builder(built: str, said: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, f"Collecting torch\nKilled\n{built}")
    assert answer.rule == "launcher-killed"
    assert said in answer.follow_up, answer
    assert "sacct" not in answer.follow_up


def test_ctrl_c_of_the_driver_ended_the_run_though_its_workers_print_on(tmp_path: Path) -> None:
    log = (
        "Training Progress:  10%|#         | 1/10 [00:16<03:37,  1.31s/it]\n"
        'Traceback (most recent call last):\n  File "/q/own/run.py", line 80, in <module>\n    ray.get(results)\n'
        "KeyboardInterrupt\n"
    )
    late = "".join(f"(train pid=31) Epoch: {n} loss: 0.{n}\n" for n in range(1, 9))
    assert triaged(tmp_path, log + late).verdict == "Blocked"
    assert triaged(tmp_path, log + late.replace("(train pid=31) ", "")).verdict == "Unknown"


def test_an_environment_module_that_is_missing_did_not_end_a_run_that_loads_its_model(tmp_path: Path) -> None:
    log = (
        'Lmod has detected the following error: The following module(s) are unknown:\n"cuda/12.1.1"\n\n'
        "Loading weights: 100%|##########| 398/398 [00:01<00:00, 353.00it/s]\n"
        "[2026-01-31T20:29:32.229] error: *** JOB 8 ON kea CANCELLED AT 2026-01-31T20:29:32 DUE to SIGNAL Terminated ***\n"
    )
    assert triaged(tmp_path, log).boundary == "Slurm"


def test_code_that_shares_a_line_with_a_bar_is_quoted_without_it(tmp_path: Path) -> None:
    log = (
        'Traceback (most recent call last):\n  File "/q/own/encoder.py", line 216, in forward\n'
        " 87%|####### | 241/277 [04:05<00:35,  1.00it/s]    hidden = outputs.states[self.chosen]\n"
        "TypeError: odd index of the states\n"
    )
    answer = triaged(tmp_path, log)
    assert '216 ("hidden = outputs.states[self.chosen]")' in answer.follow_up, answer


@pytest.mark.parametrize("before", ["", "ninja: job 3\n"])
def test_a_line_that_ends_with_a_colon_is_explained_by_the_next_one_though_a_rule_knows_it(before: str, tmp_path: Path) -> None:
    log = f"{before}Error in call to target 'own.Encoder':\nAttributeError(\"'NoneType' object has no attribute 'values'\")\n"
    assert "AttributeError(" in triaged(tmp_path, log).evidence


def test_what_a_script_lacked_is_not_what_a_traceback_is_about(tmp_path: Path) -> None:
    log = (
        "/var/spool/job9/slurm_script: line 15: /var/spool/job9/secrets.sh: No such file or directory\n"
        'Traceback (most recent call last):\n  File "/q/own/rows.py", line 3, in work\n    x = rows[at]\n'
        "IndexError: list index out of range\n"
    )
    assert "just before it" not in triaged(tmp_path, log).follow_up
