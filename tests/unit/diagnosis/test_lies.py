"""A table of lies: complete, healthy logs pass; the same logs with one lie each never do."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hanging import cpu_seconds
from odd_numbers import explain_with_odd_numbers
from triaging import triaged

from mvp_helpers.diagnosis import scan, views
from mvp_helpers.log_text import log_lines

HEALTHY = {file.stem: file.read_text() for file in sorted((Path(__file__).parent / "healthy").glob("*.log"))}
"""Of complete runs: verl's are real (cut to the lines that matter), the others as the trainers' sources print them."""
TRAININGS = [name for name in HEALTHY if name not in ("pytest", "check_metrics")]
STEP_LINES = {
    "verl": r"(?m)^.*step:{step} - (?!val).*\n",
    "nemo_rl": r"(?m)^(?:\[\w+\] )?=+ Step {step}/.*\n[\s\S]*?  • (?:Policy )?[Ll]oss: .*\n",
    "megatron_bridge": r"(?m)^.*iteration +{step}/.*\n",
    "hf_": r"(?m)^.*\| {step}/8 \[.*\{{.*\n",
    "torchtitan": r"(?m)^.*step: +{step}  loss.*\n",
    "deepspeed_script": r"(?m)^.*step={step}, skipped.*\nepoch 0 step {step}: .*\n",
    "deepspeed": r"(?m)^.*step={step}, skipped.*\n",
    "lightning": r"(?m)^Epoch {step}: .*\n",
    "script_steps": r"(?m)^step {step}/.*\n",
    "script": r"(?m)^.*Epoch \W?{step}/.*\n",
    "megatron_deep": r"(?m)^steps: {step} .*\n",
    "openrlhf_ppo": r"(?m)^.*Global step {step}: .*\n",
    "openrlhf_sft": r"(?m)^Train step of epoch 0: .*\| {step}/4 .*\n",
}
"""A line with the metrics of a step, by the beginning of the log's name."""
SECOND = {"script_steps": 20, "megatron_bridge": 20, "torchtitan": 20, "deepspeed": 20}
TRACEBACK = 'Traceback (most recent call last):\n  File "{file}", line 11, in {function}\n    x()\n{error}\n'
LORA = TRACEBACK.format(
    file="/b/src/megatron/bridge/peft/lora.py", function="apply", error="ValueError: target modules not found"
)
IN_STEP = TRACEBACK.format(file="/v/verl/workers/actor/megatron_actor.py", function="update_policy", error="RuntimeError: odd")
FOREIGN = TRACEBACK.format(file="/q/w.py", function="work", error="KeyError: 'x'")


def of(name: str, table: dict[str, str]) -> str:
    return next(value for key, value in table.items() if name.startswith(key))


def steps(name: str, step: str = r"[1-9]\d*") -> re.Pattern[str]:
    return re.compile(of(name, STEP_LINES).format(step=step))


def second(name: str) -> int:
    return next((step for key, step in SECOND.items() if name.startswith(key)), 2)


def after_first_step(name: str, text: str) -> Callable[[str], str]:
    def insert(log: str) -> str:
        at = next(steps(name).finditer(log)).end()
        return log[:at] + text + log[at:]

    return insert


def edited(name: str, pattern: str, value: str) -> str:
    """Return the log in which one number of a middle step has another value."""
    line = steps(name, str(second(name))).search(HEALTHY[name])
    assert line, name
    changed = re.sub(pattern, value, line[0], count=1)
    assert changed != line[0], (name, line[0])
    return HEALTHY[name].replace(line[0], changed)


LOSS = r"(?i)((?:loss|lr)['\"]?\s*[:=]\s*\[?)'?[\d.e+-]+"


def number(value: str) -> Callable[[str], str]:
    return lambda name: edited(name, LOSS, rf"\g<1>{value}")


def inserted(text: str) -> Callable[[str], str]:
    return lambda name: after_first_step(name, text)(HEALTHY[name])


def at_start(text: str) -> Callable[[str], str]:
    return lambda name: text + HEALTHY[name]


def at_end(text: str) -> Callable[[str], str]:
    return lambda name: HEALTHY[name] + text


def without(name: str, step: int) -> str:
    shorter, count = steps(name, str(step)).subn("", HEALTHY[name], count=1)
    assert count, name
    return shorter


