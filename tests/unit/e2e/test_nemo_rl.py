"""NeMo-RL's procedure over a checkout whose tests behave as the real ones: Pass, Fail and Blocked, each for its reason."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import e2e_checkouts as fixtures
import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.e2e import plan_view, summary
from mvp_helpers.e2e.requests import recommend
from mvp_helpers.e2e.requests.request import Request
from mvp_helpers.e2e.step import Step
from mvp_helpers.trainers.launch_preview import Launch
from mvp_helpers.trainers.nemo_rl.trainer import TRAINER, WORKER, WORKER_ENVIRONMENT

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.usefixtures("no_tests")
COPY = "3rdparty/Megatron-Bridge-workspace/Megatron-Bridge"


@pytest.fixture(autouse=True)
def uv(world: World) -> None:
    shutil.copy(fixtures.NEMO_RL / "uv", world.root / "bin" / "uv")


def request(world: World, levels: str = "0", *variants: str, **options: Any) -> Request:
    return world.request(levels, variants, description="nemo-rl", **options)


def trained(world: World, name: str, levels: str = "0", fault: str = "") -> tuple[Step, str]:
    """Return the step of a run, and why it did not pass: its reason and its criteria that were not met."""
    step = world.step(name, request(world, levels), FAKE_FAULT=fault)
    return step, "\n".join([step.reason, *(f"{check.name}: {check.reason}" for check in step.criteria if not check.met)])


def test_both_levels_pass_with_their_evidence_and_write_nothing_into_home(world: World, quick: None) -> None:
    stale = world.nemo_rl / "tests/functional/grpo_megatron/metrics.json"
    stale.parent.mkdir()
    stale.write_text('{"train/loss": {"1": 7}}')
    procedure = world.procedure(request(world, "0,1"))
    found = procedure.run()
    assert found.result == "Pass", summary.text(found)
    smoke, lora, diamond = (step for step in procedure.steps if step.name.startswith("level"))
    assert [smoke.name, lora.name, diamond.name] == ["level-0-smoke", "level-1-lora-save", "level-1-sft-resume-diamond"]
    criteria = {check.name: check.reason for check in smoke.criteria}
    shown = "policy.megatron_cfg.enabled=True, policy.dtensor_cfg.enabled=False"
    assert shown in criteria["the config that the training printed confirms it"]
    ratio = 'min(data["train/probs_ratio_clamped_min"]) > 0.79'
    assert criteria[f"metric: {ratio}"] == f"{ratio} (is 0.99)"
    assert criteria["every step was trained"].startswith("Max number of steps has been reached")
    place = Path(smoke.log).parent
    assert (place / "stale-metrics-1.json").read_text() == '{"train/loss": {"1": 7}}', "moved, not deleted"
    assert sorted(file.name for file in (place / "artifacts-1").iterdir()) == ["events.out.tfevents.1", "run.log"]
    legs = [f"metrics-{leg}.json" for leg in range(1, 6)]
    assert sorted(file.name for file in Path(diamond.log).parent.glob("metrics-*")) == legs, "each training has its own metrics"
    assert (procedure.folder.checkpoints / "level-1-lora-save/step_3/training_info.json").is_file()
    assert not (world.home / ".gitconfig").exists()
    names = [check.name for check in found.deliverables]
    assert "Local Bridge import in NeMo-RL" in names and "NeMo-RL Megatron policy run" in names and "Metrics/log capture" in names
    assert found.model == "Qwen/Qwen2.5-0.5B"
    assert any("tests/functional/<name>/" in text for text in found.limitations), "what is written into the checkout is told"


@pytest.mark.parametrize(
    ("fault", "verdict", "words"),
    [
        ("old-print", "Pass", ""),
        ("dtensor", "Fail", "the config that the training printed has policy.megatron_cfg.enabled=False, not True"),
        ("no-config", "Fail", "a config in the log cannot be read"),
        ("early", "Fail", "no metrics of step 2"),
        ("nan", "Fail", "train/token_mult_prob_error is nan"),
        ("infinite", "Fail", "train/grad_norm is inf"),
        ("mismatch", "Fail", "(is 1.4)"),
        ("no-events", "Fail", "this run did not write"),
        ("no-dump", "Blocked", "this run did not write"),
        ("old-metrics", "Fail", "this run did not write"),
        ("provider", "Fail", "Qwen2Provider"),
        ("data", "Blocked", "429 Client Error"),
    ],
)
def test_every_end_of_level_0_gets_an_honest_verdict(world: World, fault: str, verdict: str, words: str) -> None:
    step, why = trained(world, "level-0-smoke", "0", fault)
    assert step.verdict == verdict and words in why, why


@pytest.mark.parametrize(
    ("fault", "words"),
    [("no-checkpoint", "step_3/training_info.json"), ("empty-weights", "missing or empty"), ("no-reward", "(is 0.01)")],
)
def test_lora_fails_without_a_whole_checkpoint_or_a_reward(world: World, fault: str, words: str) -> None:
    step, why = trained(world, "level-1-lora-save", "1", fault)
    assert step.verdict == "Fail" and words in why, why


def test_a_resume_that_trains_otherwise_fails(world: World) -> None:
    step, why = trained(world, "level-1-sft-resume-diamond", "1", "resumes-worse")
    assert step.verdict == "Fail" and "the loss of step 2 is the same after a resume" in why, why


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("grpo.seq_logprob_error_threshold=2", "leaves sequences out"),
        ("++loss_fn.force_on_policy_ratio=true", "forces every ratio to 1"),
        ("policy.model_name=a b", "would split"),
    ],
)
def test_an_override_that_hides_failures_or_is_split_is_bad_input(world: World, override: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        request(world, overrides=[override])


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("loss_fn={force_on_policy_ratio:true}", "loss_fn.force_on_policy_ratio=True, not False"),
        ("policy.megatron_cfg.enabled=false", "policy.megatron_cfg.enabled=False, not True"),
        ("policy.megatron_cfg.converter_type=Qwen2", "does not accept 'policy.megatron_cfg.converter_type=Qwen2'"),
        ("policy.megatron_cfg.tensor_model_parallel_sise=2", "did you mean 'policy.megatron_cfg.tensor_model_parallel_size'?"),
    ],
)
def test_a_config_that_is_not_what_the_level_means_blocks_before_a_gpu_is_used(world: World, override: str, words: str) -> None:
    step = world.step("drift", request(world, overrides=[override]))
    assert step.verdict == "Blocked" and words in step.reason, step.reason


@pytest.mark.parametrize(
    ("overrides", "env", "words"),
    [
        (["cluster.gpus_per_node=16"], {}, "needs 16 GPUs"),
        (["policy.megatron_cfg.tensor_model_parallel_size=4"], {}, "2 GPUs are not a multiple of 4"),
        (
            ["policy.generation.colocated.enabled=false", "policy.generation.colocated.resources.gpus_per_node=2"],
            {},
            "2 GPUs of 2 generate",
        ),
        ([], {"NRL_IGNORE_TP_ACCURACY_CHECK": "1"}, "no run with it is evidence"),
    ],
)
def test_an_environment_in_which_nothing_could_be_shown_blocks(
    world: World, quick: None, overrides: list[str], env: dict[str, str], words: str
) -> None:
    try:
        step = world.step("environment", request(world, overrides=overrides), **env)
        told = step.texts if step.verdict == "Blocked" else []
    except BadInput as error:
        told = [error.what]
    assert any(words in text for text in told), told


def test_policy_and_generation_add_up_when_they_are_not_colocated() -> None:
    colocated = {"enabled": False, "resources": {"gpus_per_node": 2, "num_nodes": None}}
    config = {
        "cluster": {"gpus_per_node": 8, "num_nodes": 1},
        "policy": {
            "megatron_cfg": {"enabled": True, "tensor_model_parallel_size": 3},
            "generation": {"colocated": colocated, "vllm_cfg": {"tensor_parallel_size": 2}},
        },
    }
    gpus = TRAINER.gpus(config)
    assert gpus.total == 8 and gpus.problem() == "" and "policy 6 + generation 2" in gpus.reason


def test_a_revision_without_the_levels_script_and_reversed_checkouts_are_named(world: World) -> None:
    (world.nemo_rl / "tests/functional/grpo_megatron_lora.sh").unlink()
    plan = plan_view.plan(world.context(request(world, "0,1")))
    missing = "this nemo_rl checkout has no tests/functional/grpo_megatron_lora.sh"
    assert {run["name"]: run["problems"] for run in plan["runs"]}["level-1-lora-save"] == [missing]
    assert plan["problems"] == [f"level-1-lora-save: {missing}"], "the other levels can run"
    with pytest.raises(BadInput, match="it looks like nemo_rl: NEMO_RL_REPO"):
        request(world, env={"BRIDGE_REPO": str(world.nemo_rl), "NEMO_RL_REPO": str(world.bridge)})


def test_the_image_is_named_by_the_procedures_own_variable(world: World) -> None:
    images = {"NEMO_RL_IMAGE": "nemo-rl:1", "VERL_IMAGE": "verl:1"}
    assert request(world, env=images).image == "nemo-rl:1" and world.request("0", env=images).image == "verl:1"
    assert request(world, env=images, image="mine:2").image == "mine:2"


def test_a_level_that_is_not_offered_is_unknown(world: World) -> None:
    with pytest.raises(BadInput, match=r"nemo-rl has no level '7' \(levels: 0, 1, 2, 3, 4, 5, 6\)"):
        request(world, "7")


def test_the_plan_has_the_five_trainings_of_the_resume_and_the_workers_own_interpreter(world: World) -> None:
    plan = plan_view.plan(world.context(request(world, "1", "sft-resume")))
    [run] = plan["runs"]
    assert not run["problems"] and len([run["starts"], *run["further_starts"]]) == 5
    assert run["env"]["LOG_DIR"].endswith("trainer-output/sft-resume"), "which the script reads and does not set"
    assert not any("checkpoint_dir" in word for word in run["command"]), "one folder for all would mix both backends"
    assert "uv run --locked --extra mcore --directory" in plan["commands"]["imports"]
    assert "--mcore-only" in plan["commands"]["nemo-rl-megatron-checks"]


def test_the_policy_workers_own_interpreter_is_preferred(tmp_path: Path) -> None:
    launch = Launch(["uv", "run", "examples/run_grpo.py"], tmp_path, {"PATH": str(tmp_path / "bin")})
    assert TRAINER.interpreter(launch)[:2] == ["uv", "run"]
    made = tmp_path / "venvs" / WORKER_ENVIRONMENT / "bin" / "python"
    for file in (made, tmp_path / "bin" / WORKER):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
        file.chmod(0o755)
        assert TRAINER.interpreter(launch) == [str(file)]


def test_the_vendored_copy_counts_only_when_commit_and_changes_are_equal(world: World, answers: Callable[..., None]) -> None:
    copy = world.nemo_rl / COPY
    shutil.copytree(world.bridge, copy, symlinks=True)
    answers(
        **{
            "megatron.bridge": f"{copy}/src/megatron/bridge/__init__.py",
            "megatron.core": f"{world.bridge}/3rdparty/Megatron-LM/megatron/core/__init__.py",
            "nemo_rl": f"{world.nemo_rl}/nemo_rl/__init__.py",
        }
    )
    step = world.step("imports", request(world))
    assert step.verdict == "Pass", step.reason
    recorded = world.step("checkouts", context=world.context(request(world), run="other"))
    assert any(text.endswith("same commit and changes") for text in recorded.texts)
    file = world.bridge / "src/megatron/bridge/__init__.py"
    file.write_text("__version__ = '1'\n")
    step = world.step("imports", context=world.context(request(world), run="changed"))
    assert step.verdict == "Blocked" and "which is not the change under test: its changes differ" in step.reason, step.reason
    fixtures.git(world.bridge, "commit", "-qam", "change")
    step = world.step("imports", context=world.context(request(world), run="committed"))
    assert "which is not the change under test: it is at commit" in step.reason, step.reason


def test_megatron_core_must_be_at_the_commit_that_bridge_records(world: World) -> None:
    megatron = world.bridge / "3rdparty/Megatron-LM"
    fixtures.git(megatron, "commit", "-q", "--allow-empty", "-m", "another")
    step = world.step("checkouts", request(world))
    assert step.verdict == "Blocked" and "Megatron-LM is not at the commit that this checkout records" in step.reason


def test_what_a_change_requires_comes_with_the_command(world: World) -> None:
    (world.bridge / "src/megatron/bridge/peft").mkdir()
    (world.bridge / "src/megatron/bridge/peft/lora.py").write_text("x = 1\n")
    levels, changed = recommend.recommend("nemo-rl", "main", world.env)
    assert [each.number for each in levels if each.called_for] == [0, 1, 6] and changed == ["src/megatron/bridge/peft/lora.py"]
    from mvp_helpers.e2e.requests import description

    start = recommend.start(description.load("nemo-rl"), world.env)
    assert recommend.commands(levels, start)[0].endswith("./scripts/61_e2e_nemo_rl.sh --level 0,1,6")


def test_a_script_whose_assertion_is_no_comparison_of_metrics_is_drift(world: World) -> None:
    script = world.nemo_rl / "tests/functional/grpo_megatron.sh"
    script.write_text(script.read_text().replace("max(data[", "open(data["))
    step = world.step("drift", request(world))
    assert step.verdict == "Blocked" and "unknown function open" in step.reason, step.reason


def test_a_file_that_is_no_metrics_by_step_is_named(tmp_path: Path) -> None:
    for text in ("[1]", '{"a": 1}', '{"a": {"x": 1}}', "{"):
        (tmp_path / "metrics.json").write_text(text)
        with pytest.raises(BadInput, match="is not a file of metrics by name and step"):
            TRAINER.read_metrics(tmp_path / "metrics.json")
    (tmp_path / "metrics.json").write_text(json.dumps({"train/loss": {"1": 1}, "ray/mem": {"30": 2}}))
    assert TRAINER.training(TRAINER.read_metrics(tmp_path / "metrics.json")) == {1: {"train/loss": 1}}


def test_an_unfinished_printed_config_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "wrapper.log"
    log.write_text(
        "Final config:\nMasterConfig(policy={'a': 'it\\'s (', 'b': [1, -2.5]},\n  x=None)\nFinal config:\nDict({'a':\n"
    )
    assert TRAINER.printed_configs(log) == [{"policy": {"a": "it's (", "b": [1, -2.5]}, "x": None}, {}]
    log.write_text(
        "[mcore 1step] Final config:\n[mcore 1step] {'a': {'b': __import__('os').getpid()},\n[mcore 1step]  'c': Path('/x')}\n"
    )
    assert TRAINER.printed_configs(log) == [{"a": {"b": "__import__('os').getpid()"}, "c": "Path('/x')"}], "read, never run"
