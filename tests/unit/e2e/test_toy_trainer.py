"""The seam: a trainer that only one module and one YAML file of the tests know is driven to Pass, Fail and Blocked."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import e2e_checkouts as fixtures
import pytest

from mvp_helpers.base.project import PROJECT
from mvp_helpers.e2e import plan_view, summary
from mvp_helpers.trainers.trainer import Gpus, Role

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.usefixtures("quick", "no_tests")


def test_all_its_levels_pass_with_a_script_two_trainings_and_a_metrics_file_of_its_own(world: World) -> None:
    procedure = world.procedure(world.toy_request("0,1,2"))
    found = procedure.run()
    assert found.result == "Pass", summary.text(found)
    names = ["checkouts", "unit-checks", "save-checks", "environment", "imports", "drift"]
    names += ["level-0-smoke", "level-0-fast", "level-1-pair", "level-2-train"]
    assert [(step.name, step.verdict) for step in procedure.steps] == [(name, "Pass") for name in names]
    pair, learned = procedure.steps[-2], procedure.steps[-1]
    assert pair.command[1] == f"{world.toy}/levels/pair.sh" and pair.cwd == f"{world.toy}/levels", (
        "the level's own script and folder"
    )
    tried = Path(pair.log).parent
    assert sorted(file.name for file in tried.glob("metrics-*")) == ["metrics-1.json", "metrics-2.json"]
    criteria = {check.name: check for check in pair.criteria}
    loaded = criteria["the second training loaded the first one's checkpoint"]
    assert loaded.reason == "continuing after epoch 2" and loaded.evidence[0].line, "with the file and the line"
    assert learned.reason == "learning-signal passed over 12 steps"
    assert [check.name for check in found.deliverables][:4] == [
        "Unit checks",
        "Save checks",
        "Local import of the toy",
        "Toy run",
    ]
    assert found.model == "tiny"
    assert "level-2-train: step 12/12" in world.said, "progress from the trainer's own lines"


@pytest.mark.parametrize(
    ("fault", "step", "words"),
    [
        ("nan", "level-0-smoke", "loss is nan at step 1"),
        ("raises", "level-0-smoke", "the toy's shapes do not match"),
        ("no-metrics", "level-0-smoke", "this run did not write"),
        ("forgets", "level-1-pair", "1 of 2 trainings did"),
        ("half", "level-1-pair", "epoch-4 is not complete"),
    ],
)
def test_its_faults_fail_the_level_that_shows_them(world: World, fault: str, step: str, words: str) -> None:
    procedure = world.procedure(world.toy_request("0,1"), TOY_FAULT=fault)
    found = procedure.run()
    failed = next(each for each in procedure.steps if each.verdict != "Pass")
    assert (found.result, failed.name, failed.verdict) == ("Fail", step, "Fail"), summary.text(found)
    assert words in failed.reason


@pytest.mark.parametrize(
    ("override", "step", "words"),
    [
        ("gpus.generation=8", "environment", "needs 10 GPUs (all parallel sizes 1; policy 2 + generation 8), 8 are here"),
        ("modle.name=x", "drift", "unknown key 'modle.name' (did you mean 'model.name'?)"),
        ("backend=other", "drift", "backend=other, not toy"),
    ],
)
def test_what_cannot_be_judged_is_blocked_before_anything_is_trained(world: World, override: str, step: str, words: str) -> None:
    procedure = world.procedure(world.toy_request("0", overrides=[override]))
    found = procedure.run()
    blocked = next(each for each in procedure.steps if each.verdict == "Blocked")
    assert (found.result, blocked.name) == ("Blocked", step) and words in blocked.reason, blocked.reason
    assert [each.verdict for each in procedure.steps if each.name.startswith("level")] == ["Skipped", "Skipped"]


def test_an_optional_run_that_fails_ends_nothing_decides_nothing_and_is_reported(world: World) -> None:
    procedure = world.procedure(world.toy_request("0,1"), TOY_FAULT="slow")
    found = procedure.run()
    assert found.result == "Pass", summary.text(found)
    assert [step.verdict for step in procedure.steps[-3:]] == ["Pass", "Fail", "Pass"]
    assert any(text.startswith("optional, and not decisive: level-0-fast: Fail - ") for text in found.limitations)


def test_a_script_that_starts_another_number_of_trainings_is_drift(world: World) -> None:
    script = world.toy / "levels/pair.sh"
    script.write_text(script.read_text().replace("first second", "first"))
    assert "pair.sh starts 1 trainings, not 2" in world.step("drift", world.toy_request("1")).reason


def test_stale_metrics_are_not_evidence(world: World) -> None:
    context = world.context(world.toy_request("0"), TOY_FAULT="no-metrics")
    out = context.folder.path / "trainer-output" / "level-0-smoke"
    out.mkdir(parents=True)
    (out / "smoke.json").write_text('{"score": {"1": 1, "2": 1}, "loss": {"1": 1, "2": 1}}')
    import os

    os.utime(out / "smoke.json", (1, 1))
    assert "this run did not write" in world.step("level-0-smoke", context=context).reason


def test_its_plan_shows_every_training_that_a_script_would_start(world: World) -> None:
    plan = plan_view.plan(world.context(world.toy_request("1")))
    [run] = plan["runs"]
    assert [argv[3] for argv in (run["starts"], *run["further_starts"])] == ["configs/first.yaml", "configs/second.yaml"]
    assert plan["tests"] == {"tests/test_toy.py": True, "tests/test_save.py": True} and not run["problems"]


def test_steps_set_only_what_the_description_calls_the_step_count(world: World) -> None:
    context = world.context(world.toy_request("2", steps=15, overrides=["speed=12"]))
    [one] = context.planned
    assert one.overrides == ["epochs=15", "speed=12"] and one.steps == [1, 15]


def test_no_file_of_the_project_names_the_toy() -> None:
    tracked = subprocess.run(
        ["git", "-C", str(PROJECT), "grep", "-lw", "toytrain"], capture_output=True, text=True
    ).stdout.split()
    assert all(file.startswith(("tests/e2e_fixtures/toy/", "tests/unit/e2e/")) for file in tracked), tracked


def test_gpus_of_colocated_roles_are_shared_and_others_add_up() -> None:
    roles = [Role("policy", 4, {"TP": 2}, 2), Role("generation", 3, {}, 1)]
    assert Gpus(roles).total == 4 and Gpus(roles, colocated=False).total == 7
    assert Gpus([Role("policy", 3, {"TP": 2}, 2)]).problem() == "3 GPUs are not a multiple of 2 (TP=2)"
    uneven = Gpus([Role("policy", 3, {"TP": 2}, 2), Role("generation", 1, {})], colocated=False)
    assert "3 GPUs of policy are not a multiple of 2" in uneven.problem()


def test_the_toy_is_described_by_one_module_and_one_file() -> None:
    assert sorted(file.name for file in fixtures.TOY.iterdir() if file.is_file()) == ["toy.py", "toy.yaml"]
