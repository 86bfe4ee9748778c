"""Every pass criterion of NeMo-RL against doctored evidence: each lie is caught, and a criterion that no lie trips fails here.

The table of lies: a name, the runs whose evidence it doctors, the change, and the criterion that must not be met.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from dotted import nested, put

from mvp_helpers.base.verdict import Check, Verdict
from mvp_helpers.diagnosis import views
from mvp_helpers.e2e import revision
from mvp_helpers.e2e.execute import Outcome
from mvp_helpers.e2e.requests import description, levels
from mvp_helpers.e2e.requests.description import config_problems
from mvp_helpers.e2e.requests.levels import Planned
from mvp_helpers.e2e.steps import criteria, learning_criteria
from mvp_helpers.e2e.steps.criteria import Facts, LogEvidence, MetricsFile
from mvp_helpers.e2e.steps.learning_criteria import Baseline
from mvp_helpers.trainers.trainer import Metrics

NEMO = description.load("nemo-rl")
TRAINER = NEMO.load_trainer()
ON_REQUEST = ["delta", "non-colocated", "lora", "sft-resume", "vlm", "audio", "moe", "eagle3", "quant"]
RUNS = {
    f"{one.key}-{one.run.name}": revision.chosen(one, one.run.choices[-1]) if one.run.choices else one
    for one in levels.plan(NEMO, list(NEMO.levels), ON_REQUEST, {}, [])
}
ERROR, LOW, HIGH = "train/token_mult_prob_error", "train/probs_ratio_clamped_min", "train/probs_ratio_clamped_max"
SCRIPTS = {"lora-save": ['max(data["train/reward"]) > 0.03'], "quant-rollout": ['data["train/gen_kl_error"]["1"] < 0.003']}
"""Assertions that only the scripts make."""


def metrics_of(step: int) -> dict[str, float]:
    return {
        "train/loss": 1 / step,
        "train/reward": 0.1 + step / 100,
        ERROR: 1.01 + step / 10000,
        LOW: 0.99,
        HIGH: 1.01,
        "train/gen_kl_error": 0.0003 + step / 1e6,
        "train/grad_norm": 0.5 + step / 100,
        "train/draft_loss": 1 / step,
        "train/mean_gen_tokens_per_sample": 100.0 + step,
        "validation/accuracy": 0.1 + step / 50,
    }


@dataclass
class Case:
    """The evidence of one run, healthy until it is doctored."""

    one: Planned
    log: list[str]
    configs: list[dict[str, Any]]
    printed: list[dict[str, Any]]
    metrics: list[Metrics]
    assertions: list[str]
    exit_code: int = 0
    checkpoint: str = ""
    moved: str = ""
    problem: str = ""
    baseline: Metrics | None = None

    def judge(self, folder: Path) -> tuple[list[Check], Verdict]:
        log = folder / "wrapper.log"
        shown = [line for config in self.printed for line in ("Final config:", repr(config))]
        log.write_text("\n".join([*shown, *self.log]) + "\n")
        expect = self.one.expect(NEMO)
        outcome = Outcome(ended="exit", exit_code=self.exit_code, seconds=1.0, log_bytes=log.stat().st_size)
        expected = self.one.expects(NEMO)
        facts = Facts(
            one=self.one,
            trainer=TRAINER,
            expect=expect,
            outcome=outcome,
            seen=LogEvidence(TRAINER, expect, log, NEMO.tested_modules()).read(),
            files=[
                MetricsFile(folder / f"metrics-{at}.json", steps, self.problem if at == 1 else "", self.assertions)
                for at, steps in enumerate(self.metrics, 1)
            ],
            triage=views.triage_log(log),
            config=self.configs[0],
            config_problems=[
                text for config, each in zip(self.configs, expected, strict=True) for text in config_problems(config, each)
            ],
            names=NEMO.metric_names(),
            printed=TRAINER.printed_configs(log),
            expected=expected,
            checkpoint=self.checkpoint,
            moved=self.moved,
        )
        checks = criteria.judge(facts)
        if self.one.level.learning:
            given = Baseline(self.baseline) if self.baseline else None
            checks += learning_criteria.judge(facts, given, 512.0)[0]
        return checks, criteria.verdict(checks, outcome, facts.triage)[0]


def healthy(name: str) -> Case:
    one = RUNS[name]
    log = ["▶ Setting up Megatron policy", "• Draft Loss: 0.5", "(VllmWorker pid=1) VllmQuantInternalWorkerExtension"]
    log += ["REFIT_ZMQ_DELTA_CHANGE changed_elements=10 total_elements=1000 changed_pct=1"]
    for first, last in one.trainings:
        for step in range(first, last + 1):
            log += [f"========================= Step {step}/{last} =========================", f"• Loss: {1 / step:.4f}"]
        log += ["Max number of steps has been reached, stopping training early"]
    log += ["✓ train/loss 2 is equal"]
    configs = []
    for expect in one.expects(NEMO):
        wanted = {**expect.absent, **expect.config, **dict.fromkeys(expect.set, "nvfp4.yaml")}
        configs.append(nested({**wanted, "policy.max_new_tokens": 512}))
    metrics = [{step: metrics_of(step) for step in range(first, last + 1)} for first, last in one.trainings]
    if one.level.learning:
        metrics[-1][0] = {"validation/accuracy": 0.1}
    return Case(one, log, configs, copy.deepcopy(configs), metrics, SCRIPTS.get(name, []))


Doctor = Callable[[Case], None]


def series(name: str, value: Callable[[int], float], training: int = -1) -> Doctor:
    def doctor(case: Case) -> None:
        for step, values in case.metrics[training].items():
            if name in values:
                values[name] = value(step)

    return doctor


def gone(name: str) -> Doctor:
    return lambda case: [values.pop(name, None) for values in case.metrics[-1].values()] and None


def setting(key: str, value: object, where: str = "printed", training: int = -1) -> Doctor:
    def doctor(case: Case) -> None:
        put(getattr(case, where)[training], key, value)

    return doctor


def without(text: str) -> Doctor:
    def doctor(case: Case) -> None:
        kept = [line for line in case.log if text not in line]
        assert len(kept) < len(case.log), f"the healthy log has no '{text}'"
        case.log = kept

    return doctor


def added(*lines: str) -> Doctor:
    return lambda case: case.log.__setitem__(slice(1, 1), lines)


def fact(**values: object) -> Doctor:
    return lambda case: [setattr(case, name, value) for name, value in values.items()] and None


def fewer(step: int, training: int = -1) -> Doctor:
    return lambda case: case.metrics[training].pop(step) and None


TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/b/src/megatron/bridge/models/qwen/qwen2_bridge.py", line 7, in build',
    "AttributeError: 'Qwen2Provider' object has no attribute 'rotary_base'",
)
MEGATRON, DTENSOR = "policy.megatron_cfg.enabled", "policy.dtensor_cfg.enabled"
COLOCATED, BACKEND = "policy.generation.colocated.enabled", "policy.generation.backend"
EXIT, FINITE = "the wrapper's own exit status is 0", "no metric is NaN or infinite"
CONFIG, PRINTED = "the resolved config confirms it", "the config that the training printed confirms it"
SIGNAL, COMPARABLE = "a learning signal", "the baseline is healthy and comparable"


def asserted(text: str) -> str:
    return f"metric: {text}"


def baseline(change: Callable[[int], dict[str, float]], last: int = 20) -> Doctor:
    return fact(baseline={step: {**metrics_of(step), **change(step)} for step in range(1, last + 1)})


LIES: list[tuple[str, str, Doctor, str]] = [
    ("the script fails after its last step", "smoke-smoke", fact(exit_code=1), EXIT),
    ("an early end, which the script takes for a success", "smoke-smoke", fewer(2), criteria.EVERY_STEP),
    ("no line says that the last step was reached", "smoke-smoke", without("Max number"), criteria.EVERY_STEP),
    ("another run's metrics file", "smoke-smoke", fact(problem="this run did not write metrics.json"), criteria.EVERY_STEP),
    ("four of five trainings", "sft-resume-diamond", lambda case: case.log.pop(case.log.index(
        "Max number of steps has been reached, stopping training early")) and None, criteria.EVERY_STEP),
    ("a leg of the resume without its step", "sft-resume-diamond", fewer(2, 2), criteria.EVERY_STEP),
    ("a training that began before its first step", "smoke-smoke", added("===== Step 1/2 ====="), "no step was trained again"),
    ("NaN after a number", "smoke-smoke", series(ERROR, lambda step: math.nan if step > 1 else 1.0), FINITE),
    ("infinity", "smoke-smoke", series("train/grad_norm", lambda step: math.inf), FINITE),
    ("NaN in a leg that is not the last", "sft-resume-diamond", series("train/loss", lambda step: math.nan, 0), FINITE),
    ("an exception that the run outlived", "smoke-smoke", added(*TRACEBACK), criteria.NO_EXCEPTION),
    ("DTensor, silently chosen", "smoke-smoke", setting(MEGATRON, False), PRINTED),
    ("DTensor beside Megatron", "smoke-smoke", setting(DTENSOR, True), PRINTED),
    ("no printed config", "smoke-smoke", fact(printed=[]), PRINTED),
    ("a VLM with DTensor", "vlm-grpo", setting(MEGATRON, False), PRINTED),
    ("a resumed leg with the other backend", "sft-resume-diamond", setting(MEGATRON, False), PRINTED),
    ("a mask of sequences", "smoke-smoke", setting("grpo.seq_logprob_error_threshold", 2), PRINTED),
    ("ratios forced to 1", "smoke-smoke", setting("loss_fn.force_on_policy_ratio", True, "configs"), CONFIG),
    ("LoRA off", "lora-save", setting("policy.megatron_cfg.peft.enabled", False), PRINTED),
    ("LoRA off in the learning signal", "learning-train", setting("policy.megatron_cfg.peft.enabled", False, "configs"), CONFIG),
    ("saving off", "lora-save", setting("checkpointing.enabled", False), PRINTED),
    ("policy and generation share their GPUs", "non-colocated-refit", setting(COLOCATED, True), PRINTED),
    ("vLLM in place of Megatron generation", "megatron-generation-generation", setting(BACKEND, "vllm"), PRINTED),
    ("Megatron generation in place of vLLM", "delta-refit", setting(BACKEND, "megatron", "configs"), CONFIG),
    ("quantisation off", "quant-rollout", setting("policy.quant_cfg", None, "configs"), CONFIG),
    ("generation without quantisation", "quant-rollout", setting("policy.generation.quant_cfg", None, "configs", 0), CONFIG),
    ("the resume differs", "sft-resume-diamond", without("is equal"),
     "the loss of step 2 is the same after a resume, with both backends"),
    ("no delta was sent", "delta-refit", without("DELTA_CHANGE"), "compressed deltas were sent"),
    ("a delta of nothing", "delta-refit", lambda case: case.log.__setitem__(3, case.log[3].replace("=1000", "=0")),
     "compressed deltas were sent"),
    ("no draft loss in the log", "eagle3-online", without("Draft Loss"), "the draft model was trained"),
    ("the draft is not refitted", "eagle3-online", added("Speculative decoding is enabled without draft refit sync"),
     "no line that invalidates the run"),
    ("vLLM without its quantised worker", "quant-rollout", without("VllmQuant"), "vLLM ran with its quantised worker"),
    ("Bridge from site-packages", "smoke-smoke", added("/usr/lib/site-packages/megatron/bridge/x.py:1: UserWarning: old"),
     "no line of code from another place"),
    ("half a checkpoint", "lora-save", fact(checkpoint="no step_3"), "the checkpoint of step 3 is whole"),
    ("the code changed meanwhile", "smoke-smoke", fact(moved="tracked files of /b have changed"), "the checkouts did not change"),
    ("generation disagrees with training", "smoke-smoke", series(ERROR, lambda step: 1.4),
     asserted(f'max(data["{ERROR}"]) < 1.05')),
    ("a ratio far below 1", "smoke-smoke", series(LOW, lambda step: 0.5), asserted(f'min(data["{LOW}"]) > 0.79')),
    ("a ratio far above 1", "non-colocated-refit", series(HIGH, lambda step: 1.5), asserted(f'max(data["{HIGH}"]) < 1.21')),
    ("a metric that was not logged", "smoke-smoke", gone(LOW), asserted(f'min(data["{LOW}"]) > 0.79')),
    ("most steps disagree", "parallel-tp2", series(ERROR, lambda step: 1.2), asserted(f'median(data["{ERROR}"]) < 1.05')),
    ("audio that disagrees", "audio-grpo", series(ERROR, lambda step: 1.2), asserted(f'mean(data["{ERROR}"]) < 1.05')),
    ("no reward", "lora-save", series("train/reward", lambda step: 0.01), asserted('max(data["train/reward"]) > 0.03')),
    ("KL", "lora-save", series("train/gen_kl_error", lambda step: 0.1), asserted('max(data["train/gen_kl_error"]) < 0.001')),
    ("the first of two cases fails", "quant-rollout", series("train/gen_kl_error", lambda step: 0.1, 0),
     asserted('data["train/gen_kl_error"]["1"] < 0.003')),
    ("a frozen draft", "eagle3-online", series("train/draft_loss", lambda step: 0.0),
     asserted('min(data["train/draft_loss"]) > 0')),
    ("gradients of zero", "learning-train", series("train/grad_norm", lambda step: 0 if step % 3 == 0 else 1.0 + step),
     "gradients are not zero"),
    ("too few steps", "learning-train", lambda case: setattr(case, "one", replace(case.one, steps=[1, 9])),
     "enough steps to see a trend"),
    ("a flat reward", "learning-train", series("train/reward", lambda step: 0.1), SIGNAL),
    ("log-probabilities that never change", "learning-train", series(ERROR, lambda step: 1.01), SIGNAL),
    ("a validation that falls", "learning-train", series("validation/accuracy", lambda step: 0.9 - step / 50), SIGNAL),
    ("a baseline of fewer steps", "learning-train", baseline(lambda step: {}, 15), COMPARABLE),
    ("better without the change", "learning-train", baseline(lambda step: {"train/reward": 0.8 + step / 100}),
     "not below the baseline"),
]  # fmt: skip


@pytest.mark.parametrize("name", list(RUNS))
def test_a_healthy_run_meets_every_criterion(name: str, tmp_path: Path) -> None:
    checks, verdict = healthy(name).judge(tmp_path)
    assert [check for check in checks if not check.met] == [] and verdict == "Pass"


@pytest.mark.parametrize(("run", "doctor", "criterion"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_a_lie_is_caught_by_its_criterion(run: str, doctor: Doctor, criterion: str, tmp_path: Path) -> None:
    case = healthy(run)
    doctor(case)
    checks, verdict = case.judge(tmp_path)
    unmet = {check.name: check.reason for check in checks if not check.met}
    assert criterion in unmet and verdict != "Pass", unmet


def test_every_criterion_is_tripped_by_a_lie(tmp_path: Path) -> None:
    known = {check.name for name in RUNS for check in healthy(name).judge(tmp_path)[0]}
    assert known - {criterion for *_, criterion in LIES} == set()
