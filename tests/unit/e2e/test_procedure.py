"""Script 60: every step of the end-to-end procedure, driven by fixture checkouts that behave as the real ones, traps included."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import e2e_checkouts as fixtures
import msgspec
import pytest

from mvp_helpers.base import processes
from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.base.paths import E2eRun
from mvp_helpers.e2e import checkouts, description, execute, launch, matrix, runs, summary, wrapper
from mvp_helpers.e2e.procedure import Procedure
from mvp_helpers.e2e.request import request_from
from mvp_helpers.e2e.step import Step
from mvp_helpers.e2e.summary import Summary

VERL = description.load("verl")


class World:
    """Two checkouts, a home, and a run whose slow steps (imports with a real Ray, tests, drift) have passed once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bridge = fixtures.make_bridge(root / "bridge")
        self.verl = fixtures.make_verl(root / "verl")
        self.env = dict(fixtures.environment(self.bridge, self.verl, fixtures.make_home(root / "home"), root / "bin"))
        self.said: list[str] = []
        self.count = 0
        self.passed: E2eRun | None = None

    def request(self, levels: str = "0", variants: tuple[str, ...] = (), model: str = "", **options: Any) -> Any:
        options = {"timeout_s": 60.0, "stall_s": 30.0, **options}
        return request_from("verl", levels, list(variants), model, self.env | options.pop("env", {}), **options)

    def fresh(self, request: Any, env: dict[str, str] | None = None) -> tuple[Summary, Procedure]:
        folder = runs.new(self.root / "runs", request)
        procedure = Procedure(folder, request, self.env | (env or {}), self.said.append)
        return procedure.run(), procedure

    def run(self, request: Any, take: tuple[str, ...] = ("imports", "bridge-checks"), **env: str) -> tuple[Summary, Procedure]:
        """A run that takes the slow steps from the first one, as a resume does."""
        if self.passed is None:
            _, procedure = self.fresh(self.request("0"))
            self.passed = procedure.folder
        folder = runs.new(self.root / "runs", request)
        for name in take:
            shutil.copytree(self.passed.path / "steps" / name, folder.path / "steps" / name)
        procedure = Procedure(folder, request, self.env | env, self.said.append)
        return procedure.run(), procedure

    def fault(self, fault: str, levels: str = "0", **options: Any) -> tuple[Summary, Step]:
        found, procedure = self.run(self.request(levels, **options), FAKE_FAULT=fault)
        return found, procedure.steps[-1]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("e2e"))


@pytest.fixture
def changed(world: World) -> Iterator[Callable[[Path, str], None]]:
    """Changes a file of a checkout until the end of the test."""
    before: dict[Path, bytes | None] = {}

    def change(path: Path, text: str) -> None:
        before.setdefault(path, path.read_bytes() if path.exists() else None)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    yield change
    for path, data in before.items():
        path.unlink() if data is None else path.write_bytes(data)


# -- a whole run -----------------------------------------------------------------------------------------------------------------


def test_a_level_0_run_passes_with_the_evidence_of_every_criterion(world: World) -> None:
    found, procedure = world.fresh(world.request("0"))
    world.passed = procedure.folder
    assert found.result == "Pass", summary.text(found)
    assert [step.verdict for step in procedure.steps] == ["Pass"] * 6
    proof = next(step for step in procedure.steps if step.name == "imports")
    assert f"driver: megatron.core = {world.bridge}/3rdparty/Megatron-LM/megatron/core/__init__.py" in proof.evidence
    assert f"worker: megatron.bridge = {world.bridge}/src/megatron/bridge/__init__.py" in proof.evidence
    run = procedure.steps[-1]
    assert "VANILLA_MBRIDGE=False: + VANILLA_MBRIDGE=False" in run.evidence
    assert any("step:1 … training/global_step:1" in text and "1/1" in text for text in run.evidence)
    assert "test_integration.py not in this checkout" in found.deliverables[0].reason, "a missing path is drift, not a failure"
    text = summary.text(found)
    heads = [
        "Result: Pass - ",
        "Requested coverage: Level 0",
        "Model: Qwen/Qwen2.5-0.5B",
        "Deliverables:",
        "- Bridge-side checks: Pass - ",
    ]
    heads += [
        "- Local Bridge import in verl: Pass - ",
        "- verl Megatron backend run: Pass - ",
        "- Requested variants: Not requested - ",
    ]
    heads += [
        "- Log capture: Pass - ",
        "Evidence:",
        "- Bridge repo: ",
        "- verl repo: ",
        "- Command: ",
        "- Key lines: + VANILLA_MBRIDGE=False",
    ]
    heads += ["Limitations:", "Follow-ups:"]
    at = [text.index(head) for head in heads]
    assert at == sorted(at), "the format's order"
    assert "converged" not in text
    assert "save/resume not run" in found.limitations and "no convergence claim" in found.limitations
    assert any(text.startswith("all parallel sizes 1") for text in found.limitations)
    assert any(text.startswith("reward model disabled") for text in found.limitations)
    stored = json.loads(procedure.folder.summary("json").read_text())
    assert (stored["result"], stored["evidence"]["verl repo"]) == ("Pass", dict(found.evidence)["verl repo"])
    assert procedure.folder.summary("md").read_text().startswith("**Result: Pass**")
    assert not list((world.verl).rglob("checkpoints")), "nothing is written into the checkout"


