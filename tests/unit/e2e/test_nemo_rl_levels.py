"""Levels 2 to 6 of NeMo-RL over a checkout whose tests behave as the real ones: what each runs, and what it fails for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import e2e_checkouts as fixtures
import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.e2e import plan_view, summary
from mvp_helpers.e2e.context import Context
from mvp_helpers.e2e.procedure import Procedure
from mvp_helpers.e2e.requests import description, recommend
from mvp_helpers.e2e.requests.request import Request
from mvp_helpers.e2e.step import Step
from mvp_helpers.e2e.steps import training
from mvp_helpers.trainers.nemo_rl import refit
from mvp_helpers.trainers.nemo_rl.trainer import TRAINER

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.usefixtures("no_tests")
PARALLEL = "policy.megatron_cfg.tensor_model_parallel_size"


@pytest.fixture(autouse=True)
def uv(world: World) -> None:
    shutil.copy(fixtures.NEMO_RL / "uv", world.root / "bin" / "uv")


def request(world: World, levels: str, *variants: str, **options: Any) -> Request:
    return world.request(levels, variants, description="nemo-rl", **options)


def context(world: World, levels: str, *variants: str, env: dict[str, str] | None = None, **options: Any) -> Context:
    return world.context(request(world, levels, *variants, **options), **(env or {}))


def trained(context: Context, name: str) -> tuple[Step, str]:
    """Return the step of a run, and its reason with its criteria that were not met."""
    step = Procedure(context).do(next(a for a in _actions(context) if a.name == name))
    return step, "\n".join([step.reason, *(f"{check.name}: {check.reason}" for check in step.criteria if not check.met)])


def _actions(context: Context) -> list[Any]:
    from mvp_helpers.e2e import procedure

    return procedure.actions(context)


def problems(context: Context) -> dict[str, list[str]]:
    return {one.name: context.checked(one).problems for one in context.planned}


@pytest.mark.parametrize(
    ("levels", "variant", "name"),
    [
        ("2", "non-colocated", "level-2-non-colocated-refit"),
        ("2", "non-colocated", "level-2-non-colocated-reshard"),
        ("2", "delta", "level-2-delta-refit"),
        ("4", "", "level-4-tp2"),
        ("4", "", "level-4-recipe"),
        ("5", "vlm", "level-5-vlm-grpo"),
        ("5", "eagle3", "level-5-eagle3-online"),
        ("5", "quant", "level-5-quant-rollout"),
        ("5", "audio", "level-5-audio-grpo"),
        ("6", "", "level-6-train"),
    ],
)
def test_a_run_passes_with_its_evidence(world: World, levels: str, variant: str, name: str) -> None:
    step, why = trained(context(world, levels, *filter(None, [variant])), name)
    assert step.verdict == "Pass", why


def test_experts_of_a_recipe_pass_on_the_gpus_that_it_is_for(world: World) -> None:
    step, why = trained(context(world, "5", "moe", env={"E2E_GPUS": "16"}), "level-5-moe-recipe")
    assert step.verdict == "Pass", why


@pytest.mark.parametrize(
    ("levels", "variant", "name", "fault", "words"),
    [
        ("2", "delta", "level-2-delta-refit", "no-delta", "compressed deltas were sent: no line of the log matches"),
        ("2", "non-colocated", "level-2-non-colocated-refit", "mismatch", "(is 1.4)"),
        ("5", "vlm", "level-5-vlm-grpo", "dtensor", "policy.megatron_cfg.enabled=False, not True"),
        ("5", "eagle3", "level-5-eagle3-online", "no-draft", "> 0 (is 0)"),
        ("6", "", "level-6-train", "flat", "a flat reward teaches nothing"),
    ],
)
def test_a_run_without_its_evidence_fails(world: World, levels: str, variant: str, name: str, fault: str, words: str) -> None:
    step, why = trained(context(world, levels, *filter(None, [variant]), env={"FAKE_FAULT": fault}), name)
    assert step.verdict == "Fail" and words in why, why


def test_a_run_of_our_own_script_writes_nothing_into_the_checkout(world: World) -> None:
    step, why = trained(context(world, "2", "non-colocated"), "level-2-non-colocated-refit")
    assert step.verdict == "Pass", why
    assert not (world.nemo_rl / "tests/.coverage").exists() and not list((world.nemo_rl / "tests/functional").glob("*/"))
    assert (world.run_folder / "trainer-output/refit/metrics.json").is_file()
    assert "weight transfer: its bottleneck is weight preparation" in "\n".join(step.texts)


def test_the_bottleneck_of_a_refit_is_named_as_far_as_the_timers_show_it() -> None:
    part = f"{refit.PARTS}producer/"
    tiny = {refit.TOTAL: 5.0, refit.TRANSFER: 4.8, f"{part}collect_tensors": 1.5, f"{part}sparse_encode": 3.0, refit.WITHIN: 2.9}
    assert "its bottleneck is weight preparation" in refit.sentences({1: tiny, 2: tiny})[1]
    assert "4.7 s of 5 s" in refit.sentences({1: tiny})[1], "sparse_nonzero is a part of sparse_encode"
    slow = tiny | {f"{part}sparse_encode": 0.1, f"{part}collect_tensors": 0.1}
    assert "its bottleneck is the broadcast of the payload, 4.6 s of 5 s" in refit.sentences({1: slow})[1]
    staged = {refit.TOTAL: 5.0, refit.TRANSFER: 4.8, "refit/transfer/relay_flush_s": 0.2, "refit/transfer/global_commit_s": 0.1}
    assert "its bottleneck is weight preparation" in refit.sentences({1: staged})[1]
    assert "times neither" in refit.sentences({1: {refit.TOTAL: 5.0, refit.TRANSFER: 4.8}})[1]
    assert refit.sentences({1: {"train/loss": 1.0}}) == ["weight transfer: no timings were logged"]
    config = {"policy": {"generation": {"colocated": {"enabled": True}}}}
    assert TRAINER.reports({1: tiny}, config) == [], "colocated: no weights are transferred"


def test_the_maintained_refit_is_left_out_and_named_where_the_revision_lacks_it(world: World) -> None:
    assert len(context(world, "2", "non-colocated").planned) == 2
    (world.nemo_rl / "tests/functional/grpo_nccl_reshard_refit.sh").unlink()
    now = context(world, "2", "non-colocated")
    assert [one.name for one in now.planned] == ["level-2-non-colocated-refit"]
    assert "level-2-non-colocated-reshard is left out: this nemo_rl checkout has no" in now.limits[0]


def test_delta_compression_uses_the_keys_of_this_revision(world: World) -> None:
    new = context(world, "2", "delta")
    assert "policy.generation.refit_transport=vllm_zmq_sparse" in new.command(new.planned[0])
    file = world.nemo_rl / "examples/configs/grpo_math_1B.yaml"
    keys = "dtype: x, transport: x, full_sync_interval: 1, sparse_bucket_size_bytes: 1, delta_load_batch_size_bytes: 1"
    file.write_text(file.read_text().replace("refit_transport: null", f"delta_compression: {{enabled: false, {keys}}}"))
    old = context(world, "2", "delta")
    command = " ".join(old.command(old.planned[0]))
    assert "delta_compression.enabled=true" in command and "refit_transport" not in command
    file.write_text(file.read_text().replace("delta_compression:", "other:"))
    [why] = problems(context(world, "2", "delta")).values()
    assert "does not accept 'policy.generation.refit_transport=vllm_zmq_sparse'" in why[0], "no + is added to known keys"


def test_a_pass_without_cuda_graphs_stands_beside_the_failure_with_them(world: World, quick: None) -> None:
    procedure = world.procedure(request(world, "3"), FAKE_FAULT="cuda-graphs")
    ended = procedure.run()
    generation, rerun = procedure.steps[-2:]
    assert (generation.verdict, rerun.verdict) == ("Fail", "Pass"), summary.text(ended)
    assert "a reduced-optimisation pass without CUDA graphs" in rerun.reason and Path(generation.log).is_file()
    assert ended.result == "Fail" and ended.sentence.startswith("level-3-generation: ")


def test_the_rerun_without_cuda_graphs_is_for_no_other_failure(world: World) -> None:
    one = next(one for one in context(world, "3").planned if one.run.rerun)
    log = world.root / "log"
    log.write_text("ValueError: another\n")
    failed = Step(name="level-3-generation", verdict="Fail", reason="", log=str(log))
    assert training.unneeded([failed], one) == "level-3-generation failed for another reason"
    assert training.unneeded([Step(name=failed.name, verdict="Pass", reason="")], one) == "level-3-generation did not fail"
    log.write_text("RuntimeError: CUDA error: an illegal memory access was encountered\n")
    assert training.unneeded([failed], one) == ""


def test_a_recipe_is_chosen_for_the_gpus_and_its_parallel_sizes(world: World) -> None:
    now = context(world, "4")
    chosen = {one.run.name: one.env.get("CONFIG", "") for one in now.planned}
    assert chosen["recipe"].endswith("grpo-c-1n8g-megatron.yaml"), "a: no sizes; b: TP 4 with batches of different sizes; d: FP8"
    two = context(world, "4", env={"E2E_GPUS": "2"})
    assert [one.run.name for one in two.planned] == ["tp2"] and "no recipe of this revision is for 2 GPUs" in two.limits[0]
    for count in ("x", "²"):
        with pytest.raises(BadInput, match=f"E2E_GPUS={count} is not a number"):
            context(world, "4", env={"E2E_GPUS": count})


def test_experts_need_a_recipe_that_the_gpus_fit_or_that_is_named(world: World) -> None:
    [why] = problems(context(world, "5", "moe")).values()
    assert "no recipe of this revision is for 8 GPUs with one of expert_model_parallel_size above 1: --recipe FILE" in why[0]
    folder = "examples/configs/recipes/llm"
    assert problems(context(world, "5", "moe", env={"E2E_GPUS": "16"})) == {"level-5-moe-recipe": []}
    assert problems(context(world, "5", "moe", recipe=f"{folder}/grpo-e-2n8g-megatron.yaml")) == {"level-5-moe-recipe": []}
    [why] = problems(context(world, "5", "moe", recipe=f"{folder}/grpo-c-1n8g-megatron.yaml")).values()
    assert "none of policy.megatron_cfg.expert_model_parallel_size is above 1" in why[0]
    [why] = problems(context(world, "5", "moe", recipe="x.yaml")).values()
    assert "--recipe x.yaml: " in why[0] and "has no such file" in why[0]
    with pytest.raises(BadInput, match=r"none of the requested runs takes a recipe \(levels that do: 4, 5\)"):
        request(world, "0", recipe="x.yaml")


@pytest.mark.parametrize("batches", ["policy.logprob_batch_size=1", ""])
def test_tensor_parallel_4_needs_batches_of_one_size(world: World, batches: str) -> None:
    overrides = [f"{PARALLEL}=4", "cluster.gpus_per_node=4", "policy.train_micro_batch_size=2", *filter(None, [batches])]
    why = problems(context(world, "0", overrides=overrides))["level-0-smoke"]
    assert bool(why) == bool(batches) and all("to be equal: set both, or a size of 1 or 2" in text for text in why), why


def test_a_vlm_is_trained_with_megatron_and_not_with_the_scripts_dtensor(world: World) -> None:
    now = context(world, "5", "vlm")
    assert now.checked(now.planned[0]).problems == []
    assert now.command(now.planned[0])[2:4] == ["--config", "examples/configs/vlm_grpo_3B_megatron.yaml"]
    now = context(world, "5", "vlm", overrides=["policy.megatron_cfg.enabled=false"])
    assert "policy.megatron_cfg.enabled=False, not True" in problems(now)["level-5-vlm-grpo"][0]


def test_quantisation_counts_only_when_the_config_turns_it_on(world: World) -> None:
    now = context(world, "5", "quant", overrides=["policy.quant_cfg=null"])
    assert "no value at policy.quant_cfg" in problems(now)["level-5-quant-rollout"][0]


def test_a_revision_without_lora_still_runs_level_0_and_is_blocked_for_lora(world: World, quick: None) -> None:
    (world.nemo_rl / "tests/functional/grpo_megatron_lora.sh").unlink()
    procedure = world.procedure(request(world, "0,1", "lora"))
    ended = procedure.run()
    verdicts = {step.name: step.verdict for step in procedure.steps}
    assert verdicts["drift"] == verdicts["level-0-smoke"] == "Pass" and verdicts["level-1-lora-save"] == "Blocked"
    assert ended.result == "Blocked" and "has no tests/functional/grpo_megatron_lora.sh" in ended.sentence
    assert {check.name: check.verdict for check in ended.deliverables}["NeMo-RL Megatron policy run"] == "Pass"


def test_every_level_is_recommended_by_its_files(world: World) -> None:
    procedure = description.load("nemo-rl")
    called = {
        "src/megatron/bridge/models/conversion/param_mapping.py": "0 2",
        "src/megatron/bridge/models/qwen_vl/modeling.py": "0 5/vlm",
        "src/megatron/bridge/models/qwen_omni/audio.py": "0 5/audio",
        "src/megatron/bridge/models/moe/router.py": "0 5/moe",
        "src/megatron/bridge/models/mtp/heads.py": "0 5/eagle3",
        "src/megatron/bridge/models/x/modelopt.py": "0 5/quant",
        "src/megatron/bridge/training/pipeline_parallel.py": "0 4",
        "src/megatron/bridge/inference/engine.py": "",
        "src/megatron/bridge/training/loss.py": "0 6",
        "docs/readme.md": "",
    }
    for file, wanted in called.items():
        found = recommend.by_files(procedure, [file])
        shown = [f"{each.number}/{key}" for each in found for key in each.variants]
        shown += [str(each.number) for each in found if each.files]
        assert sorted(shown) == sorted(wanted.split()), file


def test_the_plan_shows_every_level_as_commands_that_can_be_pasted(world: World) -> None:
    plan = plan_view.plan(context(world, "0,1,2,3,4,6"))
    assert plan["problems"] == [], plan["problems"]
    text = plan_view.show(plan)
    assert "templates/e2e/nemo_rl_training.sh" in text and "export CONFIG=examples/configs/grpo_math_1B_megatron.yaml" in text
