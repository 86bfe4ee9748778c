"""Every pass criterion against doctored evidence: each lie is caught by a criterion, and each criterion catches a lie.

A lie is one change to the evidence of a healthy run. A criterion that no lie trips proves nothing, and fails here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from dotted import nested

from mvp_helpers.base.verdict import Check, Verdict
from mvp_helpers.diagnosis import views
from mvp_helpers.e2e.context import config_problems
from mvp_helpers.e2e.execute import Outcome
from mvp_helpers.e2e.requests import description, levels
from mvp_helpers.e2e.requests.levels import Planned
from mvp_helpers.e2e.steps import criteria, learning_criteria
from mvp_helpers.e2e.steps.criteria import Facts, LogEvidence
from mvp_helpers.e2e.steps.learning_criteria import Baseline
from mvp_helpers.trainers.trainer import Metrics

VERL = description.load("verl")
TRAINER = VERL.load_trainer()
RUNS = {one.run.name: one for one in levels.plan(VERL, [0, 1, 3, 5], [], {}, []) if one.number != 3}
FSDP = next(one for one in levels.plan(VERL, [3], [], {}, []))
RUNS["fsdp"] = FSDP
WHO = "(TaskRunner pid=4711) "


def resolved(one: Planned) -> dict[str, Any]:
    """The part of the resolved config that the criteria read."""
    expect = one.expect(VERL)
    settings = {
        **expect.config,
        "actor_rollout_ref.model.lora.rank": 4,
        "critic.model.lora.rank": 4,
        "algorithm.adv_estimator": "gae",
        "actor_rollout_ref.rollout.calculate_log_probs": True,
        "data.max_response_length": 512,
        "actor_rollout_ref.model.path": "/models/Qwen2.5-0.5B",
        "trainer.default_local_dir": f"/runs/run-1/checkpoints/{one.group}",
    }
    return nested(settings)


def metrics_of(step: int) -> dict[str, float]:
    return {
        "actor/pg_loss": 0.1 / step,
        "actor/grad_norm": 0.5 + step / 100,
        "actor/entropy": 2 - step / 50,
        "critic/vf_loss": 0.5 / step,
        "critic/grad_norm": 3.0 + step / 10,
        "critic/score/mean": 0.1 + step / 100,
        "critic/values/mean": 0.2 + step / 100,
        "response_length/mean": 100.0 + step,
        "training/rollout_probs_diff_mean": 0.004 + step / 1000,
    }


def healthy_log(one: Planned) -> list[str]:
    first, last = one.steps
    lines = ["+ VANILLA_MBRIDGE=False", "+ VALUE_VANILLA_MBRIDGE=False", f"{WHO}Qwen2ForCausalLM contains 494.03M parameters"]
    for count in ("1,081,344", "1,100,032"):
        lines += [f"{WHO}PEFT Adapter Information:", f"{WHO}  Adapter parameters:   {count}"]
        lines += [f"{WHO}  Trainable percentage: 0.22%"]
    if one.run.resumes:
        place = f"/runs/run-1/checkpoints/{one.group}/global_step_{first - 1}"
        lines += [f"{WHO}Resuming from {place}, setting global step to {first - 1}"]
        lines += [f"{WHO}INFO:[Rank 0] Loaded optimizer checkpoint from {place}/{model}" for model in ("actor", "critic")]
    for step in range(first, last + 1):
        values = " - ".join(f"{name}:{value}" for name, value in metrics_of(step).items())
        lines += [f"{WHO}step:{step} - {values} - training/global_step:{step}"]
        lines += [f"Training Progress: {100 * step // last}%|###| {step}/{last} [00:{step:02}<00:00,  1.0s/it]"]
    return lines


@dataclass
class Case:
    """The evidence of one run, healthy until it is doctored."""

    one: Planned
    log: list[str]
    config: dict[str, Any]
    exit_code: int = 0
    checkpoint: str = ""
    moved: str = ""
    steps: list[int] = field(default_factory=list)
    baseline: Metrics = field(default_factory=dict)
    baseline_config: dict[str, Any] = field(default_factory=dict)

    def judge(self, folder: Path) -> tuple[list[Check], Verdict]:
        log = folder / "wrapper.log"
        log.write_text("\n".join(self.log) + "\n")
        expect = self.one.expect(VERL)
        outcome = Outcome(ended="exit", exit_code=self.exit_code, seconds=1.0, log_bytes=log.stat().st_size)
        facts = Facts(
            one=self.one,
            trainer=TRAINER,
            expect=expect,
            outcome=outcome,
            seen=LogEvidence(TRAINER, expect, log, VERL.tested_modules()).read(),
            files=[],
            triage=views.triage_log(log),
            config=self.config,
            config_problems=config_problems(self.config, expect),
            names=VERL.metric_names(),
            checkpoint=self.checkpoint,
            moved=self.moved,
        )
        checks = criteria.judge(facts)
        if self.one.level.learning:
            compared = Baseline(self.baseline, self.baseline_config)
            checks += learning_criteria.judge(facts, compared, 512.0)[0]
        return checks, criteria.verdict(checks, outcome, facts.triage)[0]


def healthy(run: str) -> Case:
    one = RUNS[run]
    case = Case(one, healthy_log(one), resolved(one))
    if one.level.learning:
        case.baseline = {step: metrics_of(step) for step in range(one.steps[0], one.steps[1] + 1)}
        case.baseline_config = resolved(replace(one, baseline=True))
    return case


Doctor = Callable[[Case], None]


def swapped(old: str, new: str, at: int | None = None) -> Doctor:
    """Replace a text in all lines, or in the line of one step."""

    def doctor(case: Case) -> None:
        hits = [number for number, line in enumerate(case.log) if old in line and (at is None or f"step:{at} " in line)]
        assert hits, f"the healthy log has no '{old}'"
        for number in hits:
            case.log[number] = case.log[number].replace(old, new)

    return doctor


def without(text: str) -> Doctor:
    def doctor(case: Case) -> None:
        kept = [line for line in case.log if text not in line]
        assert len(kept) < len(case.log), f"the healthy log has no '{text}'"
        case.log = kept

    return doctor


def added(text: str, before: str = "Training Progress") -> Doctor:
    def doctor(case: Case) -> None:
        at = next(number for number, line in enumerate(case.log) if before in line)
        case.log[at:at] = text.splitlines()

    return doctor


def series(name: str, value: Callable[[int], object]) -> Doctor:
    """Give a metric other values, by step."""

    def doctor(case: Case) -> None:
        for step in range(case.one.steps[0], case.one.steps[1] + 1):
            swapped(f"{name}:{metrics_of(step)[name]}", f"{name}:{value(step)}", at=step)(case)

    return doctor


def setting(key: str, value: object, part: str = "config") -> Doctor:
    def doctor(case: Case) -> None:
        *parents, last = key.split(".")
        place = getattr(case, part)
        for parent in parents:
            place = place[parent]
        place[last] = value

    return doctor


def both(first: Doctor, second: Doctor) -> Doctor:
    def doctor(case: Case) -> None:
        first(case)
        second(case)

    return doctor


def fact(**values: object) -> Doctor:
    def doctor(case: Case) -> None:
        for name, value in values.items():
            setattr(case, name, value)

    return doctor


def baseline(change: Callable[[int, dict[str, float]], dict[str, float]], last: int = 20) -> Doctor:
    def doctor(case: Case) -> None:
        case.baseline = {step: change(step, metrics_of(step)) for step in range(1, last + 1)}

    return doctor


TRACEBACK = """Traceback (most recent call last):
  File "/b/src/megatron/bridge/peft/lora.py", line 77, in wrap
    self.match(module)