def test_resume_goes_on_from_a_checkpoint_and_does_not_count_one_from_scratch(world: World) -> None:
    found, procedure = world.run(world.request("1"))
    assert found.result == "Pass", summary.text(found)
    assert any("Resuming from" in text and "global_step_1" in text for text in procedure.steps[-1].evidence)
    assert "save/resume not run" not in found.limitations
    scratch, step = world.fault("from-scratch", "1")
    assert (scratch.result, step.name) == ("Fail", "level-1-resume")
    assert "from scratch" in step.reason, step.reason
    nothing, step = world.fault("no-checkpoint", "1")
    assert nothing.result == "Fail" and "checkpoint" in nothing.sentence


def test_a_learning_signal_is_the_strongest_word(world: World) -> None:
    found, procedure = world.run(world.request("5"))
    assert found.result == "Pass" and procedure.steps[-1].reason == "learning-signal passed over 20 steps"
    assert any("Mann-Kendall" in text for _, text in found.evidence)
    assert any("no benchmark convergence" in text for text in found.limitations)
    for fault, words in {
        "nan": "actor/loss:nan",
        "zero-gradients": "zero 20 steps in a row",
        "flat": "flat reward",
        "falls": "fell",
        "frozen": "PEFT has trainable parameters",
    }.items():
        found, step = world.fault(fault, "5")
        assert found.result == "Fail" and words in step.reason, (fault, step.reason)
    baseline = world.root / "baseline.jsonl"
    baseline.write_text(
        "".join(json.dumps({"step": n, "data": {"critic/score/mean": 0.9 + n / 100}}) + "\n" for n in range(1, 21))
    )
    found, procedure = world.run(world.request("5", baseline=str(baseline)))
    assert found.result == "Fail" and "below the baseline" in procedure.steps[-1].reason
    found, procedure = world.run(world.request("5", steps=50))
    assert procedure.steps[-1].reason == "learning-signal passed over 50 steps"


@pytest.mark.parametrize(
    ("fault", "verdict", "words"),
    [
        ("data", "Blocked", "Unable to find"),
        ("provider", "Fail", "Qwen2Provider"),
        ("secondary-first", "Fail", "linear_qkv"),
        ("dies-in-step", "Fail", "is invalid for input of size"),
        ("exit-code", "Fail", "exit code 3"),
        ("silent-exit", "Fail", "no metric line for step 1"),
        ("vanilla", "Fail", "vanilla bridge"),
        ("nan", "Fail", "nan"),
        ("noise", "Pass", ""),
    ],
)
def test_every_end_gets_an_honest_verdict(world: World, fault: str, verdict: str, words: str) -> None:
    found, step = world.fault(fault)
    assert (found.result, step.verdict) == (verdict, verdict), summary.text(found)
    assert words in step.reason
    if verdict == "Blocked":
        assert "not evidence against" in found.sentence
    if fault == "noise":
        assert any("leaked shared_memory" in text for text in found.limitations), "residual noise is listed"
    if verdict != "Pass":
        assert found.follow_ups and f"--resume {found.run}" in found.follow_ups[-1]


def test_a_hang_ends_in_a_verdict_and_leaves_nothing_running(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "TERM_S", 1.0)
    found, step = world.fault("deaf", stall_s=1.0)
    assert found.result == "Blocked" and step.outcome and step.outcome.ended == "stall", step.reason
    assert step.outcome.left_behind, "what detached itself was found"
    assert not processes.holding(execute.MARK, Path(found.run).name)
    found, step = world.fault("hang", timeout_s=1.0)
    assert step.outcome and step.outcome.ended == "timeout"


def test_a_checkout_that_changes_while_it_is_tested_is_no_evidence(world: World, changed: Callable[[Path, str], None]) -> None:
    file = world.bridge / "src/megatron/bridge/__init__.py"
    changed(file, file.read_text())
    found, step = world.fault("edits")
    assert found.result == "Blocked" and f"tracked files of {world.bridge} have changed" in step.reason
    assert "a checkout (git worktree add)" in found.follow_ups[0]