LIES: dict[str, Callable[[str], str]] = {
    "an end without any step": lambda name: steps(name).sub("", HEALTHY[name]),
    "one missing step": lambda name: without(name, second(name)),
    "a traceback in LoRA's set-up": at_start(LORA),
    "a traceback in a training step": inserted(IN_STEP),
    "a traceback of something else": inserted(FOREIGN),
    "a lone exception": inserted("torch.AcceleratorError: CUDA error: misaligned address\n"),
    "an ERROR line of the code under test": inserted("ERROR 2026-01-31 10:00:00 megatron.bridge: provider returned no weights\n"),
    "an ERROR line of something else": inserted("2026-01-31 10:00:00,123 - worker - ERROR - the reward server gave up\n"),
    "a swallowed failure of a save": inserted("WARNING Failed to save checkpoint to /ckpt/global_step_2, continuing\n"),
    "a swallowed exception of a save": inserted("Exception while saving checkpoint at step 2: quota\n"),
    "a fallback to another bridge": at_start("WARNING model not known to Megatron-Bridge, falling back to vanilla mbridge\n"),
    "a module of site-packages": at_start(
        "megatron.bridge.__file__: /opt/venv/lib/python3.12/site-packages/megatron/bridge/__init__.py\n"
    ),
    "adapters without parameters": at_start(
        "PEFT Adapter Information:\n  Adapter parameters: 0\n  Trainable percentage: 0.00%\n"
    ),
    "one role's adapters without parameters": inserted(
        "(critic) trainable params: 0 || all params: 494032768 || trainable%: 0.0\n"
    ),
    "NaN said in a sentence": inserted("rank 3: loss is NaN, skipping the batch\n"),
    "a job that was cancelled after it": at_end("slurmstepd: error: *** JOB 7 ON n CANCELLED AT 2026-01-01T00:00:00 ***\n"),
    "a command that failed after it": at_end("make: *** [Makefile:3: train] Error 1\n"),
    "an exit code after it": at_end("process exited with exit code 1\n"),
    "a second run that is cut off": lambda name: HEALTHY[name] + HEALTHY[name][: steps(name).search(HEALTHY[name]).end()],  # type: ignore[union-attr]
    "a second run that fails, after an xtrace": at_end("+ python3 -m verl.trainer.main_ppo a=1\n" + FOREIGN),
    "a second run that is cut off after its connection": at_end(
        "2026-01-31 10:00:00,000\tINFO worker.py:1841 -- Connecting to existing Ray cluster at address: 10.0.0.1:6379...\n"
    ),
    "an excerpt without its end": lambda name: HEALTHY[name][: list(steps(name).finditer(HEALTHY[name]))[-1].start()],
    **{
        f"a number that is {value}": number(value)
        for value in ("NaN", "nan", "Infinity", "-inf", "tensor(nan)", "'nan'", '"NaN"')
    },
    **{f"a number that is {value}": number(value) for value in ("None", "null", "inf", "np.float64(nan)", "-Infinity", "NAN")},
}
VERL_LIES: dict[str, Callable[[str], str]] = {
    "validation alone": lambda text: re.sub(r"(step:\d+) - .*", r"\1 - val-core/gsm8k/acc/mean:0.5", text),
    "another tool's bar": lambda text: (
        re.sub(r".*Training Progress: (?! *0%).*\n", "", text)
        + "Loading shards: 100%|####| 2/2 [00:01<00:00]\nTraining Progress: 100%|###| 2/2 [00:01<00:00]\n"
    ),
    "zero gradients in most steps": lambda text: re.sub(
        r"(step:(?:[3-9]|1\d) .*?actor/grad_norm:)[\d.]+", r"\g<1>0.0", text.replace(" training/", " training/")
    ),
    "a flat reward and a claim of learning": lambda text: text + "learning-signal passed over 20 steps\n",
    "a flat reward and a claim about rewards": lambda text: text + "the rewards are improving\n",
    "a string in JSON": lambda text: text.replace(
        "step:3 - ", '{"step": 3, "data": {"actor/loss": "NaN", "critic/score/mean": 0.1}}\nstep:3 - ', 1
    ),
    "the last steps missing": lambda text: re.sub(r".*step:20 - .*\n", "", text),
    "the first steps missing": lambda text: re.sub(r".*step:[12] - .*\n", "", text),
    "a bar of fewer steps": lambda text: re.sub(r"100%\|(.*?)\| 20/20", r"100%|\1| 10/10", text),
    "a bar of more steps": lambda text: re.sub(r"100%\|(.*?)\| 20/20", r"100%|\1| 40/40", text),
    "the numbers of one step in all": lambda text: re.sub(r"(_norm:)[\d.]+", r"\g<1>0.18909850716590", text),
    "a final validation of NaN": lambda text: text.replace("'Final validation metrics: None'", "step:20 - val-core/acc/mean:nan"),
}
OTHER_LIES = {
    "a failed test before": "=== 1 failed in 2.3s ===\n" + HEALTHY["pytest"],
    "tests that failed, and a summary that passed": HEALTHY["pytest"] + "FAILED tests/test_x.py::test_a - assert 1 == 2\n",
    "no test ran": HEALTHY["pytest"].replace("3 passed", "no tests ran"),
    "a check that failed": HEALTHY["check_metrics"].replace("│ PASS   │ min", "│ FAIL   │ min"),
    "a check of NaN": HEALTHY["check_metrics"].replace("0.9834", "nan   "),
    "a table that is cut off": HEALTHY["check_metrics"].rpartition("└")[0],
    "a job that Ray calls a success": "Job 'raysubmit_x1' succeeded\n",
    "an end as Megatron says it, alone": "[after training is done] datetime: 2026-01-31 10:00:00 \n",
    "prose about an end": "Training completed. Everything passed, 100%, and the reward improved.\n",
}