ValueError: target module linear_qkv was not found"""
BRIDGE = "VANILLA_MBRIDGE=False"
EXIT = "the wrapper's own exit status is 0"
AGAIN = "no step was trained again"
LOSS = "every trained model logged its loss"
CONFIG = "the resolved config confirms it"
FINITE = "no metric is NaN or infinite"
PEFT = "PEFT has trainable parameters"
REFUSED = "no line that invalidates the run"
RESUMED = "resumed from step 1"
OPTIMIZER = "the optimizer's state was read"
SIGNAL = "a learning signal"
COMPARABLE = "the baseline is healthy and comparable"
ACTOR = "actor_rollout_ref.actor.megatron"
REF = "actor_rollout_ref.ref.megatron"

LIES: list[tuple[str, str, Doctor, str]] = [
    ("another bridge in the script", "smoke", swapped("+ VANILLA_MBRIDGE=False", "+ VANILLA_MBRIDGE=True"), BRIDGE),
    ("only the critic's variable is shown", "smoke", without("+ VANILLA_MBRIDGE"), BRIDGE),
    ("the script fails after its last step", "smoke", fact(exit_code=1), EXIT),
    ("a bar without a line of metrics", "smoke", without("step:1 "), criteria.EVERY_STEP),
    ("a line of metrics without metrics", "smoke", swapped(" - " + " - ".join(
        f"{name}:{value}" for name, value in metrics_of(1).items()
    ) + " - training/global_step:1", " - done"), criteria.EVERY_STEP),
    ("no bar", "smoke", without("Training Progress"), criteria.EVERY_STEP),
    ("a bar of another number of steps", "smoke", swapped("1/1 [", "2/2 ["), criteria.EVERY_STEP),
    ("a bar of another tool", "smoke", swapped("Training Progress", "Loading checkpoint shards"), criteria.EVERY_STEP),
    ("one of twenty steps is missing", "train", without("step:7 "), criteria.EVERY_STEP),
    ("NaN", "smoke", swapped("actor/pg_loss:0.1", "actor/pg_loss:nan"), FINITE),
    ("infinity", "smoke", swapped("critic/vf_loss:0.5", "critic/vf_loss:-inf"), FINITE),
    ("NaN as a tensor", "smoke", swapped("actor/entropy:1.98", "actor/entropy:tensor(nan)"), FINITE),
    ("NaN in quotes", "smoke", swapped("actor/entropy:1.98", "actor/entropy:'NaN'"), FINITE),
    ("no value", "smoke", swapped("actor/entropy:1.98", "actor/entropy:None"), FINITE),
    ("NaN of a difference of probabilities", "train", series("actor/grad_norm", lambda step: math.nan), FINITE),
    ("an exception that the run outlived", "smoke", added(TRACEBACK), criteria.NO_EXCEPTION),
    ("an exception of the code under test, as a Ray worker prints it", "smoke", added(
        "\n".join(f"(WorkerDict pid=5) {line}" for line in TRACEBACK.splitlines())
    ), criteria.NO_EXCEPTION),
    ("the critic logged no loss", "smoke", series("critic/vf_loss", lambda step: "x"), LOSS),
    ("the actor logged no loss at one step", "train", swapped("actor/pg_loss", "actor/other", at=9), LOSS),
    ("no LoRA", "smoke", setting("actor_rollout_ref.model.lora.rank", 0), CONFIG),
    ("no LoRA in the critic", "smoke", setting("critic.model.lora.rank", 0), CONFIG),
    ("PyTorch's FSDP trains the actor", "smoke", setting("actor_rollout_ref.actor.strategy", "fsdp"), CONFIG),
    ("PyTorch's FSDP is the reference", "smoke", setting("actor_rollout_ref.ref.strategy", "fsdp2"), CONFIG),
    ("PyTorch's FSDP trains the critic", "smoke", setting("critic.strategy", "fsdp"), CONFIG),
    ("Megatron-FSDP instead of DDP", "smoke", setting(f"{ACTOR}.use_megatron_fsdp", True), CONFIG),
    ("DDP instead of Megatron-FSDP", "fsdp", setting(f"{ACTOR}.use_megatron_fsdp", False), CONFIG),
    ("the reference without a bridge", "smoke", setting(f"{REF}.use_mbridge", False), CONFIG),
    ("the critic without a bridge", "smoke", setting("critic.megatron.use_mbridge", False), CONFIG),
    ("the critic with the vanilla bridge", "smoke", setting("critic.megatron.vanilla_mbridge", True), CONFIG),
    ("the trainer names the vanilla bridge", "smoke", added("DeprecationWarning: vanilla_mbridge=True is deprecated"), REFUSED),
    ("a fallback to another bridge", "smoke", added("WARNING: Falling back to the vanilla mbridge for Qwen2"), REFUSED),
    ("Bridge from site-packages", "smoke", added(
        "/usr/lib/python3.12/site-packages/megatron/bridge/models/auto.py:12: UserWarning: deprecated"
    ), "no line of code from another place"),
    ("another step's checkpoint", "resume", swapped("global_step_1,", "global_step_3,"), RESUMED),
    ("another run's checkpoint", "resume", swapped("/level-1-save-resume-save/", "/old/"), RESUMED),
    ("nothing was loaded", "resume", without("Resuming from"), RESUMED),
    ("a model began anew", "resume", added(f"{WHO}No checkpoint found", before="Loaded optimizer"), RESUMED),
    ("the data loader began anew", "resume", added(
        f"{WHO}Warning: No dataloader state found at /x/data.pt, will start from scratch", before="Loaded optimizer"
    ), RESUMED),
    ("the critic's optimizer began anew", "resume", without("global_step_1/critic"), OPTIMIZER),
    ("the critic's optimizer began anew, in runs below /critic/", "resume", both(
        without("global_step_1/critic"), swapped("/runs/run-1/", "/runs/critic/run-1/")
    ), OPTIMIZER),
    ("an optimizer of another run", "resume", swapped(
        "checkpoint from /runs/run-1/checkpoints/level-1-save-resume-save/", "checkpoint from /old/"
    ), OPTIMIZER),
    ("an optimizer of another step", "resume", swapped("global_step_1/critic", "global_step_3/critic"), OPTIMIZER),
    ("the first step was trained again", "resume", added(f"{WHO}step:1 - actor/pg_loss:0.1 - critic/vf_loss:0.1"), AGAIN),
    ("a step is logged twice", "train", added(f"{WHO}step:1 - actor/pg_loss:0.1 - critic/vf_loss:0.1"), AGAIN),
    ("no line about adapters", "smoke", both(without("dapter parameters"), without("rainable percentage")), PEFT),
    ("a percentage of zero is all that is known", "smoke", both(without("dapter parameters"), swapped("0.22%", "0.00%")), PEFT),
    ("adapters without parameters", "smoke", swapped("1,081,344", "0"), PEFT),
    ("adapters of one model only", "smoke", without("1,100,032"), PEFT),
    ("adapters of the actor only, counted in two ways", "smoke", both(without("1,100,032"), added(
        f"{WHO}  Trainable parameters: 1,081,344", before="Trainable percentage"
    )), PEFT),
    ("adapters that are frozen", "smoke", added(f"{WHO}  Trainable parameters: 0", before="Trainable percentage"), PEFT),
    ("half a checkpoint", "save", fact(checkpoint="global_step_1 is not whole"), "the checkpoint of step 1 is whole"),
    ("half a checkpoint after the resume", "resume", fact(checkpoint="x"), "the checkpoint of step 2 is whole"),
    ("the code changed meanwhile", "smoke", fact(moved="tracked files of /b have changed"), "the checkouts did not change"),
    ("a gradient that is often zero", "train", series("actor/grad_norm", lambda step: 0 if step % 3 == 0 else 0.5 + step),
     "gradients are not zero"),
    ("no gradient of the critic", "train", swapped("critic/grad_norm", "critic/other"), "gradients are not zero"),
    ("no gradient at all", "train", swapped("grad_norm", "other"), "gradients are not zero"),
    ("a gradient at the first step only", "train", series("actor/grad_norm", lambda step: 0.5 if step == 1 else "x"),
     "gradients are not zero"),
    ("an actor whose loss never changes", "train", series("actor/pg_loss", lambda step: 0.0), "losses change"),
    ("a critic whose loss never changes", "train", series("critic/vf_loss", lambda step: 0.25), "losses change"),
    ("no log-probabilities", "train", swapped("training/rollout_probs_diff_mean", "x"), "log-probabilities were logged"),
    ("a flat reward", "train", series("critic/score/mean", lambda step: 0.25), SIGNAL),
    ("probabilities that never change", "train", series("training/rollout_probs_diff_mean", lambda step: 0.004), SIGNAL),
    ("a reward that does not move in the end", "train", series("critic/score/mean", lambda step: 0.3 + step % 2 / 10), SIGNAL),
    ("a reward that falls", "train", series("critic/score/mean", lambda step: 0.9 - step / 100), SIGNAL),
    ("responses at their cap", "train", series("response_length/mean", lambda step: 512 + step), SIGNAL),
    ("too few steps", "train", fact(steps=[1, 9]), "enough steps to see a trend"),
    ("a baseline with NaN", "train", baseline(lambda step, data: {**data, "actor/pg_loss": math.nan}), COMPARABLE),
    ("a flat baseline", "train", baseline(lambda step, data: {**data, "critic/score/mean": 0.1}), COMPARABLE),
    ("a baseline of other steps", "train", baseline(lambda step, data: data, last=15), COMPARABLE),
    ("a baseline with another config", "train", setting("data.max_response_length", 64, "baseline_config"), COMPARABLE),
    ("a baseline of another model", "train", setting("actor_rollout_ref.model.path", "/models/x", "baseline_config"), COMPARABLE),
    ("worse than the baseline", "train", baseline(lambda step, data: {**data, "critic/score/mean": 0.9 + step / 100}),
     "not below the baseline"),
]  # fmt: skip


def doctored(run: str, doctor: Doctor) -> Case:
    case = healthy(run)
    doctor(case)
    if case.steps:
        case.one = replace(case.one, steps=case.steps)
        case.log = healthy_log(case.one)
        case.baseline = {step: metrics_of(step) for step in range(case.steps[0], case.steps[1] + 1)}
    return case


@pytest.mark.parametrize("name", list(RUNS))
def test_a_healthy_run_meets_every_criterion(name: str, tmp_path: Path) -> None:
    checks, verdict = healthy(name).judge(tmp_path)
    assert [check for check in checks if not check.met] == [] and verdict == "Pass"


@pytest.mark.parametrize(("run", "doctor", "criterion"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_a_lie_is_caught_by_its_criterion(run: str, doctor: Doctor, criterion: str, tmp_path: Path) -> None:
    checks, verdict = doctored(run, doctor).judge(tmp_path)
    unmet = {check.name: check.reason for check in checks if not check.met}
    assert criterion in unmet and verdict != "Pass", unmet


def test_every_criterion_is_tripped_by_a_lie(tmp_path: Path) -> None:
    known = {check.name for name in RUNS for check in healthy(name).judge(tmp_path)[0]}
    assert known - {criterion for *_, criterion in LIES} == set()