def test_a_passed_step_is_not_run_again_and_a_changed_checkout_stops_a_resume(
    world: World, changed: Callable[[Path, str], None]
) -> None:
    _, first = world.run(world.request("0,1"), FAKE_FAULT="no-checkpoint")
    assert [step.name for step in first.steps if step.verdict == "Fail"] == ["level-1-save"]
    again = Procedure(first.folder, first.request, world.env, world.said.append)
    found = again.run()
    assert found.result == "Pass", summary.text(found)
    assert len(first.folder.tries("level-0-smoke")) == 1, "not run again"
    assert [place.name for place in first.folder.tries("level-1-save")] == ["try-1", "try-2"], "and nothing overwritten"
    changed(world.bridge / "src/megatron/bridge/__init__.py", "x = 1\n")
    with pytest.raises(BadInput, match="has changed since"):
        Procedure(first.folder, first.request, world.env, world.said.append).run()


# -- further levels --------------------------------------------------------------------------------------------------------------

EXPERTS = ["actor_rollout_ref.actor.megatron.expert_tensor_parallel_size=1"]
IMAGES = "data.train_files={}/data/geo3k/train.parquet"
MTP = ["actor_rollout_ref.model.mtp.enable=True"]
QAT = ["actor_rollout_ref.rollout.quantization=fp8"]


@pytest.mark.parametrize(
    ("levels", "variants", "model", "overrides", "log", "limit"),
    [
        ("2", (), "", [], "tensor model parallel with size 2, pipeline 2", "COMMON_EP=1"),
        ("2", ("moe",), "Qwen/moe", [], "expert 2", "save/resume not run"),
        ("3", (), "", [], "Wrapping with Megatron-FSDP", "all parallel sizes 1"),
        ("4", ("vlm",), "Qwen/vl", [IMAGES], "step:1 ", "the vision encoder"),
        ("4", ("moe",), "Qwen/moe", EXPERTS, "expert 2", "save/resume not run"),
        ("4", ("mtp",), "Qwen/mtp", MTP, "step:1 ", "save/resume not run"),
        ("4", ("qat",), "", QAT, "step:1 ", "save/resume not run"),
    ],
)
def test_every_further_level_runs_to_a_pass(
    world: World, levels: str, variants: tuple[str, ...], model: str, overrides: list[str], log: str, limit: str
) -> None:
    given = [text.format(world.env["HOME"]) for text in overrides]
    found, procedure = world.run(world.request(levels, variants, model, overrides=given))
    assert found.result == "Pass", summary.text(found)
    run = procedure.steps[-1]
    assert run.name.startswith(f"level-{levels}") and log in Path(run.log).read_text()
    assert any(text.startswith(limit) for text in found.limitations), found.limitations
    assert any(text.startswith("text-only") for text in found.limitations) == (variants != ("vlm",))
    commands = " ".join(value for name, value in found.evidence if name.startswith("Command"))
    assert all(text in commands for text in given), "what was switched on is in the report"
    variant = next(one for one in found.deliverables if one.name == "Requested variants")
    assert variant.verdict == "Pass" and f"level {levels}" in variant.reason
    assert any(name.startswith("Resolved config") for name, _ in found.evidence)


@pytest.mark.parametrize(
    ("levels", "fault", "boundary"),
    [("2", "finalised-alone", "parallel state"), ("3", "fsdp", "AssertionError"), ("2", "exit-code", "exit code 3")],
)
def test_a_further_level_that_fails_says_where(world: World, levels: str, fault: str, boundary: str) -> None:
    found, step = world.fault(fault, levels)
    assert (found.result, step.verdict) == ("Fail", "Fail"), summary.text(found)
    assert boundary in step.reason


@pytest.mark.parametrize(
    ("levels", "variants", "model", "overrides", "words"),
    [
        ("2", (), "", ["actor_rollout_ref.actor.megatron.tensor_model_parallel_size=1"], "tensor_model_parallel_size=1, not 2"),
        ("2", ("moe",), "", [], "no model for 'EP 2, for a MoE model'"),
        ("4", ("moe",), "", EXPERTS, "no model for 'expert routing'"),
        ("4", ("vlm",), "", [IMAGES], "no model for 'images or video'"),
        ("4", ("vlm",), "Qwen/vl", ["data.train_files={}/data/gsm8k/train.parquet"], "hold nothing in images or videos"),
        ("4", ("mtp",), "", MTP, "no model for 'multi-token prediction'"),
    ],
)
def test_a_run_that_would_not_exercise_its_feature_is_blocked_before_a_gpu_is_used(
    world: World, levels: str, variants: tuple[str, ...], model: str, overrides: list[str], words: str
) -> None:
    given = [text.format(world.env["HOME"]) for text in overrides]
    found, procedure = world.run(world.request(levels, variants, model, overrides=given))
    drift = next(step for step in procedure.steps if step.name == "drift")
    assert (found.result, drift.verdict, procedure.steps[-1].verdict) == ("Blocked", "Blocked", "Skipped")
    assert words in drift.reason, drift.reason
    variant = next(one for one in found.deliverables if one.name == "Requested variants")
    assert variant.verdict == "Skipped" and "drift is Blocked" in variant.reason