ODD_NUMBERS = [
    *(
        "1e999",
        "-1e309",
        "1.7976931348623157e+309",
        "1.#INF",
        "-1.#IND",
        "1.#QNAN",
        "∞",
        "-∞",
        ".nan",
        "-.inf",
        "np.nan",
        "math.inf",
    ),
    *(
        "tensor([nan])",
        "array([1.0, nan])",
        "[1.0, nan]",
        "NAN.",
        "nan%",
        "<nan>",
        "**nan**",
        "N/A",
        "undefined",
        "nil",
        "\uff4e\uff41\uff4e",
    ),
]
"""Values of a loss; no decimal number that 64 bits can hold."""
ZEROS = ["0.", ".0", "-0.0", "+0.0", "0.00000000", "0e0", "0,0", "[0.0]", "tensor(0.)", "0x0", "1e-45", "2.3e-310", "zero"]
"""Gradients of a run that updates nothing."""
DOUBTFUL_LINES = [
    # exceptions
    "   RuntimeError: odd shapes",
    " - ValueError: odd shapes",
    "❌ KeyError: 'x'",
    "AssertionError",
    "caught in update_policy: RuntimeError('odd')",
    'WARNING: going on after TypeError("odd") in the optimizer',
    "saving the state ... IndexError: odd",
    "Training Progress:   5%|█ | 1/20 [00:01<00:10, 1.0s/it]RuntimeError: odd",
    "An exception occurred while step 3 was trained, it is left out",
    "future: <Task finished coro=<reward() done> exception=KeyError('x')>",
    # lines that call themselves an error
    "*** ERROR: the scorer stopped",
    "10:00:00 ERROR the scorer stopped",
    "worker | ERROR | the scorer stopped",
    '{"level": "error", "msg": "the scorer stopped"}',
    "time=10:00 level=error msg=stopped",
    "2026-01-31 10:00:00 [error    ] the scorer stopped",
    "error: the scorer stopped",
    # other languages, signals, restarts
    "terminate called after throwing an instance of 'std::out_of_range'",
    "  what():  vector::_M_range_check",
    "thread 'main' panicked at src/store.rs:7:9",
    "panic: index out of range",
    "Some NCCL operations have failed or timed out",
    "run.sh: line 7:   812 Killed                  python3 train.py",
    "[INFO] [default] worker group FAILED. 2/3 attempts left",
    "The actor 5 was restarted because its process ended",
    # work that was left out
    "[rank1] OOM in the micro batch, it is dropped",
    "ran out of memory in step 3, next batch",
    "skipping batch 7: its shapes are odd",
    "update skipped",
    "⚠️ saving failed, next attempt at step 4",
    "checkpoint of step 3 is incomplete",
    "the disk did not take it: could not write shard 2",
    "the score failed for 3 answers, returning 0.0",
    # numbers outside of the trainers' own lines
    " validation loss at iteration 20 | lm loss value: NAN | lm loss PPL: NAN |",
    "    • Accuracy: nan",
    "wandb:       train/loss nan",
    "wandb:    actor/pg_loss inf",
    "│ loss      │ nan │",
    "step 3 loss -> nan",
    "nan found in the gradients",
    "non-finite gradients, this update does not count",
    "WARN: rank 1 grad_norm is not finite: nan",
    "losses of the ranks: [0.1, nan, 0.2]",
    "{'val-core/math/acc/mean@1': np.float64(nan)}",
    "perplexity: inf",
    # requests that were not met
    "Megatron-Bridge is not installed, using mbridge",
    "bridge: fallback",
    "AutoBridge failed, trying it with mbridge",
    "switching to mbridge",
    "verl @ /opt/venv/lib/python3.12/site-packages/verl",
    "<module 'megatron.bridge' from '/e/lib/python3.12/site-packages/megatron/bridge/__init__.py'>",
    "Wrapped 0 linear layers with LoRA",
    "no trainable parameters",
    "adapters of the actor: 0.0",
    "{'trainable_params': 0, 'all_params': 7}",
    "trainable params: 0, all params: 7",
    "0 of 7 parameters are trainable",
    "Trainable: 0.00%",
]
"""Each says that the run did not do all that it was to do."""
BAD_ENDS = [
    *("exit=1", "EXIT: 2", "Exit 1", "ret=1", "$? = 1", "returned 1", "++ return 1", '{"exit_code": 1}', "exit code: 0x1"),
    *("make[2]: *** [Makefile:9: run] Error 2", "gmake: *** [run] Error 1", "run.py FAILED", "FAILED", "run.sh failed at line 3"),
    *(
        "Job raysubmit_7 failed",
        "Status for job raysubmit_7: FAILED",
        "State: OUT_OF_MEMORY",
        "State: CANCELLED",
        "7|run|FAILED|1:0",
    ),
    *(
        "JobState=FAILED Reason=NonZeroExitCode",
        "Reason: OOMKilled",
        "Warning: BackoffLimitExceeded",
        "pod/run terminated (Error)",
    ),
    *("mpirun: a process exited on signal 9 (Killed).", "a process exited with non-zero status", "=>> PBS: job killed: walltime"),
    *("wandb: (failed 1). Press Control-C to abort syncing.", "Terminated", "Aborted", "^C", "died with <Signals.SIGSEGV: 11>"),
    *("TERM_RUNLIMIT: job killed after its limit", "Training failed", "run finished with errors", "the job was preempted"),
]
"""Reports of a bad end after the trainer's own report."""
CLAIMS = [
    "learning verified",
    "learning-signal: passed",
    "the mean reward went up",
    "rewards climbed",
    "scores are improving",
    "reward ↑",
]
NOT_RESUMED = ["will resume from {} if it exists", "could not resume from {}", "not resuming from {}", "resuming from {} failed"]
HARMLESS = [
    "[2026-01-31 10:20:30,732 E 7 9] (raylet) file_system_monitor.cc:116: /tmp/session_x is over 95% full, available space: 5",
    "Mean LoRA gradient: 0.00028",
    "(AgentLoopWorker pid=9) ERROR:2026-01-31 10:20:30,228:Failed to decode tool call: 'name' [repeated 2x across cluster]",
    "2026-01-31 01:47:43.533198: E external/local_xla/xla/x/cuda_fft.cc:467] Unable to register cuFFT factory: it has one",
    "W UserWarning: an engine is not available: ModuleNotFoundError(\"No module named 'x'\")",
    "  raise ValueError('only in a listing')",
    "Will skip the first 3 batches in the first epoch.",
    "Skipping the dataset's preparation, it is cached",
    "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
    "With less free memory the engine may run out of memory (OOM)",
    "Non-trainable params: 0",
    "trainable params: 12,288 || all params: 70,000,000,000 || trainable%: 0.0000",
    "max_grad_norm: inf",
    "tflops: 0.5  mfu: N/A",
    "process exited with exit code 0",
    "status: 200",
    "timeout: 600",
    "0 errors, 0 failed",
    "Megatron-Bridge is not installed",
    "Requirement already satisfied: verl in /opt/venv/lib/python3.12/site-packages",
    "/opt/venv/lib/python3.12/site-packages/verl/__init__.py:32: UserWarning: an engine is not available",
    "Saved checkpoint to /ckpt/global_step_2, no failed shards",
]
"""Lines of healthy runs."""


