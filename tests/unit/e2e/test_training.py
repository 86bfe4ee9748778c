"""The step of a run: every end gets an honest verdict, from the log, the metrics and the checkpoints that the run left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import e2e_checkouts as fixtures
import pytest

from mvp_helpers.base import processes
from mvp_helpers.e2e import execute
from mvp_helpers.e2e.step import Step
from mvp_helpers.e2e.steps import progress

if TYPE_CHECKING:
    from conftest import World

EXPERTS = ["actor_rollout_ref.actor.megatron.expert_tensor_parallel_size=1"]
IMAGES = "data.train_files={}/data/geo3k/train.parquet"
MTP = ["actor_rollout_ref.model.mtp.enable=True"]
QAT = ["actor_rollout_ref.rollout.quantization=fp8"]


def trained(world: World, name: str, levels: str, fault: str = "", **options: object) -> Step:
    return world.step(name, world.request(levels, **options), FAKE_FAULT=fault)


def test_every_criterion_of_a_pass_names_its_evidence_with_file_and_line(world: World) -> None:
    step = trained(world, "level-0-smoke", "0")
    assert step.verdict == "Pass", step.reason
    criteria = {check.name: check for check in step.criteria}
    assert criteria["VANILLA_MBRIDGE=False"].reason == "+ VANILLA_MBRIDGE=False"
    steps = criteria["every step was trained"]
    assert "step:1 … training/global_step:1" in steps.reason and "1/1" in steps.reason
    for check in criteria.values():
        for evidence in check.evidence:
            assert evidence.file == step.log and evidence.line
            assert evidence.text.split()[0] in Path(step.log).read_text().splitlines()[evidence.line - 1]
    assert steps.evidence and "PEFT has trainable parameters" in criteria
    assert not list(world.verl.rglob("checkpoints")), "nothing is written into the checkout"


@pytest.mark.parametrize(
    ("fault", "verdict", "words"),
    [
        ("data", "Blocked", "Unable to find"),
        ("provider", "Fail", "Qwen2Provider"),
        ("secondary-first", "Fail", "linear_qkv"),
        ("dies-in-step", "Fail", "is invalid for input of size"),
        ("exit-code", "Fail", "exit code 3"),
        ("silent-exit", "Fail", "no metrics of step 1 in the log"),
        ("vanilla", "Fail", "vanilla bridge"),
        ("nan", "Fail", "nan"),
        ("noise", "Pass", ""),
    ],
)
def test_every_end_gets_an_honest_verdict(world: World, fault: str, verdict: str, words: str) -> None:
    step = trained(world, "level-0-smoke", "0", fault)
    assert step.verdict == verdict and words in step.reason, step.reason
    if fault == "noise":
        assert any("leaked shared_memory" in text for text in step.limitations), "residual noise is listed"


def test_a_resume_needs_the_checkpoint_of_the_run_before_it_and_shows_that_it_was_loaded(world: World) -> None:
    context = world.context(world.request("1"))
    assert world.step("level-1-save", context=context).verdict == "Pass"
    step = world.step("level-1-resume", context=context)
    assert step.verdict == "Pass", step.reason
    assert any("Resuming from" in text and "global_step_1" in text for text in step.texts)
    other = world.context(world.request("1"), run="other", FAKE_FAULT="from-scratch")
    world.step("level-1-save", context=other)
    scratch = world.step("level-1-resume", context=other)
    assert scratch.verdict == "Fail" and "from scratch" in scratch.reason, scratch.reason


@pytest.mark.parametrize(
    ("fault", "words"), [("no-checkpoint", "no checkpoint of step 1"), ("cut-checkpoint", "data.pt is cut short")]
)
def test_a_checkpoint_that_is_missing_or_half_written_fails_the_run_and_the_resume(world: World, fault: str, words: str) -> None:
    context = world.context(world.request("1"), FAKE_FAULT=fault)
    step = world.step("level-1-save", context=context)
    assert step.verdict == "Fail" and words in step.reason, step.reason
    resume = world.step("level-1-resume", context=context)
    assert resume.verdict == "Fail" and "save left nothing to resume" in resume.reason and words in resume.reason, resume.reason
    assert resume.outcome is None, "nothing is started"


def test_checkpoints_of_an_earlier_try_are_kept_where_no_resume_finds_them(world: World) -> None:
    for name in ("try-1", "try-2"):
        step = trained(world, "level-1-save", "1", "exit-code")
        assert Path(step.log).parent.name == name, "nothing is overwritten"
    kept = sorted(path.name for path in (world.run_folder / "checkpoints").iterdir())
    assert kept == ["level-1-save-resume-save", "level-1-save-resume-save.before-try-2"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("", "learning-signal passed over 20 steps"),
        ("nan", "actor/pg_loss is nan"),
        ("zero-gradients", "is zero in 20 of 20 steps"),
        ("flat", "flat reward"),
        ("falls", "fell"),
        ("frozen", "PEFT has trainable parameters"),
    ],
)
def test_a_learning_signal_passes_only_when_nothing_contradicts_it(world: World, fault: str, words: str) -> None:
    step = trained(world, "level-5-train", "5", fault)
    assert step.verdict == ("Fail" if fault else "Pass") and words in step.reason, step.reason
    assert any("no benchmark convergence" in text for text in step.limitations)
    assert fault or any("Mann-Kendall" in text for text in step.learning)


def test_a_learning_signal_is_compared_with_a_baseline_file_of_as_many_steps(world: World) -> None:
    baseline = world.root / "baseline.jsonl"
    lines = [json.dumps({"step": step, "data": {"critic/score/mean": 0.9 + step / 100}}) for step in range(1, 31)]
    baseline.write_text("\n".join(lines) + "\n")
    step = trained(world, "level-5-train", "5", baseline=str(baseline), steps=30)
    assert step.verdict == "Fail" and "below the baseline" in step.reason
    assert len([text for text in Path(step.log).read_text().splitlines() if "step:30 " in text]) == 1
    assert any("does not state its model, data and seed" in text for text in step.limitations)


def test_a_baseline_checkout_is_trained_with_its_own_code_and_compared(world: World) -> None:
    base = fixtures.copy(world.bridge, world.root / "baseline-bridge")
    context = world.context(world.request("5", baseline=str(base)))
    before = world.step("level-5-baseline", context=context)
    context.logs["level-5-baseline"] = before.log
    step = world.step("level-5-train", context=context)
    assert (before.verdict, step.verdict) == ("Pass", "Pass"), (before.reason, step.reason)
    assert any("against the baseline" in text for text in step.learning)
    assert str(base) in before.env["PYTHONPATH"] and str(base) not in step.env["PYTHONPATH"]


def test_a_baseline_that_fails_too_blocks_because_it_was_broken_before(world: World) -> None:
    base = fixtures.copy(world.bridge, world.root / "baseline-bridge")
    step = trained(world, "level-5-baseline", "5", "provider", baseline=str(base))
    assert step.verdict == "Blocked" and step.reason.startswith("the unchanged code does not pass either: provider")


@pytest.mark.parametrize(
    ("name", "levels", "variants", "model", "overrides", "log"),
    [
        ("level-2-dense-stress", "2", (), "", [], "tensor model parallel with size 2, pipeline 2"),
        ("level-2-moe-stress", "2", ("moe",), "Qwen/moe", [], "expert 2"),
        ("level-3-smoke", "3", (), "", [], "Wrapping with Megatron-FSDP"),
        ("level-4-vlm-smoke", "4", ("vlm",), "Qwen/vl", [IMAGES], "step:1 "),
        ("level-4-moe-smoke", "4", ("moe",), "Qwen/moe", EXPERTS, "expert 2"),
        ("level-4-mtp-smoke", "4", ("mtp",), "Qwen/mtp", MTP, "step:1 "),
        ("level-4-qat-smoke", "4", ("qat",), "", QAT, "step:1 "),
    ],
)
def test_every_further_level_runs_to_a_pass(
    world: World, name: str, levels: str, variants: tuple[str, ...], model: str, overrides: list[str], log: str
) -> None:
    given = [text.format(world.home) for text in overrides]
    step = trained(world, name, levels, variants=variants, model=model, overrides=given)
    assert step.verdict == "Pass" and log in Path(step.log).read_text(), step.reason
    assert all(text in step.command for text in given)


@pytest.mark.parametrize(
    ("name", "levels", "fault", "boundary"),
    [
        ("level-2-dense-stress", "2", "finalised-alone", "parallel state"),
        ("level-3-smoke", "3", "fsdp", "AssertionError"),
        ("level-2-dense-stress", "2", "exit-code", "exit code 3"),
    ],
)
def test_a_further_level_that_fails_names_the_boundary(world: World, name: str, levels: str, fault: str, boundary: str) -> None:
    step = trained(world, name, levels, fault)
    assert step.verdict == "Fail" and boundary in step.reason, step.reason


def test_a_dummy_model_is_made_anew_for_each_run(world: World) -> None:
    config = fixtures.write_variant(world.root / "new", num_experts=4) / "config.json"
    env = {"USE_DUMMY_MODEL": "True", "DUMMY_MODEL_CONFIG_PATH": str(config)}
    context = world.context(world.request("0", env=env), **env)
    assert world.step("level-0-smoke", context=context).verdict == "Pass"
    assert (context.folder.path / "dummy-model" / "config.json").read_text() == config.read_text()


def test_a_hang_ends_in_a_verdict_and_leaves_nothing_running(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "TERM_S", 1.0)
    step = trained(world, "level-0-smoke", "0", "deaf", stall_s=1.0)
    assert step.verdict == "Blocked" and step.outcome and step.outcome.ended == "stall", step.reason
    assert step.outcome.left_behind, "a process in a session of its own was found"
    assert not processes.holding(execute.MARK, world.run_folder.name)


def test_the_person_who_watches_sees_that_a_quiet_run_still_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 0.5)
    step = trained(world, "level-0-smoke", "0", "hang", timeout_s=3.0)
    assert step.outcome and step.outcome.ended == "timeout"
    assert any("its log's last line: +" in text for text in world.said)


def test_a_checkout_that_changes_while_it_is_tested_is_not_evidence(world: World) -> None:
    context = world.context(world.request(), FAKE_FAULT="edits")
    world.step("checkouts", context=context)
    step = world.step("level-0-smoke", context=context)
    assert step.verdict == "Blocked" and f"tracked files of {world.bridge} have changed" in step.reason
    assert "git worktree add" in step.fixes[0]