def test_one_level_that_fails_leaves_the_later_ones_skipped_and_the_earlier_ones_passed(world: World) -> None:
    found, procedure = world.run(world.request("0,2,3"), FAKE_FAULT="finalised-alone")
    assert [step.verdict for step in procedure.steps[-3:]] == ["Pass", "Fail", "Skipped"]
    verdicts = {one.name: one.verdict for one in found.deliverables}
    assert verdicts["verl Megatron backend run"] == "Pass" and verdicts["Requested variants"] == "Fail"
    assert found.result == "Fail" and "level-2-dense-stress" in found.sentence


def test_a_dummy_model_is_made_anew_for_each_run_and_admitted(world: World, tmp_path: Path) -> None:
    config = fixtures.write_variant(tmp_path / "new", num_experts=4) / "config.json"
    env = {"USE_DUMMY_MODEL": "True", "DUMMY_MODEL_CONFIG_PATH": str(config)}
    found, procedure = world.run(world.request("0", env=env), **env)
    assert found.result == "Pass", summary.text(found)
    assert (procedure.folder.path / "dummy-model" / "config.json").read_text() == config.read_text()
    assert any(text.startswith("dummy model") for text in found.limitations)


def test_a_baseline_checkout_is_run_beside_the_candidate(world: World, changed: Callable[[Path, str], None]) -> None:
    base = world.root / "baseline-bridge"
    if not base.exists():
        fixtures.make_bridge(base)
    found, procedure = world.fresh(world.request("5", baseline=str(base)))
    assert found.result == "Pass", summary.text(found)
    names = [step.name for step in procedure.steps]
    assert names[-2:] == ["level-5-baseline", "level-5-train"] and "imports-baseline" in names
    assert (
        f"worker: megatron.bridge = {base}/src/megatron/bridge/__init__.py"
        in procedure.steps[names.index("imports-baseline")].evidence
    )
    assert dict(found.evidence)["baseline repo"].endswith("clean")
    assert any("against the baseline" in text for text in procedure.steps[-1].learning)
    assert str(base) in procedure.steps[-2].env["PYTHONPATH"] and str(base) not in procedure.steps[-1].env["PYTHONPATH"]


def test_a_baseline_that_fails_too_blocks_because_it_was_broken_before(world: World) -> None:
    base = world.root / "baseline-bridge"
    if not base.exists():
        fixtures.make_bridge(base)
    request = world.request("5", baseline=str(base))
    procedure = Procedure(
        runs.new(world.root / "runs", request), request, world.env | {"FAKE_FAULT": "provider"}, world.said.append
    )
    procedure.states = []
    step = procedure._step("level-5-baseline", "baseline", procedure._wrapper(procedure.planned[0]))
    assert step.verdict == "Blocked" and step.reason.startswith("the unchanged code does not pass either: provider")


def test_a_setup_command_runs_first_is_evidence_and_blocks_when_it_fails(world: World) -> None:
    request = world.request("0", setup="echo installed > $HOME/setup-ran", image="verlai/verl:some-tag")
    found, procedure = world.run(request)
    assert found.result == "Pass" and [step.name for step in procedure.steps][:3] == ["checkouts", "setup", "environment"]
    assert Path(world.env["HOME"], "setup-ran").read_text() == "installed\n"
    assert "the environment was prepared by: echo installed > $HOME/setup-ran" in found.limitations
    assert dict(found.evidence)["Container image, as given"] == "verlai/verl:some-tag"
    found, procedure = world.run(world.request("0", setup="echo no such package >&2; exit 7"))
    assert found.result == "Blocked" and "exit code 7" in found.sentence and "no such package" in found.sentence


def test_the_person_watching_hears_that_a_quiet_run_still_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mvp_helpers.e2e.procedure.QUIET_S", 0.5)
    world.fault("hang", timeout_s=3.0)
    assert any("its log's last line: +" in text for text in world.said)


# -- before anything is started --------------------------------------------------------------------------------------------------


def test_an_import_from_elsewhere_blocks_in_driver_and_worker(world: World, tmp_path: Path) -> None:
    shadow = tmp_path / "shadow"
    (shadow / "megatron" / "core").mkdir(parents=True)
    (shadow / "megatron" / "core" / "__init__.py").write_text("")
    found, procedure = world.fresh(world.request("0"), {"FAKE_SHADOW": str(shadow)})
    proof = next(step for step in procedure.steps if step.name == "imports")
    assert (found.result, proof.verdict) == ("Blocked", "Blocked")
    assert f"driver: megatron.core comes from {shadow}" in proof.reason
    assert [step.verdict for step in procedure.steps][-3:] == ["Skipped"] * 3, "no later result counts"