@pytest.mark.parametrize("name", HEALTHY)
def test_a_complete_healthy_log_passes(name: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, HEALTHY[name])
    assert answer.verdict == "Pass", answer
    assert "logged, all finite" in answer.evidence or name in ("pytest", "check_metrics")


def test_a_later_epoch_of_nemo_rl_is_the_same_run(tmp_path: Path) -> None:
    head, *done = re.split(r"(?m)^(?=\n=+ Step )", HEALTHY["nemo_rl_dpo"])
    end = "Max number of steps has been reached, stopping training early\n"
    done = [step.replace(end, "") for step in done]
    epoch = "".join(done)
    two = head.replace("Epoch 1/1", "Epoch 1/2") + epoch + f"\n{'=' * 25} Epoch 2/2 {'=' * 25}\n"
    answer = triaged(tmp_path, two + epoch + end)
    assert (answer.verdict, answer.evidence[:9], "runs" in answer.advice) == ("Pass", "steps 1-6", False), answer
    assert triaged(tmp_path, two + "".join(done[:2]) + end).verdict == "Pass", "the limit lies within the epoch"
    assert triaged(tmp_path, two + done[0] + done[2] + end).evidence == "no metrics of step 5"
    again = triaged(tmp_path, two + epoch + end + HEALTHY["nemo_rl_dpo"])
    assert (again.verdict, again.evidence[:9]) == ("Pass", "steps 1-3")
    assert "the last of 2 runs" in again.advice


@pytest.mark.parametrize("name", ["verl_ppo", "verl_grpo"])
def test_steps_that_take_more_seconds_than_there_are_steps_pass(name: str, tmp_path: Path) -> None:
    slow = re.sub(r"(?m)(step:[1-9]\d* - .*)$", r"\1 - perf/time_per_step:311.7 - perf/throughput:2.0", HEALTHY[name])
    assert "time_per_step:311.7" in slow
    assert triaged(tmp_path, slow).verdict == "Pass"


@pytest.mark.parametrize("name", TRAININGS)
def test_no_lie_in_a_healthy_log_passes(name: str, tmp_path: Path) -> None:
    passed = [lie for lie, told in LIES.items() if triaged(tmp_path, told(name)).verdict in ("Pass", "Noise")]
    assert passed == []


@pytest.mark.parametrize("lie", VERL_LIES)
def test_no_lie_about_verls_own_lines_passes(lie: str, tmp_path: Path) -> None:
    for name in ("verl_ppo", "verl_grpo"):
        told = VERL_LIES[lie](HEALTHY[name])
        assert told != HEALTHY[name] or lie == "a final validation of NaN"
        if told != HEALTHY[name]:
            assert triaged(tmp_path, told).verdict not in ("Pass", "Noise"), name


def passing(tmp_path: Path, told: dict[str, str]) -> list[str]:
    return [lie for lie, text in told.items() if triaged(tmp_path, text).verdict in ("Pass", "Noise")]


@pytest.mark.parametrize("name", ["verl_ppo", "nemo_rl_ppo", "hf_trainer", "torchtitan", "openrlhf_sft"])
def test_no_odd_spelling_of_a_number_passes(name: str, tmp_path: Path) -> None:
    assert passing(tmp_path, {value: number(value)(name) for value in ODD_NUMBERS}) == []


@pytest.mark.parametrize(
    ("name", "gradient"),
    [
        ("verl_ppo", r"(actor/grad_norm:)[\d.]+"),
        ("nemo_rl_ppo", r"(Critic Grad Norm: )[\d.]+"),
        ("megatron_bridge", r"(grad norm: )[\d.]+"),
        ("openrlhf_ppo", r"('actor_grad_norm': )[\d.]+"),
    ],
)
def test_no_spelling_of_a_zero_gradient_in_all_steps_passes(name: str, gradient: str, tmp_path: Path) -> None:
    assert passing(tmp_path, {zero: re.sub(gradient, rf"\g<1>{zero}", HEALTHY[name]) for zero in ZEROS}) == []


