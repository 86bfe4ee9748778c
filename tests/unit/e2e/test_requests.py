"""What is asked for: requests, levels, recommended levels, limitations, descriptions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import e2e_checkouts as fixtures
import msgspec
import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.e2e import plan_view
from mvp_helpers.e2e.requests import description, levels, recommend

if TYPE_CHECKING:
    from conftest import World

VERL = description.load("verl")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levels": "7"}, "verl has no level '7' (levels: 0, 1, 2, 3, 4, 5)"),
        ({"variants": ("dense",)}, "belongs to level 2"),
        ({"variants": ("dens",)}, "did you mean 'dense'"),
        ({"levels": "4"}, "needs a variant"),
        ({"levels": "4", "variants": ("vlm",)}, "text-only"),
        ({"levels": "4", "variants": ("vlm",), "overrides": ["trainer.x=1"]}, "text-only"),
        ({"levels": "4", "variants": ("mtp",), "overrides": ["actor_rollout_ref.model.mtp.enable=False"]}, "switches MTP on"),
        ({"levels": "0", "baseline": "/no/such.jsonl"}, "none of the levels judges"),
        ({"levels": "5", "baseline": "/usr"}, "--baseline=/usr is not a git checkout"),
        ({"overrides": ["a=b c"]}, "would split or expand it"),
        ({"overrides": ["a=*"]}, "would split or expand it"),
        ({"overrides": ["nothing"]}, "is not key=value"),
        ({"model": "/no/such/model"}, "no config.json"),
        ({"levels": "5", "baseline": "/no/such.jsonl"}, "cannot read"),
        ({"env": {"BRIDGE_REPO": ""}}, "BRIDGE_REPO is not set"),
        ({"env": {"BRIDGE_REPO": "/no/such"}}, "is not a folder"),
        ({"env": {"BRIDGE_REPO": "/usr"}}, "is not a git checkout"),
    ],
)
def test_bad_input_is_one_clear_message(reading: World, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        reading.request(options.pop("levels", "0"), **options)
    assert words in caught.value.what and "\n" not in caught.value.what


def test_the_wrong_repository_in_a_variable_is_recognised(reading: World) -> None:
    with pytest.raises(BadInput, match=r"it looks like verl: VERL_REPO"):
        reading.request("0", env={"BRIDGE_REPO": str(reading.verl)})


def test_a_model_is_given_as_this_trainer_takes_it(reading: World) -> None:
    model = fixtures.write_variant(reading.root / "mine", num_experts=4)
    by_variable = reading.request("0", model=str(model))
    assert by_variable.env["MODEL_PATH"] == str(model) and by_variable.env["MODEL_ID"] == "mine"
    assert reading.toy_request("0", model=str(model)).overrides == [f"model.name={model}"]
    assert reading.toy_request("0", model="ORG/NAME").overrides == ["model.name=ORG/NAME"]


def test_a_feature_run_records_the_override_that_switches_it_on(reading: World) -> None:
    request = reading.request("4", ("mtp",), overrides=["+actor_rollout_ref.model.mtp.enable=True"])
    planned = levels.plan(VERL, request.levels, request.variants, request.env, request.overrides)
    assert [one.name for one in planned] == ["level-4-mtp-smoke"] and planned[0].overrides == request.overrides


def test_steps_change_only_the_variable_that_is_the_step_count() -> None:
    twenty = {"MAX_PROMPT_LENGTH": "20"}
    [one] = levels.plan(VERL, [5], [], twenty, [], steps=50)
    assert (one.env["TOTAL_TRAIN_STEPS"], one.env["MAX_PROMPT_LENGTH"], one.steps) == ("50", "20", [1, 50])
    assert one.env["TEST_FREQ"] == "10"
    save, resume = levels.plan(VERL, [1], [], {}, [], steps=50)
    assert (save.env["TOTAL_TRAIN_STEPS"], resume.env["TOTAL_TRAIN_STEPS"]) == ("1", "2"), "only a learning signal"
    assert save.group == resume.group, "the checkpoint goes from one to the other"


def test_changed_files_call_for_levels_with_the_tables_reason(world: World) -> None:
    changed = world.bridge / "src/megatron/bridge/peft/lora.py"
    changed.parent.mkdir(parents=True)
    changed.write_text("")
    recommended, files = recommend.recommend("verl", "main", world.env)
    called = {each.number for each in recommended if each.called_for}
    assert files == ["src/megatron/bridge/peft/lora.py"] and called == {0, 1, 5}
    shown = recommend.show(recommended, files, VERL.command)
    assert "./scripts/60_e2e_verl.sh --level 0,1,5" in shown and VERL.levels[1].when in shown
    assert "no level" in recommend.show(recommend.by_files(VERL, ["README.md"]), ["README.md"], VERL.command)
    with pytest.raises(BadInput, match="cannot compare"):
        recommend.recommend("verl", "no-such-branch", world.env)


def test_limitations_follow_from_what_was_run() -> None:
    def limits(overrides: list[str] | None = None, **given: str) -> list[str]:
        return levels.limitations(VERL, levels.plan(VERL, [0], [], given, overrides or []))

    assert any(text.startswith("dummy model") for text in limits(USE_DUMMY_MODEL="True"))
    assert any(text.startswith("eager mode") for text in limits(["actor_rollout_ref.rollout.enforce_eager=True"]))
    assert any("PEFT" in text for text in limits(LORA_RANK="0"))
    both = levels.limitations(VERL, levels.plan(VERL, [0, 1, 2], [], {}, []))
    assert not any("save/resume" in text or "parallel sizes 1" in text for text in both), "another run of the request shows it"
    assert not any("eager" in text or "dummy" in text or "PEFT" in text for text in limits())


def test_the_plan_shows_every_command_and_writes_nothing(reading: World) -> None:
    plan = plan_view.plan(reading.context(reading.request("0,1,2")))
    assert [run["name"] for run in plan["runs"]] == ["level-0-smoke", "level-1-save", "level-1-resume", "level-2-dense-stress"]
    stress = plan["runs"][3]
    assert (stress["env"]["COMMON_TP"], stress["env"]["COMMON_PP"], stress["env"]["NUM_GPUS"]) == ("2", "2", "4")
    assert stress["starts"][:3] == ["python3", "-m", "verl.trainer.main_ppo"] and stress["problems"] == []
    assert "bash tests/special_e2e/run_ppo_trainer_megatron.sh" in plan_view.show(plan)
    assert not (reading.root / "runs").exists()


@pytest.mark.parametrize("name", description.names())
def test_every_description_is_read_and_a_mistake_in_one_is_named(name: str, tmp_path: Path) -> None:
    found = description.load(name)
    assert found.levels and list(found.levels) == sorted(found.levels) and msgspec.json.encode(found)

    def mistake(text: str) -> str:
        file = tmp_path / "mine.yaml"
        file.write_text(f"extends: {description.FOLDER / name}.yaml\n{text}\n")
        with pytest.raises(BadInput) as caught:
            description.load(str(file))
        return caught.value.what

    assert "did you mean 'wrapper'" in mistake("wraper: {script: x}")
    assert "unknown trainer 'verll' (did you mean 'verl'?)" in mistake("trainer: verll")
    assert "the file does not exist" in mistake("trainer: no_such.py")
    assert "is not a regular expression" in mistake("source: '('")
    assert "is not a regular expression" in mistake("learning: {finite: '('}")
    run = "levels: {0: {variants: {smoke: {runs: [{name: a, steps: [%s], resumes: '%s'}]}}}}"
    assert "steps must be the first and the last step" in mistake(run % ("2, 1", ""))
    assert "resumes 'b', which does not come before it" in mistake(run % ("1, 1", "b"))


def test_what_descriptions_share_is_said_once() -> None:
    smoke = description.load("verl-cpu-smoke")
    assert smoke.data == VERL.data and smoke.levels[1].variants == VERL.levels[1].variants
    assert list(VERL.checkouts) == ["bridge", "verl"], "the subject's code comes first on the PYTHONPATH"
    assert VERL.metric_names().length_cap and not smoke.metric_names().length_cap