def test_a_failing_focused_test_fails_and_pytest_that_runs_nothing_is_no_pass(
    world: World, changed: Callable[[Path, str], None]
) -> None:
    test = world.bridge / "tests/unit_tests/models/test_param_mapping.py"
    place = iter(range(10))

    def verdict(text: str, of: str = str(test.relative_to(world.bridge))) -> Step:
        changed(test, text)
        request = world.request("0", tests=[of])
        folder = E2eRun(world.root / f"tests-{next(place)}")
        procedure = Procedure(folder, request, world.env, world.said.append)
        return procedure._step("bridge-checks", "tests", procedure._tests)

    assert verdict("def test_mapping():\n    assert False\n").verdict == "Fail"
    assert verdict("import nothing_like_this\n").verdict == "Blocked"
    gone = verdict("def test_mapping():\n    assert True\n", f"{test.relative_to(world.bridge)}::test_gone")
    assert (gone.verdict, "pytest ran no such test" in gone.reason) == ("Blocked", True), gone.reason
    new = world.bridge / "tests/unit_tests/models/test_new.py"
    changed(new, "def test_new():\n    assert True\n")
    usage = verdict("", of="tests/unit_tests/models/test_new.py::test_gone")
    assert (usage.verdict, "exit code 4" in usage.reason) == ("Skipped", True), usage.reason
    other = world.bridge / "tests/unit_tests/models/test_model_provider_mixin.py"
    changed(other, "")
    empty = verdict("")
    assert (empty.verdict, "exit code 5" in empty.reason) == ("Skipped", True), empty.reason


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"NUM_GPUS": "16"}, "needs 16 GPUs"),
        ({"ROCR_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0"}, "ROCR_VISIBLE_DEVICES"),
        ({"TRAIN_FILES": "/no/such/train.parquet"}, "does not exist"),
        ({"MODEL_ID": "Qwen/Other"}, "the model is not at"),
        ({"USE_DUMMY_MODEL": "True"}, "DUMMY_MODEL_CONFIG_PATH"),
        ({"FAKE_UV": "1"}, "'uv', which is not on the PATH"),
        ({"MVP_E2E_PYTHONPATH": ""}, "has no module 'modelopt'"),
        ({"E2E_FREE_GB": "1e9"}, "GB free"),
        ({"RAY_ADDRESS": "127.0.0.1:9"}, "nothing answers there"),
    ],
)
def test_an_environment_that_lacks_something_blocks_with_what_to_do(world: World, env: dict[str, str], words: str) -> None:
    _, procedure = world.run(world.request("0", env=env), **env)
    step = procedure.steps[1]
    assert (step.name, step.verdict) == ("environment", "Blocked")
    assert any(words in text for text in [step.reason, *step.evidence]), step


def test_missing_data_are_prepared_with_the_checkouts_own_script(world: World, tmp_path: Path) -> None:
    env = {"TRAIN_FILES": str(tmp_path / "new/train.parquet"), "VAL_FILES": str(tmp_path / "new/test.parquet")}
    found, procedure = world.run(world.request("0", env=env), FAKE_FAULT="no-hub", **env)
    assert found.result == "Blocked" and "the data could not be prepared: " in found.sentence
    assert "Couldn't reach" in found.sentence
    found, procedure = world.run(world.request("0", env=env), **env)
    assert found.result == "Pass", summary.text(found)
    assert any("examples/data_preprocess/gsm8k.py --local_save_dir" in text for text in procedure.steps[1].evidence)


def test_a_submodule_that_nobody_checked_out_blocks_with_the_command(world: World, tmp_path: Path) -> None:
    fixtures.git(world.bridge, "worktree", "add", "-q", str(tmp_path / "bridge"))
    env = {"BRIDGE_REPO": str(tmp_path / "bridge")}
    found, procedure = world.run(world.request("0", env=env), **env)
    fixtures.git(world.bridge, "worktree", "remove", "--force", str(tmp_path / "bridge"))
    assert found.result == "Blocked" and "3rdparty/Megatron-LM is empty" in found.sentence
    assert "environment fix: git submodule update --init --recursive" in found.follow_ups
    assert any("bridge: submodule -" in text for text in procedure.steps[0].evidence)
    _, whole = world.run(world.request("0"))
    assert any("bridge: submodule" in text and "3rdparty/Megatron-LM" in text for text in whole.steps[0].evidence)


def test_a_limit_that_is_no_number_is_named(world: World) -> None:
    with pytest.raises(BadInput, match="E2E_FREE_GB=much is not a number"):
        world.run(world.request("0"), E2E_FREE_GB="much")


def test_parquet_of_the_wrong_kind_is_named(world: World, tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"question": ["1"]}), tmp_path / "train.parquet")
    (tmp_path / "test.parquet").write_text("no parquet")
    env = {"TRAIN_FILES": str(tmp_path / "train.parquet"), "VAL_FILES": str(tmp_path / "test.parquet")}
    _, procedure = world.run(world.request("0", env=env), **env)
    texts = "\n".join(procedure.steps[1].evidence)
    assert "lacks the column data_source" in texts and "is no readable parquet file" in texts