@pytest.mark.parametrize("name", ["verl_ppo", "hf_trainer", "megatron_bridge"])
def test_no_line_that_speaks_against_the_run_passes(name: str, tmp_path: Path) -> None:
    assert passing(tmp_path, {line: inserted(f"{line}\n")(name) for line in DOUBTFUL_LINES}) == []
    ray = {line: inserted(f"\x1b[36m(Worker pid=7, ip=10.0.0.2)\x1b[0m {line}\n")(name) for line in DOUBTFUL_LINES}
    assert passing(tmp_path, ray) == []


@pytest.mark.parametrize("name", ["verl_sft", "deepspeed"])
def test_no_report_of_a_bad_end_after_the_end_passes(name: str, tmp_path: Path) -> None:
    assert passing(tmp_path, {line: HEALTHY[name] + f"{line}\n" for line in BAD_ENDS}) == []


@pytest.mark.parametrize("name", ["verl_ppo", "hf_trainer", "megatron_bridge", "torchtitan", "nemo_rl_sft"])
def test_lines_of_healthy_runs_do_not_prevent_a_pass(name: str, tmp_path: Path) -> None:
    for lie in (inserted, at_start, at_end):
        assert passing(tmp_path, {line: lie(f"{line}\n")(name) for line in HARMLESS}) == HARMLESS, lie


@pytest.mark.parametrize("name, reward", [("openrlhf_ppo", r"('reward': )[\d.]+"), ("nemo_rl_grpo", r"(Avg Reward: )[\d.]+")])
def test_a_claim_of_learning_does_not_pass_with_a_flat_reward(name: str, reward: str, tmp_path: Path) -> None:
    flat = re.sub(reward, r"\g<1>0.2", HEALTHY[name])
    assert triaged(tmp_path, flat).verdict == "Pass"
    assert passing(tmp_path, {claim: f"{flat}{claim}\n" for claim in CLAIMS}) == []
    assert passing(tmp_path, {claim: f"{HEALTHY[name]}{claim}\n" for claim in CLAIMS}) == CLAIMS


def test_a_line_about_resuming_explains_missing_steps_only_if_it_was_done(tmp_path: Path) -> None:
    rest = re.sub(r".*step:(?:[1-9]|10) - .*\n", "", HEALTHY["verl_ppo"])
    lines = {line: f"{line.format('/ckpt/global_step_10')}\n{rest}" for line in NOT_RESUMED}
    assert passing(tmp_path, lines) == []


def test_updates_that_were_mostly_skipped_are_no_training(tmp_path: Path) -> None:
    megatron, deepspeed = HEALTHY["megatron_bridge"], HEALTHY["deepspeed"]
    told = {
        "all skipped": megatron.replace("skipped iterations:   0", "skipped iterations:  10"),
        "lost to NaN": megatron.replace("nan iterations:   0", "nan iterations:   2"),
        "half skipped": re.sub(r"step=(\d)0, skipped=0", r"step=\g<1>0, skipped=\g<1>8", deepspeed),
    }
    assert passing(tmp_path, told) == []
    assert triaged(tmp_path, megatron.replace("skipped iterations:   0", "skipped iterations:   1")).verdict == "Pass"
    excerpt = triaged(tmp_path, "[INFO] [Rank 0] step=2000, skipped=1999, lr=[0.0], mom=[0.0]\n")
    assert (excerpt.verdict, excerpt.evidence) == ("Fail", "1999 of 2000 updates were skipped")
    assert triaged(tmp_path, "[INFO] [Rank 0] step=8, skipped=7, lr=[0.0], mom=[0.0]\n").verdict == "Unknown"


@pytest.mark.parametrize("name", ["nemo_rl_sft", "megatron_bridge", "torchtitan", "verl_ppo"])
def test_tests_and_checks_that_pass_do_not_end_a_training(name: str, tmp_path: Path) -> None:
    cut = HEALTHY[name][: steps(name, str(second(name))).search(HEALTHY[name]).end()]  # type: ignore[union-attr]
    launcher = "[2026-01-31 10:01:00,100] [INFO] [launch.py:351:main] Process 7 exits successfully.\n"
    ends = {"checks": HEALTHY["check_metrics"], "tests": "=== 3 passed in 2.31s ===\n", "launcher": launcher}
    assert passing(tmp_path, {end: cut + text for end, text in ends.items()}) == []


def test_a_check_whose_value_is_beyond_its_limit_does_not_pass(tmp_path: Path) -> None:
    for value in ("2.0103225708007812", "9999999999999999", "9" * 5000, "1.2.3", "-"):
        assert triaged(tmp_path, HEALTHY["check_metrics"].replace("1.0103225708007812", value)).verdict == "Fail", value


@pytest.mark.parametrize("name", HEALTHY)
def test_no_odd_number_prevents_an_answer(name: str, tmp_path: Path) -> None:
    explain_with_odd_numbers(tmp_path, HEALTHY[name])


@pytest.mark.parametrize("sign", ["-", "|", ":", "=", "\r", "/", "[", '"', "_", "a_", "9"])
@pytest.mark.parametrize("start", ["", "loss: ", "Error: ", "Results saved ", "Epoch 1 loss: 1 "])
def test_a_line_as_long_as_lines_are_read_delays_no_answer(start: str, sign: str, tmp_path: Path) -> None:
    """A pattern that tries each part of such a line again and again takes minutes; the slowest needs three seconds."""
    line = start + sign * (log_lines.LONGEST_LINE // len(sign)) + "x\n"
    with cpu_seconds(10):
        assert triaged(tmp_path, 3 * line).verdict != "Pass"


def test_a_validation_is_no_training_step(tmp_path: Path) -> None:
    healthy = HEALTHY["torchtitan"]
    assert triaged(tmp_path, healthy.replace("INFO - step: 20", "INFO - validate step: 20")).verdict == "Unknown"
    validated = healthy.replace("INFO - Sleeping", "INFO - validate step: 30  loss:  nan  memory:  9.46GiB(64.99%)\n[rank0]: x")
    assert triaged(tmp_path, validated).verdict == "Fail"


ONE_LOSS = re.compile(
    r"(?i)((?<![a-z_])(?:lm |mlm |train[_/ ]|total |avg )?loss['\"]?\s{0,3}[:=]?\s{0,3}['\"]?)-?\d+\.\d+(?:e[-+]?\d+)?"
)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        *("hf_notebook", "hf_trainer", "hf_trainer_strings", "lightning", "megatron_bridge", "megatron_deepspeed"),
        *("nemo_rl_sft", "openrlhf_sft", "script_epochs", "script_steps", "torchtitan", "verl_sft"),
    ],
)
def test_a_loss_that_no_step_changes_does_not_pass(
    name: str, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "LARGE", 0 if large else scan.LARGE)
    answer = triaged(tmp_path, ONE_LOSS.sub(r"\g<1>1.2345", HEALTHY[name]))
    assert answer.verdict == "Unknown" and "nothing was updated" in answer.evidence, answer
    assert "requires_grad" in answer.follow_up


@pytest.mark.parametrize("lie", OTHER_LIES)
def test_no_lie_about_tests_checks_and_jobs_passes(lie: str, tmp_path: Path) -> None:
    assert triaged(tmp_path, OTHER_LIES[lie]).verdict not in ("Pass", "Noise")


@pytest.mark.parametrize(
    ("lie", "verdict"),
    [
        ("a traceback in LoRA's set-up", "Fail"),
        ("a traceback in a training step", "Fail"),
        ("a traceback of something else", "Unknown"),
        ("an ERROR line of the code under test", "Fail"),
        ("a swallowed failure of a save", "Fail"),
        ("adapters without parameters", "Fail"),
        ("a number that is NaN", "Fail"),
        ("a module of site-packages", "Blocked"),
    ],
)
def test_an_error_that_a_run_outlived_is_named_and_judged_by_whose_it_is(lie: str, verdict: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, LIES[lie]("verl_ppo"))
    assert answer.verdict == verdict, answer
    assert "traceback" not in lie or ("after an error that it survived" in answer.advice and answer.line)


def test_an_excerpt_without_its_end_says_what_is_known(tmp_path: Path) -> None:
    text = HEALTHY["verl_ppo"]
    begin, end = text.index("step:17 - "), text.index("step:20 - ")
    answer = triaged(tmp_path, text[text.rindex("\n", 0, begin) + 1 : text.rindex("\n", 0, end) + 1])
    assert answer.verdict == "Unknown"
    assert answer.evidence == "steps 17-19 logged, all finite; the end is not in this log"
    assert "Nothing in it speaks against the run" in answer.advice and not re.search(
        "hang|py-spy|killed", f"{answer.advice} {answer.follow_up}"
    )


def test_a_resumed_run_passes_from_the_step_after_its_checkpoint(tmp_path: Path) -> None:
    resumed = re.sub(r".*step:(?:[1-9]|10) - .*\n", "", HEALTHY["verl_ppo"])
    assert triaged(tmp_path, resumed).verdict == "Unknown"
    loaded = "(TaskRunner pid=1) Resuming from /private/jobs/a/checkpoints/global_step_10\n"
    assert triaged(tmp_path, loaded + resumed).verdict == "Pass"


def test_a_resumed_run_that_counts_epochs_passes_from_the_step_after_its_checkpoint(tmp_path: Path) -> None:
    resumed = re.sub(r".*\| [123]/8 .*\n", "", HEALTHY["hf_trainer"])
    assert triaged(tmp_path, resumed).verdict == "Unknown"
    found = "Checkpoint detected, resuming training at last_checkpoint='/out/checkpoint-{}'.\n"
    assert triaged(tmp_path, found.format(3) + resumed).verdict == "Pass"
    for step in (2, 4, 5):
        assert triaged(tmp_path, found.format(step) + resumed).verdict == "Unknown", step
    assert triaged(tmp_path, found.format(3) + steps("hf_trainer", "5").sub("", resumed)).verdict == "Unknown"


def test_a_resumed_run_of_torchtitan_passes_from_the_step_that_it_names(tmp_path: Path) -> None:
    healthy = HEALTHY["torchtitan"]
    resumed = re.sub(r".*step: +(?:1|10)  loss.*\n", "", healthy)
    assert triaged(tmp_path, resumed).verdict == "Unknown"
    named = resumed.replace("Training starts at step 1,", "Training starts at step {},")
    assert triaged(tmp_path, named.format(11)).verdict == "Pass"
    assert triaged(tmp_path, named.format(6)).verdict == "Unknown", "step 10 is missing"
    assert triaged(tmp_path, named.format(29)).verdict == "Unknown", "step 20 was before it"


def test_a_run_that_resumes_in_the_log_of_one_that_failed_is_another_run(tmp_path: Path) -> None:
    healthy = HEALTHY["torchtitan"]
    failed = healthy[: steps("torchtitan", "10").search(healthy).end()] + IN_STEP  # type: ignore[union-attr]
    resumed = re.sub(r".*step: +(?:1|10)  loss.*\n", "", healthy).replace("at step 1,", "at step 11,")
    answer = triaged(tmp_path, failed + resumed)
    assert (answer.verdict, "last of 2 runs" in answer.advice) == ("Pass", True), answer
    assert triaged(tmp_path, resumed + failed).verdict == "Fail"