def test_a_revision_that_ignores_a_variable_blocks_the_level_that_needs_it(
    world: World, changed: Callable[[Path, str], None]
) -> None:
    script = world.verl / VERL.wrapper.script
    old = "\n".join(line for line in script.read_text().splitlines() if "USE_MEGATRON_FSDP" not in line) + "\n"
    changed(script, old)
    procedure = Procedure(E2eRun(world.root / "RUN"), world.request("0,3"), world.env, world.said.append)
    smoke, fsdp = (procedure.checked(one) for one in procedure.planned)
    assert smoke.problems == [] and "always behaves like USE_MEGATRON_FSDP=False" in smoke.notes[0]
    assert "does not read USE_MEGATRON_FSDP" in fsdp.problems[0]


def test_an_override_that_the_checkouts_config_refuses_blocks_before_a_gpu_is_used(world: World) -> None:
    request = world.request("0", overrides=["actor_rollout_ref.rollout.enforce_eagre=True"])
    procedure = Procedure(E2eRun(world.root / "RUN"), request, world.env, world.said.append)
    assert "did you mean 'actor_rollout_ref.rollout.enforce_eager'" in procedure.checked(procedure.planned[0]).problems[0]
    vanilla = world.request("0", overrides=["actor_rollout_ref.actor.megatron.vanilla_mbridge=True"])
    procedure = Procedure(E2eRun(world.root / "RUN"), vanilla, world.env, world.said.append)
    assert procedure.checked(procedure.planned[0]).problems == [
        "the resolved config has actor_rollout_ref.actor.megatron.vanilla_mbridge=True, not False"
    ]


def test_the_plan_shows_every_command_and_writes_nothing(world: World) -> None:
    procedure = Procedure(E2eRun(world.root / "nowhere" / "RUN"), world.request("0,1,2"), world.env, world.said.append)
    found = runs.plan(procedure)
    assert [run["name"] for run in found["runs"]] == ["level-0-smoke", "level-1-save", "level-1-resume", "level-2-dense-stress"]
    stress = found["runs"][3]
    assert (stress["env"]["COMMON_TP"], stress["env"]["COMMON_PP"], stress["env"]["NUM_GPUS"]) == ("2", "2", "4")
    assert stress["starts"][:3] == ["python3", "-m", "verl.trainer.main_ppo"] and stress["problems"] == []
    assert "bash tests/special_e2e/run_ppo_trainer_megatron.sh" in runs.show_plan(found)
    assert not (world.root / "nowhere").exists()


def test_a_preview_starts_nothing_that_a_wrapper_calls(tmp_path: Path) -> None:
    script = tmp_path / "wrapper.sh"
    script.write_text('set -eu\nrm -rf "$PWD/kept"\nray stop\npython3 -m my.trainer a=1 "b=${B:-x y}" $@\n')
    (tmp_path / "kept").touch()
    seen = wrapper.preview(script, tmp_path, "my.trainer", {"B": "two words"}, ["c=3"])
    assert (tmp_path / "kept").exists() and seen.overrides == ["a=1", "b=two words", "c=3"]
    script.write_text("set -eu\necho $MISSING\npython3 -m my.trainer\n")
    with pytest.raises(Blocked, match="MISSING: unbound variable"):
        wrapper.preview(script, tmp_path, "my.trainer", {}, [])
    script.write_text('set -x\ncase $(python3 -) in cuda) python3 -m my.trainer ;; *) echo "Unknown device" && exit 1 ;; esac\n')
    assert wrapper.preview(script, tmp_path, "my.trainer", {}, []).argv == ["python3", "-m", "my.trainer"]
    with pytest.raises(Blocked, match="Unknown device"):
        wrapper.preview(script, tmp_path, "my.trainer", {}, [], "cpu")