@pytest.mark.parametrize("name, begin", [("torchtitan", "Training starts"), ("hf_trainer", r"\*{5} Running")])
def test_a_beginning_that_every_rank_reports_is_that_of_one_run(name: str, begin: str, tmp_path: Path) -> None:
    ranks = re.sub(rf"(?m)^(.*{begin}.*\n)", r"\1\1\1\1", HEALTHY[name], count=1)
    answer = triaged(tmp_path, ranks)
    assert (answer.verdict, answer.advice) == ("Pass", "")
    assert "last of 2 runs" in triaged(tmp_path, ranks + ranks).advice


def test_epochs_that_are_rounded_hide_no_step_and_pretend_none(tmp_path: Path) -> None:
    line = "{{'loss': 2.4, 'grad_norm': 1.6, 'learning_rate': 4e-05, 'epoch': {:.2f}}}\n"
    logged = [line.format(step * 20 / 468) for step in range(1, 47)]
    end = "{'train_runtime': 8.1, 'train_loss': 2.0, 'epoch': 2.0}\n"
    assert triaged(tmp_path, "".join(logged) + end).verdict == "Pass"
    assert triaged(tmp_path, "".join(logged[:-1]) + end).verdict == "Unknown"
    under_a_bar = end.replace("\n", "\r100%|###| 468/468 [00:08<00:00, 58.5it/s]\n")
    assert triaged(tmp_path, "".join(logged) + under_a_bar).verdict == "Pass"
    assert triaged(tmp_path, "".join(logged[9:]) + end).verdict == "Unknown"
    resumed = "INFO - Resuming from checkpoint: out/checkpoint-180\n"
    assert triaged(tmp_path, resumed + "".join(logged[9:]) + end).verdict == "Pass"


def test_a_deepspeed_run_that_shows_no_loss_proves_no_success(tmp_path: Path) -> None:
    answer = triaged(tmp_path, re.sub(r"epoch 0 step.*\n", "", HEALTHY["deepspeed"]))
    assert (answer.verdict, "no loss" in answer.evidence) == ("Unknown", True)


@pytest.mark.parametrize("loss", ["None", "null", "nan", "inf", "-inf", "tensor(nan)"])
def test_a_loss_of_a_script_that_is_no_number_is_no_success(loss: str, tmp_path: Path) -> None:
    spoilt = HEALTHY["deepspeed"].replace("loss: 2.2000", f"loss: {loss}")
    assert spoilt != HEALTHY["deepspeed"] and triaged(tmp_path, spoilt).verdict in ("Fail", "Unknown")
    assert triaged(tmp_path, "aux_loss: None\n" + HEALTHY["deepspeed"]).verdict == "Pass", "an option"


def test_rounded_epochs_that_begin_between_two_logged_steps_hide_the_first_ones(tmp_path: Path) -> None:
    line = "{{'loss': 2.4, 'grad_norm': 1.6, 'learning_rate': 4e-05, 'epoch': {:.2f}}}\n"
    end = "{'train_runtime': 800.0, 'train_steps_per_second': 0.5, 'train_loss': 2.0, 'epoch': 2.0}\n"
    every_20th = [step / 200 for step in range(20, 401, 20)]

    def verdict(epochs: list[float]) -> str:
        return triaged(tmp_path, "".join(map(line.format, epochs)) + end).verdict

    assert verdict(every_20th) == verdict([1 / 200, *every_20th]) == "Pass"
    assert verdict([0.06, *(epoch + 0.06 for epoch in every_20th[:-1]), 2.0]) == "Unknown"


RATES = {
    "linear": [2e-5 * (1 - step / 400) for step in range(1, 401)],
    "cosine": [1e-5 * (1 + math.cos(math.pi * step / 400)) for step in range(1, 401)],
}


@pytest.mark.parametrize("rates", RATES.values(), ids=RATES)
def test_a_schedule_shows_the_line_that_rounded_epochs_hide(rates: list[float], tmp_path: Path) -> None:
    end = "{'train_runtime': 800.0, 'train_steps_per_second': 0.5, 'train_loss': 2.0, 'epoch': 2.0}\n"
    lines = [
        f"{{'loss': 2.4, 'learning_rate': {rate!r}, 'epoch': {round(step / 200, 2)}}}\n" for step, rate in enumerate(rates, 1)
    ]
    assert triaged(tmp_path, "".join(lines) + end).verdict == "Pass"
    answer = triaged(tmp_path, "".join(lines[:150] + lines[151:]) + end)
    assert (answer.verdict, "learning rate leaps" in answer.evidence) == ("Unknown", True)


def test_rates_that_do_not_change_evenly_hide_no_line(tmp_path: Path) -> None:
    end = "{'train_runtime': 60.0, 'train_steps_per_second': 0.5, 'train_loss': 2.0, 'epoch': 0.3}\n"
    line = "{{'loss': 2.4, 'learning_rate': {}, 'epoch': {:.2f}}}\n"
    rounded = [f"{2e-5 * (1 - step / 4000):.2e}" for step in range(1, 31)]
    steps = ["2e-05"] * 10 + ["1e-05"] * 10 + ["5e-06"] * 10
    warm_up = [f"{min(step, 5) * 4e-6 * (1 if step < 6 else 1 - step / 4000)}" for step in range(1, 31)]
    for rates in (rounded, steps, warm_up):
        log = "".join(line.format(rate, step / 100) for step, rate in enumerate(rates, 1))
        assert triaged(tmp_path, log + end).verdict == "Pass", rates


def test_exact_epochs_show_each_line_that_is_not_there(tmp_path: Path) -> None:
    end = "{'train_runtime': 800.0, 'train_steps_per_second': 0.5, 'train_loss': 2.0, 'epoch': 1.0}\n"
    lines = [f"{{'loss': 2.4, 'learning_rate': 4e-05, 'epoch': {step / 400}}}\n" for step in range(1, 401)]
    assert triaged(tmp_path, "".join(lines) + end).verdict == "Pass"
    assert triaged(tmp_path, "".join(lines[:150] + lines[151:]) + end).verdict == "Unknown"


def test_the_first_step_and_uneven_intervals_of_few_steps_are_no_gap(tmp_path: Path) -> None:
    line = "{{'loss': 2.4, 'learning_rate': 4e-05, 'epoch': {}}}\n"
    end = "{'train_runtime': 545.4, 'train_steps_per_second': 0.037, 'train_loss': 0.3, 'epoch': 1.9}\n"
    assert triaged(tmp_path, "".join(map(line.format, (0.09, 0.46, 0.92, 1.43, 1.9))) + end).verdict == "Pass"


@pytest.mark.parametrize(
    "line", ["{'eval_loss': None, 'epoch': 1.0}\n", "kl: 23.1, reconstruction loss: None\n", "test loss: 1.#QNAN\n"]
)
def test_a_loss_that_is_none_beside_the_lines_of_steps_is_no_success(line: str, tmp_path: Path) -> None:
    lines = "".join(f"{{'loss': 2.4, 'learning_rate': 4e-05, 'epoch': {step / 4}}}\n" for step in (1, 2, 3, 4))
    end = "{'train_runtime': 8.0, 'train_steps_per_second': 0.5, 'train_loss': 2.0, 'epoch': 1.0}\n"
    assert triaged(tmp_path, lines + end).verdict == "Pass"
    assert triaged(tmp_path, lines + line + end).verdict in ("Unknown", "Fail")


def test_one_rounded_epoch_proves_no_run_of_many_steps(tmp_path: Path) -> None:
    line = "{'loss': 0.1, 'grad_norm': 1.6, 'learning_rate': 4e-05, 'epoch': 0.0}\n"
    end = "{'train_runtime': 1700.0, 'train_steps_per_second': 0.058, 'train_loss': 0.1, 'epoch': 0.01}\n"
    assert triaged(tmp_path, line * 5 + end).verdict == "Unknown"


def test_the_same_first_line_after_a_harmless_message_begins_no_other_run(tmp_path: Path) -> None:
    begins = "2026-01-31 10:00:0{},000 - my_job - INFO - Reading the environment of this job\n"
    harmless = "Unable to find hostfile, will proceed with training with local resources only.\n"
    answer = triaged(tmp_path, begins.format(1) + harmless + "reading rows\n" * 5 + begins.format(2) + FOREIGN)
    assert "runs in the log" not in answer.advice and answer.evidence == "KeyError: 'x'"


def test_a_last_run_that_has_only_begun_is_not_judged_by_the_one_before_it(tmp_path: Path) -> None:
    begins = "2026-01-31 10:00:0{},000 - my_job - INFO - Reading the environment of this job\n"
    answer = triaged(tmp_path, begins.format(1) + "reading rows\n" * 5 + FOREIGN + begins.format(2) + "reading rows\n")
    assert answer.verdict == "Unknown" and "last of 2 runs" in answer.advice and "KeyError: 'x'" in answer.advice


@pytest.mark.parametrize("name", TRAININGS)
def test_of_several_runs_the_last_one_counts_and_the_others_are_mentioned(name: str, tmp_path: Path) -> None:
    failed = HEALTHY[name][: steps(name).search(HEALTHY[name]).end()] + FOREIGN  # type: ignore[union-attr]
    header = "2026-01-31 10:00:00,000\tINFO worker.py:1841 -- Connecting to existing Ray cluster at address: 10.0.0.1:6379...\n"
    answer = triaged(tmp_path, failed + header + HEALTHY[name])
    assert answer.verdict == "Pass", answer
    assert "last of 2 runs" in answer.advice and "KeyError: 'x'" in answer.advice


@pytest.mark.parametrize(("last", "verdict"), [(2.0, "Unknown"), (2.5, "Unknown"), (3.0, "Pass")])
def test_epochs_that_begin_with_0_are_not_counted_from_0(tmp_path: Path, last: float, verdict: str) -> None:
    """A run that saves its first metrics at epoch 0.0 has lost its last epoch like any other."""
    epochs = [at / 2 for at in range(int(last * 2) + 1)]
    log = tmp_path / "some.log"
    log.write_text(
        "***** Running training *****\n"
        + "".join(f"{{'loss': 0.5, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': {epoch}}}\n" for epoch in epochs)
        + "{'train_runtime': 9.0, 'train_samples_per_second': 1.0, 'train_steps_per_second': 1.0, "
        + "'train_loss': 0.5, 'epoch': 3.0}\n"
    )
    assert views.triage_log(log).verdict == verdict