# -- what is asked for -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levels": "7"}, "is no level"),
        ({"variants": ("dense",)}, "belongs to level 2"),
        ({"variants": ("dens",)}, "did you mean 'dense'"),
        ({"levels": "4"}, "needs a variant"),
        ({"levels": "4", "variants": ("vlm",)}, "text-only"),
        ({"levels": "4", "variants": ("vlm",), "overrides": ["trainer.x=1"]}, "text-only"),
        ({"levels": "4", "variants": ("mtp",), "overrides": ["actor_rollout_ref.model.mtp.enable=False"]}, "switches MTP on"),
        ({"levels": "0", "baseline": "/no/such.jsonl"}, "none of the levels is"),
        ({"levels": "5", "baseline": "/usr"}, "--baseline=/usr is not a git checkout"),
        ({"overrides": ["a=b c"]}, "takes it apart"),
        ({"overrides": ["a=*"]}, "takes it apart"),
        ({"overrides": ["nothing"]}, "is no override"),
        ({"model": "/no/such/model"}, "no config.json"),
        ({"levels": "5", "baseline": "/no/such.jsonl"}, "cannot read"),
        ({"env": {"BRIDGE_REPO": ""}}, "BRIDGE_REPO is not set"),
        ({"env": {"BRIDGE_REPO": "/no/such"}}, "is not a folder"),
        ({"env": {"BRIDGE_REPO": "/usr"}}, "is not a git checkout"),
    ],
)
def test_bad_input_is_one_clear_message(world: World, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        world.request(options.pop("levels", "0"), **options)
    assert words in caught.value.what and "\n" not in caught.value.what


def test_the_wrong_repository_in_a_variable_is_recognised(world: World) -> None:
    with pytest.raises(BadInput, match=r"it looks like verl: VERL_REPO"):
        world.request("0", env={"BRIDGE_REPO": str(world.verl)})


def test_a_feature_run_records_the_override_that_switches_it_on(world: World) -> None:
    request = world.request("4", ("mtp",), overrides=["+actor_rollout_ref.model.mtp.enable=True"])
    planned = matrix.plan(VERL, request.levels, request.variants, request.env, request.overrides)
    assert [one.name for one in planned] == ["level-4-mtp-smoke"] and planned[0].overrides == request.overrides


def test_dirty_files_their_diff_and_submodules_are_recorded_and_nothing_is_changed(
    world: World, tmp_path: Path, changed: Callable[[Path, str], None]
) -> None:
    changed(world.bridge / "src/megatron/bridge/__init__.py", "API_TOKEN = 'abcdefghijklmnop'\n")
    changed(world.bridge / "new.py", "x = 1\n")
    state = checkouts.record("bridge", world.bridge, tmp_path)
    assert sorted(state.dirty) == ["new.py", "src/megatron/bridge/__init__.py"] and "2 dirty" in state.tell()
    diff = (tmp_path / "bridge.diff").read_text()
    assert "-__version__ = '0'" in diff and "abcdefghijklmnop" not in diff
    before = state.fingerprint
    changed(world.bridge / "new.py", "x = 2\n")
    assert checkouts.record("bridge", world.bridge, tmp_path).fingerprint != before, "untracked files count"


def test_changed_files_call_for_levels_with_the_tables_reason(world: World, changed: Callable[[Path, str], None]) -> None:
    changed(world.bridge / "src/megatron/bridge/peft/lora.py", "")
    recommended, files = runs.recommend("verl", "main", world.env)
    called = {one.number for one in recommended if one.called_for}
    assert files == ["src/megatron/bridge/peft/lora.py"] and called == {0, 1, 5}
    shown = runs.show_recommended(recommended, files)
    assert "--level 0,1,5" in shown and VERL.levels[1].when in shown
    none, _ = matrix.recommend(VERL, ["README.md"]), None
    assert "no level" in runs.show_recommended(none, ["README.md"])
    with pytest.raises(BadInput, match="cannot compare"):
        runs.recommend("verl", "no-such-branch", world.env)


def test_gpus_that_the_sizes_need_are_counted() -> None:
    def needed(**sizes: str) -> int:
        return matrix.gpus_needed(VERL, VERL.env | sizes)[0]

    assert needed() == 1
    assert needed(COMMON_TP="2", COMMON_PP="2", INFER_TP="2") == 4
    assert needed(COMMON_EP="2") == 2
    assert needed(COMMON_TP="2", INFER_TP="4") == 4
    with pytest.raises(BadInput, match="is not a parallel size"):
        needed(COMMON_TP="two")


def test_gpus_of_a_cluster_are_those_of_its_best_node(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer's nnodes is 1: GPUs of several nodes do not add up."""
    import ray

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ray.init(num_gpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=str(world.root / "ray"))
    try:
        address = ray.get_runtime_context().gcs_address
        env = {"RAY_ADDRESS": address, "NUM_GPUS": "4", "RAY_AUTH_MODE": "disabled"}
        found, procedure = world.run(world.request("0", env=env), take=("bridge-checks",), **env)
    finally:
        ray.shutdown()
    assert procedure.steps[1].verdict == "Pass", "what this machine has does not count"
    proof = procedure.steps[2]
    assert (found.result, proof.verdict) == ("Blocked", "Blocked")
    assert f"needs 4 GPUs (all parallel sizes 1), 2 are on a node of the Ray cluster at {address}" in proof.reason


def test_limitations_follow_from_what_was_run() -> None:
    def limits(overrides: list[str] | None = None, **given: str) -> list[str]:
        return matrix.limitations(VERL, matrix.plan(VERL, [0], [], given, overrides or []))

    assert any(text.startswith("dummy model") for text in limits(USE_DUMMY_MODEL="True"))
    assert any(text.startswith("eager mode") for text in limits(["actor_rollout_ref.rollout.enforce_eager=True"]))
    assert any("PEFT" in text for text in limits(LORA_RANK="0"))
    both = matrix.limitations(VERL, matrix.plan(VERL, [0, 1, 2], [], {}, []))
    assert not any("save/resume" in text or "parallel sizes 1" in text for text in both), "another run of the request shows it"
    assert not any("eager" in text or "dummy" in text or "PEFT" in text for text in limits())


# -- running ---------------------------------------------------------------------------------------------------------------------


def test_an_exit_status_is_the_commands_own_and_its_log_is_whole_and_masked(tmp_path: Path) -> None:
    env = {**os.environ, "MY_API_TOKEN": "hunter2-hunter2"}
    argv = ["bash", "-c", "echo out; echo err >&2; echo $MY_API_TOKEN; exit 7"]
    outcome = execute.run(argv, tmp_path, env, tmp_path / "log", "mark", 30, 30)
    assert (outcome.ended, outcome.exit_code) == ("exit", 7)
    assert (tmp_path / "log").read_text() == "out\nerr\n***\n"
    killed = execute.run(["bash", "-c", "kill -9 $$"], tmp_path, env, tmp_path / "log2", "mark", 30, 30)
    assert killed.exit_code == 137
    absent = execute.run(["/no/such/command"], tmp_path, env, tmp_path / "log3", "mark", 30, 30)
    assert (absent.ended, absent.exit_code) == ("not started", 127)
    with pytest.raises(FileExistsError):
        execute.run(argv, tmp_path, env, tmp_path / "log", "mark", 30, 30)


def test_an_interrupt_while_a_command_starts_leaves_nothing_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute.run(["sleep", "600"], tmp_path, dict(os.environ), tmp_path / "log", "started", 60, 60)
    assert not processes.holding(execute.MARK, "started")


def test_the_same_procedure_is_launched_elsewhere_with_both_checkouts_mounted(world: World) -> None:
    request = world.request("0", overrides=["a=1"], image="verlai/verl:x")
    runs_folder = world.root / "runs"

    def start(via: str, image: str = "verlai/verl:x") -> launch.Elsewhere:
        own = msgspec.structs.replace(request, image=image)
        return launch.Elsewhere(via=via, request=own, runs=runs_folder, options=["--partition=gpu"], json=True)

    def argv(via: str, image: str = "verlai/verl:x") -> list[str]:
        return launch.argv(start(via, image), world.env)

    slurm = argv("slurm")
    assert slurm[0] == "srun" and "--container-image=verlai/verl:x" in slurm and "--partition=gpu" in slurm
    mounts = next(word for word in slurm if word.startswith("--container-mounts="))
    assert f"{world.bridge}:{world.bridge}" in mounts and f"{world.verl}:{world.verl}" in mounts
    assert slurm[slurm.index("--override") + 1] == "a=1" and "--via" not in slurm
    assert f"BRIDGE_REPO={world.bridge}" in slurm and "RAY_ADDRESS=local" in slurm
    assert not any("container" in word for word in argv("slurm", ""))
    docker = argv("docker")
    assert docker[:2] == ["docker", "run"] and f"{world.verl}:{world.verl}" in docker and f"BRIDGE_REPO={world.bridge}" in docker
    assert docker[docker.index("--gpus") + 1] == "all" and docker[docker.index("--image") + 1] == "verlai/verl:x"
    batch = argv("sbatch")
    assert batch[0] == "sbatch" and any(word.startswith("--wrap=srun ") for word in batch)
    spec = json.loads(launch.jobspec(start("ray"), world.env))
    assert spec["workload"] == "e2e" and json.loads(spec["env_vars"]["E2E_ARGUMENTS"])[:2] == ["--description", "verl"]
    with pytest.raises(BadInput, match="--image is needed"):
        argv("docker", "")
    with pytest.raises(BadInput, match="not one of docker, slurm, sbatch, ray"):
        argv("ssh")


def test_the_summary_is_found_in_a_log_in_both_formats(world: World) -> None:
    found, _ = world.run(world.request("0"), FAKE_FAULT="data")
    noise = "step 1\n{\n not json\n"
    assert summary.in_log(noise + summary.text(found) + "\n") == (summary.text(found), 3)
    as_json, code = summary.in_log(noise + summary.as_json(found).decode() + "job ended\n")
    assert (json.loads(as_json)["result"], code) == ("Blocked", 3)
    with pytest.raises(Blocked, match="holds no summary"):
        summary.in_log(noise)


# -- descriptions ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", description.names())
def test_every_description_is_read_and_a_mistake_in_one_is_named(name: str, tmp_path: Path) -> None:
    found = description.load(name)
    file = tmp_path / "mine.yaml"
    file.write_text((description.FOLDER / f"{name}.yaml").read_text().replace("parallel:", "paralel:", 1))
    with pytest.raises(BadInput, match="did you mean 'parallel'"):
        description.load(str(file))
    assert found.levels and msgspec.json.encode(found)
